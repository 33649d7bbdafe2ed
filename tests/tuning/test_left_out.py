"""What a play-off leaves out where the budget is too small for it, and says so; by formulas."""

import pytest

from a3gnn.tuning.play_off import ALTERNATIONS, SEEDS, play_off
from tests.tuning.measured import MODE1, TWO_PARTS


@pytest.mark.parametrize(
    ("spent_s", "expected"), [(45.0, ["seed"]), (61.0, ["finalists", "seed", "alternations with the default"])]
)
def test_a_budget_that_is_too_small_says_what_it_leaves_out(measured, spent_s: float, expected: list[str]) -> None:
    tune = measured(TWO_PARTS, MODE1, budget=60.0, spent_s=spent_s, trial_s=2.0)
    choice = play_off(tune.history, tune.runner)
    for words in expected:
        assert any(words in left_out for left_out in choice.left_out)
    assert len(tune.executor.whole) < 2 * (1 + SEEDS)
    assert choice.judged.metrics.test_accuracy == 0.5  # by formula: its whole training is never left out
    if spent_s > 60:
        assert (choice.against is None) or choice.against.throughput.repeats < ALTERNATIONS


@pytest.mark.parametrize("budget", [5, 600.0])
def test_a_budget_that_is_large_enough_leaves_nothing_out(measured, budget: float) -> None:
    tune = measured(TWO_PARTS, MODE1, budget=budget, trial_s=2.0)
    choice = play_off(tune.history, tune.runner)
    assert choice.left_out == ()
    assert choice.against.throughput.repeats == ALTERNATIONS

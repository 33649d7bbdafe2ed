"""Samplers of Optuna in place of a tune's own rule, as `benchmarks.live_tunes` compares them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from optuna.trial import FrozenTrial

from a3gnn.measurement import Failure, FailureKind
from a3gnn.tuning.beliefs.expectations import fit_surrogate, tried_rows
from a3gnn.tuning.engines.propose import ROUND_TRIALS, problem_of, round_trials
from a3gnn.tuning.run.rounds import explore
from a3gnn.tuning.study.history import History
from benchmarks.acquisition import sampler_proposals
from benchmarks.acquisition.sampler_proposals import SAMPLERS, SamplerProposals, Suggester
from tests.tuning.measured import FOUR_PARTS, MODE1, TWO_PARTS, Measured

MiB = 2**20


@pytest.fixture
def made(measured: Callable[..., Measured]) -> Measured:
    """The default and three others, under a limit on memory."""
    return measured(TWO_PARTS, FOUR_PARTS, MODE1, memory_limit=600 * MiB, max_accuracy_drop=3.0, budget=10)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_round_is_new_distinct_and_decided_by_its_seed(made: Measured, name: str) -> None:
    history, surrogate = made.history, fit_surrogate(made.history)
    first, again = (SamplerProposals(SAMPLERS[name], seed=3)(history, surrogate) for _ in range(2))
    assert first.proposals == again.proposals
    assert len(first.proposals) == round_trials(history) == 3
    assert first.gain == np.inf, "the budget ends it, not what is expected"
    rows = {history.space.encode(one.config.canonical()).tobytes() for one in first.proposals}
    assert len(rows) == 3
    assert not rows & tried_rows(history)


def test_a_tune_measures_what_a_sampler_proposes(made: Measured) -> None:
    before = len(made.history.trials)
    proposer = SamplerProposals(SAMPLERS["Optuna TPE"], seed=0)
    explored = explore(made.history, fit_surrogate(made.history), made.runner, proposer)
    found = [trial.reason for trial in explored.history.trials[before:]]
    assert len(found) >= ROUND_TRIALS
    assert set(found) == {"best"}


def told_of(history: History) -> dict[str, FrozenTrial]:
    """Returns what a sampler is told of each trial of `history`, by the configuration's key."""
    problem = problem_of(history, fit_surrogate(history))
    suggester = Suggester(history.space, SAMPLERS["Optuna TPE"])
    keys = [trial.measurement.config.key() for trial in history.trials]
    return dict(zip(keys, sampler_proposals._found(suggester, history, problem), strict=True))


def test_a_sampler_is_told_what_trials_found_and_by_how_much_limits_are_broken(made: Measured) -> None:
    history = made.history
    told, limits = told_of(history), history.objectives.limits
    assert limits.host_bytes
    assert limits.least_accuracy
    for one in history.measured():
        found = told[one.trial.measurement.config.key()]
        figures = one.figures
        assert found.constraints["memory"] == pytest.approx(np.log2(figures.peak_host_bytes / limits.host_bytes))
        assert figures.val_accuracy is not None
        assert found.constraints["accuracy"] == pytest.approx(limits.least_accuracy - figures.val_accuracy)
        assert found.values == pytest.approx([-history.objectives.measured_score([figures])[0]])
    assert told[FOUR_PARTS.key()].constraints["accuracy"] > 0, "it loses four points, and three are allowed"
    assert told[TWO_PARTS.key()].constraints["accuracy"] < 0


def test_a_sampler_is_told_that_a_trial_was_killed(made: Measured) -> None:
    history, last = made.history, made.history.trials[-1]
    killed = Failure(FailureKind.OUT_OF_MEMORY, "passed the limit", 700 * MiB, 1.0)
    measurement = dataclasses.replace(last.measurement, outcome=killed)
    history = dataclasses.replace(
        history, trials=(*history.trials[:-1], dataclasses.replace(last, measurement=measurement))
    )
    found = told_of(history)[last.measurement.config.key()]
    assert found.constraints["memory"] > 0

"""What a tune says of each trial."""

from a3gnn.tuning.run.runner import describe_trial
from a3gnn.tuning.study.budget import Budget
from tests.tuning.measured import MODE1, TWO_PARTS


def test_the_best_is_said_to_be_that_of_what_was_measured(measured) -> None:
    """A tune that is stopped chooses what is believed to be the best: many trials' luckiest need not be that."""
    history = measured(TWO_PARTS, MODE1).history
    said = [describe_trial(trial, history, Budget(5)).splitlines()[-1] for trial in history.trials]
    assert said[2].startswith("    [the best measured so far, ")
    assert all(line.startswith("    [best measured so far ") for line in said[:2])

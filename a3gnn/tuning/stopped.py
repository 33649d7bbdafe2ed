"""From a tune that is stopped to a choice: the best that was measured until then, without a play-off."""

from __future__ import annotations

import dataclasses

from a3gnn.tuning.choice import STOPPED, Choice, Judged
from a3gnn.tuning.finish import finish
from a3gnn.tuning.history import History
from a3gnn.tuning.infeasible import nothing_fits
from a3gnn.tuning.journal import Journal
from a3gnn.tuning.result import TuneResult
from a3gnn.tuning.runner import Runner
from a3gnn.units import count


def finish_stopped(history: History, runner: Runner) -> TuneResult:
    """Returns the result of a tune that is asked to stop: the best of the trials in its journal, as each measured it.

    The tune counts as finished with what it has spent, so that one resumed with the same budget goes on.

    Args:
        history: As it was when this run began; the trials since then are in the journal.
        runner: Knows the folder and the time.

    Raises:
        KeyboardInterrupt: Nothing was measured yet.
        InfeasibleError: Nothing that was measured keeps the limits.
    """
    journal = Journal(runner.folder)
    trials = tuple(one for one in journal.read() if not one.measurement.failed_by_chance)
    if not trials:
        raise KeyboardInterrupt("the tune was stopped before anything was measured")
    history = dataclasses.replace(history, trials=trials, timings=tuple(journal.timings()))
    runner.notify(
        f"stopped after {count(runner.budget.trials, 'trial')}: the best so far is chosen, without a play-off"
    )
    best = history.best()
    if best is None:
        raise nothing_fits(history, {})
    judged = Judged(best.metrics, best.figures)
    choice = Choice(best.trial, judged, None, None, left_out=(STOPPED,))
    result = finish(history, choice, (), runner)
    budget = runner.budget
    runner.finished_budget = budget.trials if budget.in_trials else budget.elapsed_s
    return result

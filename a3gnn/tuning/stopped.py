"""From a tune that is stopped to a choice: the best that was measured until then, without a play-off."""

from __future__ import annotations

import dataclasses

from a3gnn.tuning.believed import believed
from a3gnn.tuning.choice import STOPPED, Choice, Judged
from a3gnn.tuning.expectations import fit_surrogate
from a3gnn.tuning.finish import finish
from a3gnn.tuning.history import History
from a3gnn.tuning.infeasible import nothing_fits
from a3gnn.tuning.journal import Journal
from a3gnn.tuning.kept_surrogate import kept_surrogate
from a3gnn.tuning.result import TuneResult
from a3gnn.tuning.runner import Runner
from a3gnn.units import count


def finish_stopped(history: History, runner: Runner) -> TuneResult:
    """Returns the result of a tune that is asked to stop: the best of the trials in its journal, as `believed`.

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
    surrogate = kept_surrogate(history.first(0), runner.notify)
    best = next(iter(believed(history, fit_surrogate(history, surrogate))), None)
    figures = None if best is None else history.figures(best.trial)
    if best is None or figures is None:
        raise nothing_fits(history, {})
    choice = Choice(best.trial, Judged(best.metrics, figures), None, None, left_out=(STOPPED,))
    result = finish(history, choice, (), runner)
    budget = runner.budget
    spent = budget.trials if budget.in_trials else budget.elapsed_s
    runner.state = dataclasses.replace(runner.state, finished_budget=spent)
    return result

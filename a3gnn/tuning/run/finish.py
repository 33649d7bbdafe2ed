"""Finishes a tune: writes and reports the result of a choice, or of an early stop."""

from __future__ import annotations

import dataclasses

from a3gnn.figures import THROUGHPUT_AGAIN, Reference
from a3gnn.measurement import Failure, Metrics
from a3gnn.notify import detail
from a3gnn.threads import wait_policy
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.beliefs.expectations import believed, fit_surrogate
from a3gnn.tuning.beliefs.kept_surrogate import kept_surrogate
from a3gnn.tuning.outcome.result import SearchSummary, TuneResult, write_result
from a3gnn.tuning.run.runner import Runner
from a3gnn.tuning.study.choice import STOPPED, Choice, Judged
from a3gnn.tuning.study.folder import Journal
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.limits import nothing_fits, training_limits
from a3gnn.tuning.study.measured_front import measured_front
from a3gnn.units import count, format_duration
from a3gnn.version import versions


def finish(history: History, choice: Choice, search: SearchSummary, runner: Runner) -> TuneResult:
    """Writes and reports the result of a tune, marks the tune as finished, and returns the result."""
    request, setting, objectives = history.study.request, history.study.setting, history.objectives
    config, budget = choice.trial.measurement.config, runner.budget
    budget.end()
    reference = _at_verified_speed(history, choice)
    seconds = choice.judged.figures.seconds
    tuned = TunedConfig(
        config=config,
        setting=setting,
        spec=request.spec,
        limits=training_limits(history, config, choice.judged.figures),
        predicted=choice.trial.predicted,
        measured=choice.judged.metrics,
        default=_of_default(history, choice),
        seeds={"tune": request.seed, "task": setting.task.seed},
        versions=versions(),
        wait_policy=wait_policy.of_trials(),
        target_accuracy=objectives.limits.least_accuracy,
        seconds_to_accuracy=seconds.to_dict() if seconds else None,
        default_budget_s=reference.budget_s if reference else None,
        drift=history.reference.budget_s / reference.budget_s if history.reference and reference else 1.0,
        still_rising=history.still_rising,
        settling_budget_s=history.settling_budget_s,
        expected_final=None if (end := history.expected_final) is None else end._asdict(),
        final={name: one._asdict() for name, one in choice.final.items()} or None,
        rate_alone=choice.rate_alone._asdict() if choice.rate_alone else None,
        against_default=choice.against.to_dict() if choice.against else None,
        left_out=choice.left_out,
        no_gain=choice.no_gain.to_dict() if choice.no_gain else None,
        heuristics=history.study.heuristics or None,
    )
    if line := _two_clocks(history, choice):
        runner.notify(line)
    result = TuneResult(runner.folder, tuned, measured_front(history, choice), search, budget.trials, budget.elapsed_s)
    write_result(result, runner.notify)
    runner.state = dataclasses.replace(runner.state, finished_budget=request.budget)
    if search.evaluations:
        runner.notify(detail(_describe(search)))
    return result


def _again(history: History, choice: Choice) -> Judged | None:
    """Returns the baseline's results in the verification; None if it was not measured there."""
    trial = history.reference_trial
    if choice.default is not None or trial is None or choice.reference is None or not history.has_default_reference:
        return choice.default
    return choice.judged if trial.measurement.config == choice.trial.measurement.config else None


def _at_verified_speed(history: History, choice: Choice) -> Reference | None:
    """Returns the reference in the seconds of the baseline's runs in the verification, as all its other figures are."""
    again, trained = _again(history, choice), history.reference_metrics
    reference = choice.reference or history.reference
    if reference is None or again is None or trained is None or trained.curve is None or reference.final:
        return reference
    return dataclasses.replace(reference, budget_s=again.metrics.pace.seconds(trained.curve.trained))


def _two_clocks(history: History, choice: Choice) -> str:
    """Returns that the baseline was faster or slower in its trial than in the verification; "" if it was not."""
    again, before = _again(history, choice), history.reference_figures
    if again is None or before is None:
        return ""
    now = again.figures
    shown = now.throughput_epochs_per_s, before.throughput_epochs_per_s
    form = "{:.3g} epochs/s"
    if history.objectives.priority.time:
        if now.seconds_to_accuracy is None or before.seconds_to_accuracy is None:
            return ""
        shown, form = (now.seconds_to_accuracy, before.seconds_to_accuracy), "{:.3g} s"
    if 1 / THROUGHPUT_AGAIN < shown[0] / shown[1] < THROUGHPUT_AGAIN:
        return ""
    return (
        f"baseline: {form.format(shown[1])} in its single trial above, {form.format(shown[0])} in the verification "
        "below, which measured it again"
    )


def _of_default(history: History, choice: Choice) -> Metrics | Failure | None:
    """Returns the default's metrics from the verification, or else the outcome of its first trial; None without one."""
    if choice.default is not None:
        return choice.default.metrics
    beside = history.reference_trial if history.has_default_reference else None
    if beside is not None and beside.measurement.config == choice.trial.measurement.config:
        return choice.judged.metrics
    return history.default.measurement.outcome if history.default else None


def _describe(search: SearchSummary) -> str:
    return (
        f"search   {search.engine}, {count(search.evaluations, 'prediction')} in {format_duration(search.seconds)}; "
        f"the space has {search.configurations:,} configurations"
    )


def finish_stopped(history: History, runner: Runner) -> TuneResult:
    """Finishes a tune that was asked to stop: chooses the best trial in its journal, as `believed`.

    The tune counts as finished with the budget spent so far, so resuming it with the same budget continues it.

    Args:
        history: The history when this run began; the journal contains the trials since then.
        runner: Knows the folder and the elapsed time.

    Raises:
        KeyboardInterrupt: Nothing was measured yet.
        InfeasibleError: No measured configuration keeps the limits.
    """
    journal = Journal(runner.folder)
    trials = tuple(one for one in journal.read() if not one.measurement.failed_by_chance)
    if not trials:
        raise KeyboardInterrupt("the tune was stopped before anything was measured")
    history = dataclasses.replace(history, trials=trials, timings=tuple(journal.timings()))
    runner.notify(
        f"stopped after {count(runner.budget.trials, 'trial')}: the best so far is the choice, without verification"
    )
    surrogate = kept_surrogate(history.first(0), runner.notify)
    best = next(iter(believed(history, fit_surrogate(history, surrogate))), None)
    figures = None if best is None else history.figures(best.trial)
    if best is None or figures is None:
        raise nothing_fits(history, {})
    choice = Choice(best.trial, Judged(best.metrics, figures), None, None, left_out=(STOPPED,))
    result = finish(history, choice, SearchSummary(history.study.request.engine), runner)
    budget = runner.budget
    spent = budget.trials if budget.in_trials else budget.elapsed_s
    runner.state = dataclasses.replace(runner.state, finished_budget=spent)
    return result

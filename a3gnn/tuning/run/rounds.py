"""Runs the trials: references, then the proposals of an engine, until the budget ends or nothing is worth a trial."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from a3gnn.config import TrainConfig
from a3gnn.errors import InfeasibleError, ModelError
from a3gnn.measurement import Failure, FailureKind
from a3gnn.notify import detail
from a3gnn.option_names import option
from a3gnn.profiling.request import OPENING
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.expectations import (
    TrialCost,
    expected_required_s,
    expected_trial_s,
    fit_surrogate,
    smallest_memory,
)
from a3gnn.tuning.beliefs.importance import knob_importance
from a3gnn.tuning.engines.engine import Engine
from a3gnn.tuning.outcome.result import SearchSummary
from a3gnn.tuning.run.blocks import BlockCost, least_reserve_s, reserve_s
from a3gnn.tuning.run.runner import Runner
from a3gnn.tuning.study.history import DEFAULT_TOLERANCE, History
from a3gnn.tuning.study.importance import keep_importance
from a3gnn.tuning.study.limits import failed_in_time_alone
from a3gnn.tuning.study.measured_front import keep_predicted_front
from a3gnn.tuning.study.quality import race_of, rung_s, trains_whole
from a3gnn.tuning.study.study import DEFAULT_PEAK
from a3gnn.tuning.study.trial import LONGER, Proposal, Trial
from a3gnn.tuning.tell.trial_lines import heading
from a3gnn.units import count, format_duration, format_seconds, format_size, short_duration
from a3gnn_surrogate.surrogate import Surrogate

#: Trials of the default if it sets the memory limit, and the share of the budget's seconds that the repetitions may
#: take. On one graph, four trials of the default peaked at 458 to 469 MiB and one at 420.
_DEFAULT_TRIALS, _DEFAULT_SHARE = 3, 0.1
#: Seconds of a trial from which the importance of knobs is written after it; writing takes .05 to .1 s, 2 %.
_SLOW_TRIAL_S = 5.0
#: Factor of a race's named budget for its further evaluations. Guess: twice the steps have 11 more (`next_point`).
_EVALUATED = 1.1

#: Returns the seconds to reserve for the verification, of at most so many.
_Reserve: TypeAlias = Callable[[History, float], float]


class Explored(NamedTuple):
    """The beliefs after all trials, and statistics of the search."""

    beliefs: Beliefs
    search: SearchSummary


def warn_of_short_budget(history: History, runner: Runner) -> bool:
    """Returns whether the default's trial and a whole training, which every tune runs, may exceed the budget; warns.

    In a race, the first trial and its verification may do so; what they take is known after the default's trial.
    """
    budget, races = runner.budget, history.study.request.races
    if races and (history.default is None or race_of(history) is not None):
        return False
    required_s = expected_required_s(history)
    least_s = budget.elapsed_s + required_s * (1 + 1 / (1 if history.default else 2))  # with one more trial
    what = f"{'' if history.default else 'The baseline and '}the choice's whole training run anyway and"
    if races and history.reference is not None:
        required_s, least_s, what = *_race_s(history, budget.elapsed_s), "That trial and its verification by two seeds"
    is_short = required_s > budget.left_s
    if is_short and least_s < math.inf:
        runner.notify(
            f"the budget is short: a tune with one trial needs about "
            f"{option('budget', short_duration(least_s))} here. {what} may take {format_duration(required_s)}"
        )
    return is_short


def _race_s(history: History, elapsed_s: float) -> tuple[float, float]:
    """Returns the expected seconds of a race's first trial and its verification, and the budget that holds them.

    Trainings take shares of the budget, the baseline's too. Their evaluations grow more slowly.
    """
    study, cost = history.study, TrialCost.of(history)

    def needed_s(history: History) -> float:
        return reserve_s(history, 0.0) + cost.seconds(rung_s(history, 0))

    twice = dataclasses.replace(study.request, budget=2 * study.longest_s)
    grown_s = needed_s(dataclasses.replace(history, study=dataclasses.replace(study, request=twice)))
    required_s = needed_s(history)
    trained_s = study.quality_s + (grown_s - required_s) / (1 + cost.eval_share)
    left = 1 - trained_s / study.longest_s  # of a budget; a machine that has become much slower leaves none
    return required_s, _EVALUATED * (elapsed_s + required_s - trained_s) / left if left > 0 else math.inf


def measure_references(history: History, surrogate: Surrogate, runner: Runner) -> History:
    """Measures the study's baseline; if it does not fit, the same configuration with features on disk.

    If a larger budget continues the tune, and the default was to train longer under it, it is trained on. If
    the default sets the memory limit, it is measured up to three times, because the peak of one trial is partly luck.

    Raises:
        InfeasibleError: The default is to set the memory limit, but all its trials failed.
        ModelError: The default's trial failed, and the model is the user's own.
    """
    baseline = history.study.baseline
    if history.default is None:
        if baseline.feature_tier == "disk":
            rows = format_size(history.study.setting.graph.feature_bytes)
            runner.notify(f"features of {rows} do not fit in memory; the baseline reads them from disk")
        history = runner.measure(Proposal("default", baseline), Beliefs(history, surrogate))
    elif runner.continues and history.reference_is_short:
        config = history.reference_trial.measurement.config if history.reference_trial else baseline
        history = runner.measure(Proposal(LONGER, config), Beliefs(history, surrogate))
    _refuse_a_failing_model(history)
    if not history.has_default_reference:
        is_late = _took_too_long(history.default)
        why = "the baseline took too long" if is_late else "the baseline does not fit"
        from_disk = TrainConfig(feature_tier="disk")
        is_tried = any(trial.measurement.config == from_disk for trial in history.trials)
        if not is_tried and (not is_late or _took_too_long(history.default, OPENING)):
            what = "took too long to open" if is_late else "does not fit in memory"
            runner.notify(f"the baseline {what}; trying it with features on disk")
            history = runner.measure(Proposal("default", from_disk), Beliefs(history, surrogate))
            why = "this does not fit either"
        if not history.has_default_reference:
            runner.notify(f"{why}, so trials are compared with the best {history.study.setting.metric.label} measured")
    if history.study.request.memory_limit == DEFAULT_PEAK:
        history = _repeat_default(history, surrogate, runner)
        runner.notify(_describe_limit(history))
    if history.still_rising:
        runner.notify(_describe_unsettled(history))
    reference, unlearnt, metric = history.reference, history.study.unlearnt, history.study.setting.metric
    if history.objectives.priority.time and (line := _describe_early(history)):
        runner.notify(line)
    if reference is not None and reference.target <= unlearnt:
        same = "popularity" if "popularity" in history.study.heuristics else "predicting the same for all"
        learned = f"the baseline has learned no more than {metric.show(reference.val_accuracy)}, and "
        runner.notify(
            f"{learned if reference.val_accuracy < unlearnt else ''}a target of {metric.show(reference.target)} needs "
            f"no learning: {same} has a "
            f"validation {metric.label} of {metric.show(unlearnt)}. Give a better {option('target_accuracy')}"
        )
    return history


def _repeat_default(history: History, surrogate: Surrogate, runner: Runner) -> History:
    """Repeats the reference's trial within a share of the budget; a resumed tune runs only the missing repetitions."""
    reference, trial = history.reference, history.reference_trial
    if reference is None or trial is None or not history.has_default_reference:
        return history
    budget, more = runner.budget, _DEFAULT_TRIALS - 1
    if not budget.in_trials:
        more = min(more, int(budget.total * _DEFAULT_SHARE / TrialCost.of(history).seconds(reference.budget_s)))
    while sum(one.reason == "default" and one.measurement.metrics is not None for one in history.trials) <= more:
        before = len(history.trials)
        proposal = Proposal("default", trial.measurement.config)
        history = runner.measure_again(proposal, Beliefs(history, surrogate))
        if history.trials[before].measurement.metrics is None:
            break
    return history


def _took_too_long(trial: Trial | None, where: str = "") -> bool:
    """Returns whether the time of `trial` ended, in the step `where` if that is given."""
    outcome = None if trial is None else trial.measurement.outcome
    if not isinstance(outcome, Failure) or outcome.kind is not FailureKind.TIMEOUT:
        return False
    return outcome.detail.startswith(where)


def _refuse_a_failing_model(history: History) -> None:
    """Raises a `ModelError` if a user's own model made the default's trial fail."""
    task = history.study.setting.task
    outcome = None if history.default is None else history.default.measurement.outcome
    kinds = (FailureKind.CRASHED, FailureKind.INVALID, FailureKind.TIMEOUT)
    by_model = isinstance(outcome, Failure) and outcome.kind in kinds and not _took_too_long(history.default, OPENING)
    if task.is_own and isinstance(outcome, Failure) and by_model:
        more = f"; a larger {option('budget')} gives it more" if outcome.kind is FailureKind.TIMEOUT else ""
        raise ModelError(
            f"{task.model} can't be trained by the baseline configuration:\n{outcome.detail.rstrip()}{more}"
        )


def _describe_unsettled(history: History) -> str:
    """Returns that the reference still improved when it ended, how long it would take, and what trials do about it."""
    reference, settling_s, budget_s = history.reference, history.settling_s, history.settling_budget_s
    assert reference is not None, "it improves"
    assert settling_s is not None, "it improves"
    assert budget_s is not None, "it improves"
    trained = format_seconds(reference.budget_s)
    return (
        f"the baseline was still improving after {trained} of training, and may take {format_duration(settling_s)}; "
        f"trials are compared after {trained} ({option('budget', short_duration(budget_s))} settles half of such tunes)"
    )


def _describe_early(history: History) -> str:
    """Returns that the reference reaches the target sooner than a trial is ready to train; "" if it does not."""
    reference, figures, around_s = history.reference, history.reference_figures, TrialCost.of(history).around_s
    required_s = None if figures is None else figures.seconds_to_accuracy
    if reference is None or required_s is None or required_s >= around_s:
        return ""
    instead = "" if history.study.setting.task.is_own else " (recommend needs no trial)"
    return f"one training takes {format_seconds(required_s)}: a tune pays only for many{instead}"


def _describe_limit(history: History) -> str:
    if history.default_bytes is None:
        outcomes = [trial.measurement.outcome for trial in history.trials if trial.reason == "default"]
        failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        raise InfeasibleError(
            f"{option('memory_limit', 'baseline')} is the baseline's peak, but none of its trials succeeded (the last "
            f"one: {failures[-1].describe()}); give {option('memory_limit')} a size"
        )
    return (
        f"memory limit: {format_size(history.default_bytes)}, the baseline's largest peak plus {DEFAULT_TOLERANCE:.0%}"
    )


def explore(history: History, surrogate: Surrogate, runner: Runner, engine: Engine) -> Explored:
    """Measures the proposals of `engine` one by one, until the budget ends or it proposes none.

    Where speed counts, the reference is timed before each trial, and the trial is judged by the timings before and
    after it.

    If nothing rivals the reference when only the verification's seconds are left, there is little to verify: trials go
    on until `least_reserve_s` is left.

    Args:
        history: The references, and the trials of earlier runs.
        surrogate: Fitted to the corpus of the study.
        runner: Runs the trials.
        engine: Chooses the trials.
    """
    if history.reference is not None:
        runner.notify(heading(history))
    evaluations, seconds, reserve = 0, 0.0, reserve_s
    while True:
        due = runner.timing_is_due(history)
        timing_s = BlockCost(history).run_s(None, None) if due else 0.0
        left_s = runner.budget.left_s - _reserved_s(history, runner, reserve) - timing_s
        around_s = TrialCost.of(history).around_s
        ended = _why_no_more(history, runner, timing_s + around_s, reserve)
        if due and not ended:
            history = runner.time_reference(history)
        beliefs = beliefs_after(history, surrogate)
        proposal: Proposal | None = None
        if not ended:
            begun = time.monotonic()
            proposal = _first_asked(beliefs) or next(iter(engine.propose(beliefs, 1, left_s)), None)
            if beliefs.evaluations:
                keep_predicted_front(runner.folder, beliefs.predicted_front())
            seconds, evaluations = seconds + time.monotonic() - begun, evaluations + beliefs.evaluations
            ended = _why_not(proposal, beliefs, runner, reserve)
        if ended and reserve is reserve_s and not history.rivals and not runner.budget.in_trials:
            reserve = least_reserve_s
            continue
        if ended or proposal is None:
            break
        if history.trials and history.trials[-1].measurement.seconds >= _SLOW_TRIAL_S:
            _keep_importance(beliefs, runner)
        history = runner.measure(proposal, beliefs)
        if trains_whole(beliefs.history) and not trains_whole(history):
            runner.notify(
                "on the whole graph, that shape failed or takes long for a step, so shapes train in mini-batches"
            )
        if race_of(beliefs.history) is None and (race := race_of(history)) is not None and (line := race.describe()):
            runner.notify(line)
        if runner.is_stopped_by(history):
            beliefs, ended = beliefs_after(history, surrogate), "the callback asked for that"
            break
    end = f"the search ends after {count(runner.budget.trials, 'trial')}: {ended}"
    runner.notify(detail(end) if beliefs.history.rivals else end)
    _keep_importance(beliefs, runner)
    search = SearchSummary(history.study.request.engine, evaluations, history.space.num_distinct, seconds)
    return Explored(beliefs, search)


def _first_asked(beliefs: Beliefs) -> Proposal | None:
    """Returns the next trial that the user asked for (`TuneRequest.enqueue`); None if all have run."""
    space, tried = beliefs.space, {one.measurement.config.key() for one in beliefs.history.trials}
    for trial in beliefs.history.study.request.enqueue:
        config = space.decode(space.row_of(dict(trial)))
        if config.key() not in tried:
            return Proposal("enqueued", config)
    return None


def _keep_importance(beliefs: Beliefs, runner: Runner) -> None:
    found = knob_importance(beliefs.history, beliefs.surrogate)
    if found is not None:
        keep_importance(runner.folder, found)


def beliefs_after(history: History, surrogate: Surrogate) -> Beliefs:
    """Returns the beliefs after the trials of `history`.

    Args:
        history: The trials.
        surrogate: Fitted to the corpus alone. Its slow parts are reused, always those of this surrogate, so that a
            resumed tune believes the same as an uninterrupted one.
    """
    return Beliefs(history, fit_surrogate(history, surrogate) if history.trials else surrogate)


def _reserved_s(history: History, runner: Runner, reserve: _Reserve) -> float:
    """Returns the seconds of the budget that are reserved for the verification: by `reserve`, or all for a rival."""
    budget = runner.budget
    if budget.in_trials:
        return 0.0
    return (reserve_s if history.rivals else reserve)(history, budget.verification_s)


def _why_no_more(history: History, runner: Runner, trial_s: float, reserve: _Reserve) -> str:
    """Returns why the budget affords no trial of `trial_s` seconds beside the verification; "" if it does."""
    budget, reserved_s = runner.budget, _reserved_s(history, runner, reserve)
    return "" if budget.affords(trial_s, reserved_s) else budget.describe_end(trial_s, reserved_s)


def _why_not(proposal: Proposal | None, beliefs: Beliefs, runner: Runner, reserve: _Reserve) -> str:
    """Returns why `proposal` gets no trial; "" if it does. Not every engine heeds the seconds left."""
    if proposal is None:
        return "no other trial is worth its time"
    history = beliefs.history
    trial_s = expected_trial_s(beliefs.surrogate, history, proposal.config.canonical(), history.drift)
    return _why_no_more(history, runner, trial_s, reserve)


def measure_smallest(beliefs: Beliefs, runner: Runner) -> History:
    """If nothing measured fits in memory, measures the configuration with the least predicted memory.

    Its trial may exceed the limit (`BEYOND`), to find the smallest limit that would do. It is skipped if such a trial
    was run before, if nothing points to memory as the cause, or if no configuration is left to try.
    """
    history = beliefs.history
    if history.fits_memory() or any(trial.reason == "smallest" for trial in history.trials):
        return history
    kinds = {failure.kind for failure in history.failures()}
    if kinds and FailureKind.OUT_OF_MEMORY not in kinds and not history.inside():
        return history  # nothing says that it is the memory
    if not history.inside() and any(failed_in_time_alone(failure, history) for failure in history.failures()):
        return history  # another configuration would have to be faster, not smaller
    smallest = smallest_memory(beliefs.surrogate, history)
    if smallest is None:
        return history
    return runner.measure_beyond(Proposal("smallest", smallest), beliefs)

"""Runs the trials: references, then rounds of proposals until the budget ends or the front stops growing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.errors import InfeasibleError, ModelError
from a3gnn.measurement import Failure, FailureKind
from a3gnn.notify import detail
from a3gnn.option_names import option
from a3gnn.search.run import SearchResult
from a3gnn.tuning.beliefs.expectations import (
    TrialCost,
    believed,
    expected_required_s,
    expected_trial_s,
    fit_surrogate,
    smallest_memory,
)
from a3gnn.tuning.engines.propose import MIN_GAIN, Proposed, propose
from a3gnn.tuning.run.plans import PlayOffCost, reserve_s
from a3gnn.tuning.run.runner import Runner
from a3gnn.tuning.study.history import DEFAULT_TOLERANCE, History
from a3gnn.tuning.study.measured_front import keep_predicted_front, measured_hypervolume
from a3gnn.tuning.study.study import DEFAULT_PEAK
from a3gnn.tuning.study.trial import Proposal, Trial
from a3gnn.tuning.tell.trial_lines import heading
from a3gnn.units import count, format_duration, format_size
from a3gnn_surrogate.surrogate import Surrogate

#: Trials of the default if it sets the memory limit, and the share of the budget's seconds that the repetitions may
#: take. Guesses: on one graph, four trials of the default peaked at 458 to 469 MiB and one at 420.
_DEFAULT_TRIALS, _DEFAULT_SHARE = 3, 0.1
#: A round that adds less than the share `MIN_GAIN` to the measured hypervolume has stalled. So many stalled rounds in a
#: row end the exploration, once something beats the default and no candidate is expected to improve by `MIN_GAIN`.
#: Guess.
_STALLS = 2


#: Takes the trials so far and the surrogate fitted to them, and returns the next trials.
Proposer = Callable[[History, Surrogate], Proposed]


class Explored(NamedTuple):
    """The history after all rounds, the last fitted surrogate, and the searches that proposed the trials."""

    history: History
    surrogate: Surrogate
    searches: tuple[SearchResult, ...] = ()


class Round(NamedTuple):
    """The history after a round, and why it measured nothing; "" if it did measure."""

    history: History
    ended: str


def warn_of_short_budget(history: History, runner: Runner) -> None:
    """Prints a warning if the default's trial and a whole training, which every tune runs, may exceed the budget."""
    required_s, left_s = expected_required_s(history), runner.budget.left_s
    if required_s > left_s:
        runner.notify(
            f"the budget is short: {format_duration(max(left_s, 0))} left, and "
            f"{'' if history.default else 'the baseline and '}the choice's whole training may take "
            f"{format_duration(required_s)}; the tune continues"
        )


def measure_references(history: History, surrogate: Surrogate, runner: Runner) -> History:
    """Measures the default configuration; if it does not fit, the same configuration with features on disk.

    If the default sets the memory limit, it is measured up to three times, because the peak of one trial is partly
    luck.

    Raises:
        InfeasibleError: The default is to set the memory limit, but all its trials failed.
        ModelError: The default's trial failed, and the model is the user's own.
    """
    if history.default is None:
        history = runner.measure(Proposal("default", TrainConfig()), history, surrogate)
    _refuse_a_failing_model(history)
    if not history.has_default_reference:
        why = "the baseline took too long"
        if not _took_too_long(history.default):
            from_disk = TrainConfig(feature_tier="disk")
            if all(trial.measurement.config != from_disk for trial in history.trials):
                runner.notify("the baseline does not fit in memory; trying it with features on disk")
                history = runner.measure(Proposal("default", from_disk), history, surrogate)
            why = "this does not fit either"
        if not history.has_default_reference:
            runner.notify(f"{why}, so trials are compared with the best {history.study.setting.metric.label} measured")
    if history.study.request.memory_limit == DEFAULT_PEAK:
        history = _repeat_default(history, surrogate, runner)
        runner.notify(_describe_limit(history))
    reference, unlearnt, metric = history.reference, history.study.unlearnt, history.study.setting.metric
    if reference is not None and reference.target <= unlearnt:
        runner.notify(
            f"a target of {metric.show(reference.target)} needs no learning: predicting the same for every node has a "
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
        history = runner.measure_again(Proposal("default", trial.measurement.config), history, surrogate)
        if history.trials[before].measurement.metrics is None:
            break
    return history


def _took_too_long(trial: Trial | None) -> bool:
    outcome = None if trial is None else trial.measurement.outcome
    return isinstance(outcome, Failure) and outcome.kind is FailureKind.TIMEOUT


def _refuse_a_failing_model(history: History) -> None:
    """Raises a `ModelError` if a user's own model made the default's trial fail."""
    task = history.study.setting.task
    outcome = None if history.default is None else history.default.measurement.outcome
    kinds = (FailureKind.CRASHED, FailureKind.INVALID, FailureKind.TIMEOUT)
    by_model = isinstance(outcome, Failure) and outcome.kind in kinds
    if task.is_own and isinstance(outcome, Failure) and by_model:
        more = f"; a larger {option('budget')} gives it more" if outcome.kind is FailureKind.TIMEOUT else ""
        raise ModelError(
            f"{task.model} can't be trained by the baseline configuration:\n{outcome.detail.rstrip()}{more}"
        )


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


def explore(history: History, surrogate: Surrogate, runner: Runner, proposer: Proposer = propose) -> Explored:
    """Measures the proposals of `proposer` in rounds, and refits the surrogate after each round.

    While nothing beats the default, or an improvement is expected, rounds continue until the budget ends. After
    `TRIALS_BETWEEN` trials or more, the reference is timed before the next round, and trials are judged anew. If an
    earlier run of the tune was interrupted in a round, that round is proposed again from the trials before it.

    Args:
        history: The references, and the trials of earlier runs.
        surrogate: Fitted to `history`.
        runner: Runs the trials.
        proposer: Proposes the trials of a round.
    """
    if history.reference is not None:
        runner.notify(heading(history))
    searches = []
    known, stalls = runner.known_before_round(history), runner.state.stalls
    volume = measured_hypervolume(history.first(known))
    while True:
        due = runner.timing_is_due(history)
        timing_s = PlayOffCost.expected(history).timing_s if due else 0.0
        if ended := _why_no_more(history, runner, timing_s + TrialCost.of(history).around_s):
            break
        if due:
            history = runner.time_reference(history)
        before = history.first(known)
        if due or known < len(history.trials):  # `surrogate` was fitted with another drift, or to trials of this round
            surrogate = fit_surrogate(before, surrogate)
        proposals, gain, search = proposer(before, surrogate)
        searches.append(search)
        keep_predicted_front(runner.folder, search)
        if stalls >= _STALLS and gain < math.log2(1 + MIN_GAIN) and _beats_default(before, surrogate):
            ended = "the front has stopped growing"
            break
        runner.begin_round(before, stalls)
        history, ended = measure_round(proposals, history, surrogate, runner, known)
        if ended:
            break
        known = len(history.trials)
        surrogate = fit_surrogate(history, surrogate)
        least, volume = volume * (1 + MIN_GAIN), measured_hypervolume(history)
        stalls = stalls + 1 if 0 < volume < least else 0
    runner.notify(detail(f"the search ends after {count(runner.budget.trials, 'trial')}: {ended}"))
    return Explored(history, surrogate, tuple(searches))


def measure_round(
    proposals: Sequence[Proposal], history: History, surrogate: Surrogate, runner: Runner, known: int | None = None
) -> Round:
    """Measures the `proposals` that the budget affords, without those whose partitions are known to fail.

    Trials race against the best configuration as `believed` before the round.

    Args:
        proposals: Most wanted first.
        history: Of the tune so far.
        surrogate: Fitted to the trials before the round.
        runner: Runs the trials.
        known: Number of trials before the round; by default all. An earlier run's trials after them count as this
            round's, and are not repeated.
    """
    known = len(history.trials) if known is None else known
    ranked = believed(history.first(known), surrogate)
    measured = {trial.measurement.config for trial in history.trials[known:]}
    done, too_long = len(measured), []
    for proposal in proposals:
        if proposal.config.canonical() in measured:
            continue
        if not history.space.can_make(proposal.config):  # an earlier trial of this round may have failed to make them
            continue
        expected_s = expected_trial_s(surrogate, history, proposal.config, history.drift)
        if _why_no_more(history, runner, expected_s):
            too_long.append(expected_s)
            continue
        history = runner.measure(proposal, history, surrogate, ranked)
        done += 1
    if done:
        return Round(history, "")
    return Round(
        history,
        _why_no_more(history, runner, min(too_long)) if too_long else "nothing of interest is left to measure",
    )


def _why_no_more(history: History, runner: Runner, trial_s: float) -> str:
    """Returns why the budget affords no trial of `trial_s` seconds beside the play-off; "" if it does."""
    budget = runner.budget
    reserve = 0.0 if budget.in_trials else reserve_s(history, budget.play_off_s)
    return "" if budget.affords(trial_s, reserve) else budget.describe_end(trial_s, reserve)


def _beats_default(history: History, surrogate: Surrogate) -> bool:
    """Whether a measured configuration is `believed` to be better than the default by the priority."""
    best, reference = next(iter(believed(history, surrogate)), None), history.reference_trial
    return best is not None and (reference is None or best.trial.measurement.config != reference.measurement.config)


def measure_smallest(history: History, surrogate: Surrogate, runner: Runner) -> History:
    """If nothing measured fits in memory, measures the configuration with the least predicted memory.

    Its trial may exceed the limit (`BEYOND`), to find the smallest limit that would do. It is skipped if such a trial
    was run before, if nothing points to memory as the cause, or if no configuration is left to try.
    """
    if history.fits_memory() or any(trial.reason == "smallest" for trial in history.trials):
        return history
    kinds = {failure.kind for failure in history.failures()}
    if kinds and FailureKind.OUT_OF_MEMORY not in kinds and not history.inside():
        return history  # nothing says that it is the memory
    smallest = smallest_memory(surrogate, history)
    if smallest is None:
        return history
    runner.notify(
        "nothing fits: measuring the configuration with the least predicted memory above the limit, to find the "
        "smallest limit that would do"
    )
    return runner.measure_beyond(Proposal("smallest", smallest), history, surrogate)

"""Plans the trials of a tune: how far to train a curve, and when to give up (racing)."""

from __future__ import annotations

import dataclasses
import math

from a3gnn.config import TrainConfig
from a3gnn.launch import QUICK
from a3gnn.profiling.request import CurvePlan, Race, TrialPlan
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.quality import next_rung_s
from a3gnn.tuning.study.trial import BASELINE, RACE, Proposal
from a3gnn_surrogate.curve_ends import CurveEnds

#: Seconds of a timing in the verification, or for the machine's drift; half of a trial's, as there are many.
_TIMED_S = 0.1 if QUICK else 1.0
#: Seconds that a known curve is trained on even if it can't stop improving in time; a plan needs a positive number.
_NO_S = 1e-3
#: Seconds after which a training with a further seed ends at the latest, over those in which the first stopped
#: improving. Of two seeds on squirrel_filtered and minesweeper, one was at its best up to 1.8 times as late.
_SEEDS_APART = 2


def trial_plan(
    proposal: Proposal,
    history: History,
    slowest: float | None = None,
    drift: float = 1.0,
    ends: CurveEnds | None = None,
) -> TrialPlan:
    """Returns the plan of a trial of `proposal` after `history`.

    The reference trains until its accuracy stops improving. Other trials train for the reference's seconds, or only
    until they reach the target if accuracy is just a limit. They end early if they can't reach the target within
    `History.due_s`, if `ends` predicts that they miss it, or if they are slower than `slowest`. If the final quality
    counts, they train until they stop improving, within the seconds of their round of the race.

    Whatever the drift, they end after as many mini-batches as at the speed of the reference's measurement.

    Args:
        proposal: The configuration, and why it is measured.
        history: Of the tune so far.
        slowest: The speed at which the trial can no longer win (`Beliefs.slowest`), in epochs per second, or in seconds
            to accuracy if these count; None never ends it.
        drift: The machine's speed over its speed when the reference was measured.
        ends: Predicts how curves end; None predicts nothing.
    """
    plan, reference = history.plan, history.reference
    if reference is None or proposal.reason in BASELINE:
        return _planned(plan, history.study.reference_curve)
    priority, trial = history.study.request.priority, history.reference_trial
    if priority.final:
        seconds = history.study.quality_s
        if proposal.reason == RACE:
            seconds, _ = next_rung_s(history, proposal.config)
        plan = dataclasses.replace(plan, timed_seconds=min(plan.timed_seconds, _TIMED_S))  # speed decides little
        return _planned(plan, _drifted(CurvePlan(seconds, until_plateau=True), drift))
    most_s = min(history.due_s, slowest) if priority.time and slowest is not None else history.due_s
    default = None if trial is None else history.curve(trial.measurement.config)
    curve = CurvePlan(
        most_seconds=reference.budget_s,
        target=None if priority.accuracy_counts else reference.target,
        race=Race(reference.target, most_s if most_s < reference.budget_s else None, ends, default),
        least_throughput=0.0 if slowest is None or priority.time else slowest,
    )
    return _planned(plan, _drifted(curve, drift))


def stopped_s(history: History, config: TrainConfig) -> float:
    """Returns the most seconds of a further training of `config`.

    They are finite if the final quality counts, `config` stopped improving, and no number of epochs is requested.
    """
    curve = history.curve(config)
    known = [one.metrics for one in history.trials if one.measurement.config == config and one.metrics is not None]
    request = history.study.request
    ends = request.priority.final and request.default_epochs is None
    if not ends or curve is None or not known or not curve.has_stopped_improving():
        return math.inf
    return _SEEDS_APART * known[-1].pace.seconds(curve.trained)


def whole_plan(history: History, config: TrainConfig, drift: float = 1.0) -> TrialPlan:
    """Returns the plan of a contender: trains from the start for the reference's seconds, then tests once.

    If accuracy is only a limit, or the final one counts, it ends earlier if accuracy is at the target and stops
    improving, unless the reference trains for a number of epochs. As in `trial_plan`, a slower machine gets more
    seconds. It trains no longer than `stopped_s`.
    """
    reference, request = history.reference, history.study.request
    seconds = history.study.reference_curve.most_seconds if reference is None else reference.at(drift).budget_s
    seconds = min(seconds, stopped_s(history, config))
    ends = request.default_epochs is None and (request.priority.final or not request.priority.accuracy_counts)
    least = None if reference is None else reference.target
    return _planned(history.plan, CurvePlan(seconds, until_plateau=ends, least=least, whole=True, tests=True))


def seed_plan(history: History, config: TrainConfig, drift: float = 1.0) -> TrialPlan:
    """Returns the plan of a contender or the default with a further seed.

    It is `whole_plan`, but ends at the target if seconds to accuracy count and accuracy is just a limit.
    """
    plan = whole_plan(history, config, drift)
    if plan.curve is None or history.reference is None or not history.study.request.priority.to_target:
        return plan
    return dataclasses.replace(plan, curve=dataclasses.replace(plan.curve, target=history.reference.target))


def end_plan(history: History, most_seconds: float) -> TrialPlan:
    """Returns the plan that trains a known curve on until it stops improving, or can't within `most_seconds` in all."""
    curve = CurvePlan(_NO_S, until_plateau=True, plateau_seconds=most_seconds, tests=True)
    return _planned(history.plan, curve)


def timing_plan(history: History) -> TrialPlan:
    """Returns the plan of a timing in the verification or for the machine's drift: mini-batches only, no curve."""
    return dataclasses.replace(history.plan, curve=None, timed_seconds=_TIMED_S)


def _planned(plan: TrialPlan, curve: CurvePlan) -> TrialPlan:
    """Returns `plan` with `curve`, and time for it: evaluations and the start take less than the training."""
    seconds = max(curve.most_seconds, curve.plateau_seconds or 0.0)
    return dataclasses.replace(plan, curve=curve, timeout_s=max(plan.timeout_s, 2 * seconds))


def _drifted(curve: CurvePlan, drift: float) -> CurvePlan:
    """Returns `curve` with its seconds adapted to `drift`, so that the number of mini-batches stays the same."""
    race = curve.race
    if race is not None and race.seconds is not None:
        race = dataclasses.replace(race, seconds=race.seconds / drift)
    return dataclasses.replace(
        curve, most_seconds=curve.most_seconds / drift, race=race, least_throughput=curve.least_throughput * drift
    )

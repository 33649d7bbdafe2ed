"""How a trial of a tune is measured: how far its curve is trained, and where it has lost (racing)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from a3gnn.figures import Reference
from a3gnn.learning_curve import CurveEnd
from a3gnn.profiling.trial.request import CurvePlan, Hurdle, TrialPlan
from a3gnn.quick import QUICK
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import JudgedTrial, Proposal

#: A configuration can't be the best that is not at the target after so many times the best one's seconds; what is there
#: for another reason is of no interest after so many. Guesses.
_SLOWER, _FAR_SLOWER = 1.1, 2.0
#: Nor is what takes so many times the seconds that were predicted, and more than this share of the best one's: what was
#: hoped for is not there, and others that are predicted as quick are not tried yet. Guesses.
_DISAPPOINTING, _STILL_QUICK = 2.0, 0.5
#: Seconds of a timing in the play-off, or for the machine's drift; fewer than a trial's, for there are many. Guess.
_TIMED_S = 0.1 if QUICK else 1.0
#: Where in the reference's time the accuracy is looked at. Guess.
_LOOKS = (1 / 2, 3 / 4)
#: Of the largest gain that a measured curve made from there on, what a later one is believed capable of, and what is
#: added: a point. Guesses.
_GAIN_FACTOR, _GAIN_MARGIN = 1.5, 0.01


def trial_plan(
    proposal: Proposal,
    history: History,
    drift: float = 1.0,
    predicted_s: float = math.inf,
    ranked: Sequence[JudgedTrial] | None = None,
) -> TrialPlan:
    """Returns how `proposal` is to be measured after `history` on a machine of that `drift`.

    The reference is trained until it stops rising, by a point at least: all peaks are compared with its own. Others are
    trained for the reference's seconds; where accuracy is a limit alone, until they reach the target. One that can no
    longer reach it ends earlier, and so does one that is there for the priority's sake (`proposal.for_priority`) and
    can no longer beat the best; where seconds to accuracy count, any that takes far longer than that, or than
    `predicted_s`, its predicted seconds to accuracy. Whatever the drift, that is after as many mini-batches as it would
    be at the speed that the reference was measured at. The best is the first of `ranked`, which a tune takes from what
    is `believed` before the round; `History.ranked` by default.
    """
    plan, reference = history.plan, history.reference
    if reference is None or proposal.reason == "default":
        return dataclasses.replace(plan, curve=history.study.reference_curve, trains=True)
    priority = history.study.request.priority
    best = next(iter(history.ranked() if ranked is None else ranked), None)
    races = proposal.for_priority
    slower = _speed_hurdles(best, predicted_s if races else None, history, reference)
    curve = CurvePlan(
        most_seconds=reference.budget_s,
        target=None if priority.accuracy_counts else reference.target,
        hurdles=(*_accuracy_hurdles(history, reference), *slower),
        least_throughput=_least_throughput(best, history) if best and races else 0.0,
    )
    return dataclasses.replace(plan, curve=_drifted(curve, drift))


def whole_plan(history: History, drift: float = 1.0) -> TrialPlan:
    """Returns how a finalist is measured: trained from the start for the reference's seconds, then tested once.

    As in `trial_plan`, a slower machine is given longer.
    """
    reference = history.reference
    seconds = history.study.reference_curve.most_seconds if reference is None else reference.at(drift).budget_s
    return dataclasses.replace(history.plan, curve=CurvePlan(seconds, whole=True))


def seed_plan(history: History, drift: float = 1.0) -> TrialPlan:
    """Returns how a finalist and the default are measured with a further seed.

    As in `whole_plan`; where seconds to accuracy count, and accuracy is a limit alone, no further than to the target.
    """
    plan = whole_plan(history, drift)
    if plan.curve is None or history.reference is None or not history.study.request.priority.to_target:
        return plan
    return dataclasses.replace(plan, curve=dataclasses.replace(plan.curve, target=history.reference.target))


def timing_plan(history: History) -> TrialPlan:
    """Returns how the play-off and the machine's drift are timed: mini-batches alone, no curve is trained."""
    return dataclasses.replace(history.plan, curve=None, timed_seconds=_TIMED_S)


def _drifted(curve: CurvePlan, drift: float) -> CurvePlan:
    """Returns the plan by which a machine of that `drift` trains as many mini-batches as `curve` says for one of 1."""
    return dataclasses.replace(
        curve,
        most_seconds=curve.most_seconds / drift,
        hurdles=tuple(one._replace(seconds=one.seconds / drift) for one in curve.hurdles),
        least_throughput=curve.least_throughput * drift,
    )


def _accuracy_hurdles(history: History, reference: Reference) -> list[Hurdle]:
    """Returns what must be reached by parts of the reference's time for the target to be within reach.

    That is the target less what a curve may gain from there on, by what measured ones gained; three must be measured.
    """
    hurdles = []
    for share in _LOOKS:
        gains = [gain for one in history.measured() if (gain := _gain(one, history, reference, share)) is not None]
        if len(gains) >= 3:
            least = reference.target - _GAIN_FACTOR * max(gains) - _GAIN_MARGIN
            hurdles.append(Hurdle(share * reference.budget_s, max(least, 0.0)))
    return hurdles


def _gain(one: JudgedTrial, history: History, reference: Reference, share: float) -> float | None:
    """Returns what a complete curve gained after `share` of the reference's time, or None."""
    curve, pace = history.curve(one.trial.measurement.config), one.metrics.pace
    before = None if curve is None else curve.best_within(pace.batches(share * reference.budget_s))
    if before is None or one.figures.val_accuracy is None or not one.figures.complete:
        return None
    return one.figures.val_accuracy - before


def _speed_hurdles(
    best: JudgedTrial | None, predicted_s: float | None, history: History, reference: Reference
) -> list[Hurdle]:
    """Returns when the target must be reached, where seconds count; `predicted_s` is of what is to be the best."""
    if best is None or best.figures.seconds_to_accuracy is None or not history.study.request.priority.time:
        return []
    best_s = best.figures.seconds_to_accuracy
    if predicted_s is None:
        seconds = _FAR_SLOWER * best_s
    else:
        seconds = min(_SLOWER * best_s, max(_DISAPPOINTING * predicted_s, _STILL_QUICK * best_s))
    return [Hurdle(seconds, reference.target, CurveEnd.SLOWER)] if seconds < reference.budget_s else []


def _least_throughput(best: JudgedTrial, history: History) -> float:
    """Returns the epochs per second below which half the best one's memory and two points more would not win."""
    priority = history.study.request.priority
    if priority.time or priority.throughput <= priority.memory + priority.accuracy:
        return 0.0
    slack = (priority.memory + priority.accuracy) / priority.throughput
    return best.figures.throughput_epochs_per_s * float(2.0**-slack)

"""`CurveRules`: where a learning curve ends."""

from __future__ import annotations

import math
from dataclasses import dataclass

from a3gnn.learning_curve import ROUNDING, CurveEnd, LearningCurve, Pace, next_point
from a3gnn.measurement import Metrics
from a3gnn.profiling.trial.request import CurvePlan


@dataclass(frozen=True, slots=True)
class CurveRules:
    """Where the curve of one configuration ends, by what is asked for and how fast the configuration trains.

    Attributes:
        plan: What is asked for.
        pace: How fast it trains.
        batches_per_epoch: Mini-batches of an epoch.
    """

    plan: CurvePlan
    pace: Pace
    batches_per_epoch: int

    @classmethod
    def of(cls, plan: CurvePlan, metrics: Metrics) -> CurveRules:
        """Returns the rules of `plan` for what was measured."""
        return cls(plan, metrics.pace, metrics.batches_per_epoch)

    def end(self, curve: LearningCurve, due: int) -> CurveEnd | None:
        """Returns why `curve` is trained no further, or None where it is.

        Args:
            curve: What is known of it; its `ended` is of no matter.
            due: Mini-batches of its next point.
        """
        plan = self.plan
        if (missed := self._missed(curve)) is not None:
            return missed
        if plan.target is not None and max(curve.val_accuracy, default=-math.inf) >= plan.target:
            return CurveEnd.TARGET
        if plan.until_plateau and curve.has_stopped_rising():
            return CurveEnd.PLATEAU
        most = self.pace.batches(plan.most_seconds) * ROUNDING
        if plan.most_epochs is not None:
            most = min(most, plan.most_epochs * self.batches_per_epoch)
        if not curve.batches and self._needs_a_point:
            return None
        return CurveEnd.BUDGET if due > most else None

    @property
    def _needs_a_point(self) -> bool:
        """Whether the first point is trained however little time there is: others refer to it, or it is tested."""
        return self.plan.until_plateau or self.plan.most_epochs is not None or self.plan.whole

    def cut(self, curve: LearningCurve, first: int) -> LearningCurve | None:
        """Returns the part of `curve` that these rules would have trained, and why it ends there.

        None where they would have trained on from its last point.

        Args:
            curve: What is known of it.
            first: Mini-batches of the first point of such a curve.
        """
        for length in range(len(curve.batches) + 1):
            part = LearningCurve(curve.batches[:length], curve.val_accuracy[:length], curve.ended)
            if (ended := self.end(part, next_point(part.trained, first))) is not None:
                return LearningCurve(part.batches, part.val_accuracy, ended)
        return None

    def _missed(self, curve: LearningCurve) -> CurveEnd | None:
        """Returns why the configuration is out of the race: too slow, or a hurdle missed; None where it is in it.

        A hurdle is missed at the first point after its seconds.
        """
        if self.pace.batches_per_s < self.plan.least_throughput * self.batches_per_epoch:
            return CurveEnd.SLOWER
        for hurdle in self.plan.hurdles:
            passed = (count for count in curve.batches if self.pace.seconds(count) >= hurdle.seconds)
            point = next(passed, None)
            if point is not None and (curve.best_within(point) or 0.0) < hurdle.val_accuracy:
                return hurdle.missed
        return None

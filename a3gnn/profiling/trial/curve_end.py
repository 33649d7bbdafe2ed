"""`CurveRules`: the rules by which a learning curve ends."""

from __future__ import annotations

import math
from dataclasses import dataclass

from a3gnn.learning_curve import ROUNDING, CurveEnd, LearningCurve, Pace, next_point
from a3gnn.measurement import Metrics
from a3gnn.profiling.trial.request import CurvePlan


@dataclass(frozen=True, slots=True)
class CurveRules:
    """Where the curve of one configuration ends, from the plan and the configuration's speed.

    Attributes:
        plan: The plan for the curve.
        pace: The configuration's set-up time and speed.
        batches_per_epoch: Mini-batches of an epoch.
    """

    plan: CurvePlan
    pace: Pace
    batches_per_epoch: int

    @classmethod
    def of(cls, plan: CurvePlan, metrics: Metrics) -> CurveRules:
        """Returns the rules of `plan` for a configuration with these metrics."""
        return cls(plan, metrics.pace, metrics.batches_per_epoch)

    def end(self, curve: LearningCurve, due: int) -> CurveEnd | None:
        """Returns the reason why `curve` ends here, or None if it is trained on.

        Args:
            curve: The known curve; its `ended` is ignored.
            due: Mini-batches at its next point.
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
        """Whether the first point is trained even without time for it, because others refer to it or it is tested."""
        return self.plan.until_plateau or self.plan.most_epochs is not None or self.plan.whole

    def cut(self, curve: LearningCurve, first: int) -> LearningCurve | None:
        """Returns the part of `curve` that these rules would have trained, with the reason for its end.

        Returns None if they would have trained on after its last point.

        Args:
            curve: The known curve.
            first: Mini-batches at the first point of such a curve.
        """
        for length in range(len(curve.batches) + 1):
            part = LearningCurve(curve.batches[:length], curve.val_accuracy[:length], curve.ended)
            if (ended := self.end(part, next_point(part.trained, first))) is not None:
                return LearningCurve(part.batches, part.val_accuracy, ended)
        return None

    def _missed(self, curve: LearningCurve) -> CurveEnd | None:
        """Returns why the configuration has lost: too slow, or a hurdle missed; None if it has not.

        A hurdle is checked at the first point after its seconds.
        """
        if self.pace.batches_per_s < self.plan.least_throughput * self.batches_per_epoch:
            return CurveEnd.SLOWER
        for hurdle in self.plan.hurdles:
            passed = (count for count in curve.batches if self.pace.seconds(count) >= hurdle.seconds)
            point = next(passed, None)
            if point is not None and (curve.best_within(point) or 0.0) < hurdle.val_accuracy:
                return hurdle.missed
        return None

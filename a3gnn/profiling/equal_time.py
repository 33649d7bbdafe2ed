"""`equal_time`: a plan that gives configurations the default's training time."""

from __future__ import annotations

import dataclasses

from a3gnn.errors import UsageError
from a3gnn.figures import Reference
from a3gnn.learning_curve import NO_CURVE
from a3gnn.measurement import Measurement
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.trial.request import CurvePlan, TrialPlan
from a3gnn.units import format_duration


def equal_time(profiler: Profiler, default: Measurement) -> tuple[TrialPlan, str]:
    """Returns a plan with as many seconds of training as `default` took, and a line that explains it.

    If the default failed, or had no point within its budget, the plan has the default's most seconds.

    Args:
        profiler: Its plan, which has a learning curve, measured the default.
        default: The default configuration's measurement.

    Raises:
        UsageError: The profiler's plan has no learning curve.
    """
    plan, metrics = profiler.plan, default.metrics
    if plan.curve is None:
        raise UsageError("a plan of equal training time must have a learning curve, got None; give one a CurvePlan")
    curve = NO_CURVE if metrics is None else profiler.curves.cut(default.config, metrics, plan.curve) or NO_CURVE
    reference = None if metrics is None else Reference.of(metrics, curve, max_drop=0.0)
    if reference is None:
        seconds = plan.curve.most_seconds
        why = "it failed" if metrics is None else "it was not evaluated within its budget"
        line = f"no training time of the default configuration ({why}): each is given {format_duration(seconds)}"
    else:
        seconds, metric = reference.budget_s, default.setting.metric
        more = ", and was still rising" if reference.still_rising else ""
        line = (
            f"the default configuration trained for {format_duration(seconds)} and reached a validation "
            f"{metric.label} of {metric.show(reference.val_accuracy)}{more}: each other one is given that time"
        )
    return dataclasses.replace(plan, curve=CurvePlan(seconds)), line

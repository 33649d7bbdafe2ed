"""The plan of `a3gnn profile`: which configurations to measure, and for how long to train each."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.figures import Reference
from a3gnn.learning_curve import NO_CURVE
from a3gnn.measurement import Measurement
from a3gnn.profiling.request import CurvePlan, TrialPlan
from a3gnn.seeding import generator
from a3gnn.space import SearchSpace
from a3gnn.units import format_duration

if TYPE_CHECKING:
    from a3gnn.profiling.profiler import Profiler


def space_filling(space: SearchSpace, count: int, seed: int) -> list[TrainConfig]:
    """Returns up to `count` configurations that run differently from each other and from the default.

    They are points of a scrambled Halton sequence, which covers every knob and every pair of knobs evenly. A larger
    `count` begins with the configurations of a smaller one. A small space may have fewer configurations.
    """
    from scipy.stats import qmc

    sequence = qmc.Halton(len(space.knobs), seed=generator(seed, "space_filling"))
    found: dict[TrainConfig, None] = {}
    default = TrainConfig().canonical()
    enough = min(count + 1, space.num_distinct)  # the default may be among them
    while len(found) < enough:
        points = sequence.random(256)
        for row in np.minimum((points * space.nvec).astype(np.int64), space.nvec - 1):
            found.setdefault(space.decode(row).canonical())
    return [config for config in found if config != default][:count]


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
        raise UsageError("a plan of equal training time must have a learning curve, got None; give it a CurvePlan")
    curve = NO_CURVE if metrics is None else profiler.curves.cut(default.config, metrics, plan.curve) or NO_CURVE
    reference = None if metrics is None else Reference.of(metrics, curve, max_drop=0.0)
    if reference is None:
        seconds = plan.curve.most_seconds
        why = "it failed" if metrics is None else "it was not evaluated within its budget"
        line = (
            f"the baseline has no training time, because {why}; each configuration trains for "
            f"{format_duration(seconds)}"
        )
    else:
        seconds, metric = reference.budget_s, default.setting.metric
        more = ", and was still improving" if reference.still_rising else ""
        line = (
            f"the baseline trained for {format_duration(seconds)} and reached a validation {metric.label} of "
            f"{metric.show(reference.val_accuracy)}{more}; each configuration trains as long"
        )
    return dataclasses.replace(plan, curve=CurvePlan(seconds)), line

"""The memory limits of one configuration, which may itself be the default that sets the limit."""

from __future__ import annotations

import dataclasses
import math

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.limits import Limits
from a3gnn.profiling.trial.request import TrialPlan
from a3gnn.tuning.study.history import DEFAULT_TOLERANCE, History
from a3gnn.tuning.study.request import DEFAULT_PEAK
from a3gnn.tuning.study.trial import Predicted

#: If nothing fits, one trial may use so many times its limit or its predicted memory. Guess: enough to find the
#: smallest limit that would do, and too little for a leaking model to fill the machine's memory.
BEYOND = 1.5


def memory_limits(history: History, config: TrainConfig) -> Limits:
    """Returns the limits on the memory of `config`.

    With `--memory-limit default`, the reference's own peak is the limit. If a repetition of the reference takes more,
    it breaks no limit: the default just needs more than its first trial showed.
    """
    reference = history.reference_trial
    if (
        history.study.request.memory_limit == DEFAULT_PEAK
        and reference is not None
        and config.canonical() == reference.measurement.config
    ):
        return history.study.objectives(None, None).limits
    return dataclasses.replace(history.objectives.limits, least_accuracy=None)


def within_limits(history: History, plan: TrialPlan, config: TrainConfig) -> TrialPlan:
    """Returns `plan` with the limits on the memory of `config`."""
    limits = memory_limits(history, config)
    return dataclasses.replace(plan, host_limit_bytes=limits.host_bytes, device_limit_bytes=limits.device_bytes)


def beyond_limits(plan: TrialPlan, predicted: Predicted) -> TrialPlan:
    """Returns `plan` with limits on memory that are `BEYOND` times its own, or times what is `predicted`."""
    host, device = (
        None if limit is None else round(BEYOND * max(limit, predicted[peak]["mean"]))
        for limit, peak in ((plan.host_limit_bytes, "peak_host_bytes"), (plan.device_limit_bytes, "peak_device_bytes"))
    )
    return dataclasses.replace(plan, host_limit_bytes=host, device_limit_bytes=device)


def training_limits(history: History, config: TrainConfig, figures: Figures) -> Limits:
    """Returns the limits for training `config`, which was measured with `figures`.

    If `config` is the default that set the limits, and took more than they allow, they are raised to its peaks plus
    `DEFAULT_TOLERANCE`.
    """
    limits = history.objectives.limits
    if memory_limits(history, config).host_bytes == limits.host_bytes:
        return limits
    more = {
        field: math.ceil(getattr(figures, f"peak_{field}") * (1 + DEFAULT_TOLERANCE))
        for field in ("host_bytes", "device_bytes")
        if (getattr(limits, field) or math.inf) < getattr(figures, f"peak_{field}")
    }
    return dataclasses.replace(limits, **more)

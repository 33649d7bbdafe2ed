"""The limits on memory of one configuration, which may be the one that sets them."""

from __future__ import annotations

import dataclasses

from a3gnn.config import TrainConfig
from a3gnn.limits import Limits
from a3gnn.profiling.trial.request import TrialPlan
from a3gnn.tuning.history import History
from a3gnn.tuning.request import DEFAULT_PEAK


def memory_limits(history: History, config: TrainConfig) -> Limits:
    """Returns the limits on the memory of `config`.

    The reference's own peak may be the limit (`--memory-limit default`). A repetition of it that takes more breaks
    none: it only shows that the default takes more than it did at first.
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

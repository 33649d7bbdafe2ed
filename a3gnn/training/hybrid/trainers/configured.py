"""`configured`: the trainers that a configuration's knobs ask for."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from a3gnn.config import TrainConfig
from a3gnn.threads import pool
from a3gnn.training.hybrid.schedule import Schedule
from a3gnn.training.hybrid.trainers.choices import STALL_S, TrainerSampling
from a3gnn.training.hybrid.trainers.request import Trainers


def configured(
    config: TrainConfig,
    shares: Sequence[int] | None = None,
    sampling: TrainerSampling = "whole",
    stall_s: float = STALL_S,
    adapt: bool = False,
    prefetch: Sequence[int] | None = None,
) -> Trainers | None:
    """Returns the trainers of `config`; None where it asks for one.

    Args:
        config: Its `trainers`, `prefetch_depth` and `adapt` matter.
        shares: As `Trainers` has them.
        sampling: Likewise.
        stall_s: Likewise.
        adapt: Whether they adapt whatever `config` says.
        prefetch: Depths in place of the configuration's; None for these.

    Raises:
        UsageError: As of `Trainers.of`; of one trainer nothing else may be said.
    """
    config = config.canonical()
    if config.trainers == 1:
        return Trainers.of(None, shares, sampling, stall_s, adapt, prefetch)
    if prefetch is None and config.prefetch_depth:
        prefetch = [config.prefetch_depth] * len(Schedule().depths)
    return Trainers.of(
        device_names(config.trainers), shares, sampling, stall_s, adapt or config.adapt == "on", prefetch
    )


def with_one_trainer(config: TrainConfig) -> TrainConfig:
    """Returns `config` without what it says of several trainers, where others are named."""
    default = TrainConfig()
    return config.replace(trainers=1, prefetch_depth=default.prefetch_depth, adapt=default.adapt)


def device_names(trainers: int) -> str:
    """Returns the devices of so many trainers here: a GPU for each while there are any, the processors for the others.

    These have an equal part each of the threads of the processors but one for each GPU, and one at least.
    """
    here = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = min(trainers, here)
    on_processors = trainers - gpus
    threads = max(1, (pool.usable_cores() - gpus) // max(1, on_processors))
    return ",".join([f"cpu:{threads}"] * on_processors + [f"cuda:{gpu}" for gpu in range(gpus)])

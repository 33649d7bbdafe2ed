"""What can be said of trainers, for whoever must not import what trains."""

from __future__ import annotations

from typing import Literal, get_args

#: Whether mini-batches are sampled whole and then cut, or each share for itself.
TrainerSampling = Literal["whole", "independent"]
TRAINER_SAMPLINGS: tuple[TrainerSampling, ...] = get_args(TrainerSampling)
#: Seconds that a stage of a mini-batch may take: a hundred times what large ones take. Guess.
STALL_S = 120.0

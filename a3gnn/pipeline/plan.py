"""Assigns seeds to the mini-batches of an epoch, and orders them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn.pipeline.proximity import ProximityOrder
from a3gnn.seeding import generator


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PlannedBatch:
    """A mini-batch that is not sampled yet.

    Attributes:
        index: Its place in the epoch.
        seeds: Node ids, int32.
        until: Rank of the last time that each seed sees (`EdgeTimes.rank_at`), int32; None without times.
    """

    index: int
    part: int
    seeds: NDArray[np.int32]
    until: NDArray[np.int32] | None = None


def epoch_plan(
    train_ids: NDArray[np.int32],
    batch_size: int,
    seed: int,
    epoch: int,
    parts: NDArray[np.int32] | None = None,
    *,
    shuffle: bool = True,
    order: ProximityOrder | None = None,
) -> list[PlannedBatch]:
    """Returns the mini-batches of `epoch`. Each id is in exactly one; the last of each part may be smaller.

    The order depends only on `seed` and `epoch`, so training can resume at any mini-batch.

    Args:
        train_ids: Seeds, int32.
        batch_size: Seeds per mini-batch.
        seed: The run's seed.
        epoch: From 0.
        parts: Each node's part, int32, shape (num_nodes,). Parts come one after the other, in an order that is drawn
            for each epoch, and no mini-batch mixes them. None is one part.
        shuffle: Whether to shuffle seeds and parts.
        order: Orders the seeds within a part in place of a random shuffle; must be made from the same seeds and parts.
            It does not change the order of parts. None shuffles at random.
    """
    draw = generator(seed, "epoch_plan", epoch)
    ids = draw.permutation(train_ids) if shuffle else train_ids
    if shuffle and order is not None:
        ids = order.permutation(epoch)
    owners = np.zeros(len(ids), dtype=np.int32) if parts is None else parts[ids]
    present = np.unique(owners)
    batches: list[PlannedBatch] = []
    for part in draw.permutation(present) if shuffle else present:
        members = ids[owners == part]
        for start in range(0, len(members), batch_size):
            seeds = members[start : start + batch_size]
            batches.append(PlannedBatch(index=len(batches), part=int(part), seeds=seeds))
    return batches


def count_batches(train_ids: NDArray[np.int32], batch_size: int, parts: NDArray[np.int32] | None = None) -> int:
    """Returns the number of mini-batches per epoch."""
    sizes = np.array([len(train_ids)]) if parts is None else np.bincount(parts[train_ids])
    return int((-(-sizes // batch_size)).sum())

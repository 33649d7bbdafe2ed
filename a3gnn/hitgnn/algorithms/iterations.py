"""`Iterations`: the mini-batch that each rank trains in each iteration of an epoch.

The paper's listing has two errors, which are corrected here. Line 20 samples partition i, the place of the idle device;
j is meant. Lines 14 to 17 may exhaust a partition that lines 18 to 23 still rely on, so this is checked again. An
iteration then has as many mini-batches as ranks while any are left, and an epoch has the fewest possible iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn.checks import whole_number
from a3gnn.errors import UsageError
from a3gnn.pipeline.plan import PlannedBatch, epoch_plan

#: Stands for the partition and the mini-batch of a rank that has none to train.
IDLE = -1
#: The mini-batch of an idle rank, which has no seeds.
_IDLE = PlannedBatch(index=0, part=0, seeds=np.empty(0, dtype=np.int32))


@dataclass(frozen=True, slots=True)
class RankSchedule:
    """An epoch of synchronous training, iteration by iteration.

    Attributes:
        partition: The partition whose mini-batch each rank trains, or `IDLE`, int64, shape (n_iterations, n_ranks).
        batch: The number of that mini-batch in its partition, from 0, or `IDLE`, same shape.
    """

    partition: NDArray[np.int64]
    batch: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.partition)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each rank's gradients in the mean of an iteration's mini-batches, same shape; 0 for idle ranks.

        An idle rank still takes part in the reduction, so that no other rank waits for it forever. Each row sums to 1.
        """
        busy = (self.partition != IDLE).astype(np.float64)
        return np.asarray(busy / busy.sum(axis=1, keepdims=True))

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Whether each rank trains a mini-batch of another partition, bool, same shape."""
        ranks = np.arange(self.partition.shape[1])
        return np.asarray((self.partition != IDLE) & (self.partition != ranks))


class Iterations:
    """The mini-batches of each part, in a schedule that is the same for every epoch.

    A mini-batch is the same whichever rank trains it, and in whichever iteration. Its seeds, and its number within the
    epoch, from which neighbors and dropout are drawn, depend only on the seed, the epoch and the parts.

    Args:
        train_ids: Seeds, int32.
        parts: The part of each node, int32, shape (num_nodes,).
        ranks: Number of ranks, one per part.
        batch_size: Most seeds of a mini-batch; the last one of each part may have fewer.
        seed: The run's seed.
        balanced: Whether ranks with an exhausted part train mini-batches of others (Algorithm 3), or are idle.

    Attributes:
        schedule: The part whose mini-batch each rank trains.
    """

    def __init__(
        self,
        train_ids: NDArray[np.int32],
        parts: NDArray[np.int32],
        ranks: int,
        batch_size: int,
        seed: int,
        *,
        balanced: bool = True,
    ) -> None:
        self._given = train_ids, batch_size, seed
        self._parts, self._ranks = parts, ranks
        counts = -(-np.bincount(parts[train_ids], minlength=ranks) // batch_size)
        self.schedule = (two_stage_schedule if balanced else own_schedule)(counts.tolist())
        self._planned: tuple[int, list[list[PlannedBatch]]] = (-1, [])

    def __len__(self) -> int:
        return len(self.schedule)

    def of(self, epoch: int) -> list[list[PlannedBatch]]:
        """Returns the mini-batches of `epoch`, by iteration and rank; an idle rank's has no seeds."""
        if self._planned[0] != epoch:
            self._planned = epoch, self._plan(epoch)
        return self._planned[1]

    def _plan(self, epoch: int) -> list[list[PlannedBatch]]:
        train_ids, batch_size, seed = self._given
        by_part: list[list[PlannedBatch]] = [[] for _ in range(self._ranks)]
        for batch in epoch_plan(train_ids, batch_size, seed, epoch, self._parts):
            # All get part 0, so that no part is entered, because parts are not trained one after the other.
            by_part[batch.part].append(PlannedBatch(index=batch.index, part=0, seeds=batch.seeds))
        pairs = zip(self.schedule.partition.tolist(), self.schedule.batch.tolist(), strict=True)
        return [
            [_IDLE if part == IDLE else by_part[part][number] for part, number in zip(*row, strict=True)]
            for row in pairs
        ]


def two_stage_schedule(num_batches: Sequence[int]) -> RankSchedule:
    """Returns the schedule of an epoch in which idle ranks train mini-batches of other partitions.

    Each rank trains mini-batches of its own partition while there are any. Then it takes others': idle ranks take turns
    over the partitions that had some left when the iteration began.

    Args:
        num_batches: Mini-batches of each rank's partition.

    Raises:
        UsageError: There is no rank, or a number is no integer >= 0.
    """
    left = _checked(num_batches)
    turn = 0
    partitions: list[list[int]] = []
    while any(left):
        available = [rank for rank, count in enumerate(left) if count]
        sources = [rank if count else IDLE for rank, count in enumerate(left)]
        for rank in available:
            left[rank] -= 1
        for rank in (rank for rank, source in enumerate(sources) if source == IDLE):
            if not any(left):
                break
            while not left[available[turn % len(available)]]:
                turn += 1
            sources[rank] = available[turn % len(available)]
            left[sources[rank]] -= 1
            turn += 1
        partitions.append(sources)
    return _numbered(np.array(partitions, dtype=np.int64).reshape(len(partitions), len(left)))


def own_schedule(num_batches: Sequence[int]) -> RankSchedule:
    """Returns the schedule without balancing: each rank trains its own partition, and then is idle.

    Args:
        num_batches: Mini-batches of each rank's partition.

    Raises:
        UsageError: There is no rank, or a number is no integer >= 0.
    """
    counts = np.array(_checked(num_batches), dtype=np.int64)
    busy = np.arange(counts.max())[:, None] < counts
    return _numbered(np.where(busy, np.arange(len(counts)), IDLE))


def _checked(num_batches: Sequence[int]) -> list[int]:
    """Checks the numbers, and returns them as a new list."""
    if not len(num_batches):
        raise UsageError("num_batches must have a number for each rank, got none")
    return [whole_number("num_batches", one, 0, "each is the number of mini-batches of a rank") for one in num_batches]


def _numbered(partition: NDArray[np.int64]) -> RankSchedule:
    """Returns the schedule in which each partition's mini-batches are trained in order."""
    batch = np.full_like(partition, IDLE)
    for source in range(partition.shape[1]):
        places = partition == source
        batch[places] = np.arange(places.sum())
    return RankSchedule(partition, batch)

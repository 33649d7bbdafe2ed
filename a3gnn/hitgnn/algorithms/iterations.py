"""`Iterations`: which mini-batch each rank trains in each iteration of an epoch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a3gnn.hitgnn.algorithms.two_stage_schedule import IDLE, own_schedule, two_stage_schedule
from a3gnn.pipeline.plan import PlannedBatch, epoch_plan

#: Of an idle rank: a mini-batch without seeds.
_IDLE = PlannedBatch(0, 0, np.empty(0, dtype=np.int32))


class Iterations:
    """The mini-batches of each part, in a schedule that is the same for every epoch.

    A mini-batch is the same whichever rank trains it, and in whichever iteration: its seeds and its number within the
    epoch, from which neighbours and dropout are drawn, depend on the seed, the epoch and the parts alone.

    Args:
        train_ids: Seeds, int32.
        parts: The part of each node, int32, shape (num_nodes,).
        ranks: Parts, one per rank.
        batch_size: Seeds of a mini-batch at most; the last of each part may have fewer.
        seed: Of the run.
        balanced: Whether ranks whose part is exhausted train mini-batches of others (Algorithm 3); else they are idle.

    Attributes:
        schedule: Which part's mini-batch each rank trains.
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
            # Part 0 of all: nothing is to be entered, as parts are not trained one after the other.
            by_part[batch.part].append(PlannedBatch(batch.index, 0, batch.seeds))
        pairs = zip(self.schedule.partition.tolist(), self.schedule.batch.tolist(), strict=True)
        return [
            [_IDLE if part == IDLE else by_part[part][number] for part, number in zip(*row, strict=True)]
            for row in pairs
        ]

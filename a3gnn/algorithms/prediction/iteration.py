"""`Iteration`: what the mini-batches of one iteration take on a platform, by HitGNN's model (section VI-B)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from a3gnn.algorithms.prediction.dry_run import RankBatch
from a3gnn.platforms.metadata import Platform
from a3gnn.platforms.performance import (
    INDIRECT,
    VALUE_BYTES,
    Conditions,
    Rates,
    iteration_seconds,
    layer_seconds,
    synchronisation_seconds,
    work_seconds,
)
from a3gnn.platforms.workload import Workload


@dataclass(frozen=True, slots=True)
class Iteration:
    """The mini-batches that devices train at once.

    Attributes:
        work: What each device's computes; None of one that is idle.
        hits: Input rows of it that the device stores; 0 of an idle one.
        widths: Columns of the features that each device stores.
    """

    work: tuple[Workload | None, ...]
    hits: tuple[int, ...]
    widths: tuple[int, ...]

    @classmethod
    def of(cls, row: Sequence[RankBatch | None], widths: tuple[int, ...], like: Workload) -> Self:
        """Returns the iteration of the mini-batches in `row`, of the graph and the model that `like` is of."""
        work = [
            None
            if one is None
            else dataclasses.replace(
                like,
                vertices=tuple(reversed(one.counts.nodes)),
                edges=tuple(edges for _, _, edges in one.counts.layers),
            )
            for one in row
        ]
        return cls(tuple(work), tuple(0 if one is None else one.hits for one in row), widths)

    def seconds(self, platform: Platform, parts: Sequence[Rates], given: Conditions) -> float:
        """Returns the seconds until the slowest device, and the slowest of its `parts`, is done."""
        return max(
            self._of_split(rank, platform, rates, given)
            if self._is_split
            else self._of_rows(rank, platform, rates, given)
            for rank in range(len(self.work))
            for rates in parts
        )

    def moved_bytes(self, given: Conditions) -> float:
        """Returns the bytes that come from host memory, or by way of it; weights' gradients left out."""
        if self._is_split:
            return sum(self._exchanged_bytes(rank) for rank in range(len(self.work)))
        copies = 1 if given.direct else INDIRECT
        return copies * sum(
            VALUE_BYTES * one.widths[0] * (one.vertices[0] - hits)
            for one, hits in zip(self.work, self.hits, strict=True)
            if one is not None
        )

    @property
    def _busy(self) -> list[Workload]:
        return [one for one in self.work if one is not None]

    @property
    def _is_split(self) -> bool:
        return min(self.widths) < self._busy[0].widths[0]

    def _of_rows(self, rank: int, platform: Platform, rates: Rates, given: Conditions) -> float:
        own = self.work[rank]
        if own is None:
            return 0.0
        there = given.replace(beta=self.hits[rank] / own.vertices[0])
        return float(iteration_seconds(own, rates, platform, there)[0])

    def _of_split(self, rank: int, platform: Platform, rates: Rates, given: Conditions) -> float:
        """Returns the seconds of a device that has some columns of all rows (P3): our extension of the model.

        It computes the input layer of every mini-batch with its columns, sends the partial sums to the devices whose
        they are, takes those of its own, and likewise their gradients. Then it goes on with its own mini-batch.
        """
        local, own = given.replace(beta=1.0), self.work[rank]
        computing = given.loss_seconds + self._exchanged_bytes(rank) / platform.device_link_bytes_per_s
        for one in self._busy:
            narrow = dataclasses.replace(one, widths=(self.widths[rank], *one.widths[1:]))
            computing += _input_seconds(narrow, platform, rates, local)
        if own is not None:
            computing += float(work_seconds(own, rates, platform, local).whole[0])
            computing -= _input_seconds(own, platform, rates, local)
        return max(given.sampling_seconds, computing) + synchronisation_seconds(self._busy[0], platform)

    def _exchanged_bytes(self, rank: int) -> float:
        """Returns the bytes that a device sends of partial sums and their gradients; it receives as many meanwhile."""
        wide = self._busy[0].widths[1]
        sums = [0.0 if one is None else VALUE_BYTES * wide * one.vertices[1] for one in self.work]
        others = len(self.work) - 1
        return sum(sums) - sums[rank] + others * sums[rank]


def _input_seconds(work: Workload, platform: Platform, rates: Rates, local: Conditions) -> float:
    """Returns the seconds of layer 1, forward and backward."""
    found = layer_seconds(work, 1, rates, platform, local)
    return float((found.whole + found.update)[0])

"""`DividedStages`: mini-batches that several trainers of one process have shares of, each on a device of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any

import torch

from a3gnn.measurement import StageSeconds
from a3gnn.runtime.batch import MiniBatch
from a3gnn.runtime.plan import PlannedBatch
from a3gnn.runtime.stages import Sampled, Stages
from a3gnn.runtime.watch import Watch
from a3gnn.sampling.share import cut, seed_bounds
from a3gnn.sampling.side_by_side import side_by_side


@dataclass(slots=True, eq=False)
class Dividing:
    """How mini-batches come to trainers.

    Attributes:
        weights: What each trainer has of the seeds, whole numbers in proportion; one of 0 has none, and keeps step.
            Where mini-batches are sampled whole, it may be set anew, for those that are read from then on.
        send: Brings a trainer's share to its device; safe to call from several threads.
        watch: Knows who works at what.
        independent: Whether each share is sampled for itself. If not, the whole mini-batch is, and cut by its seeds,
            so that the shares come to what the whole comes to (`a3gnn.sampling.share`).
    """

    weights: tuple[int, ...]
    send: tuple[Callable[[MiniBatch], MiniBatch], ...]
    watch: Watch
    independent: bool = False


@dataclass(slots=True, eq=False)
class DividedBatch(MiniBatch):
    """A mini-batch in shares. Of the whole it has the structure alone: `x` and `y` have no rows.

    Attributes:
        parts: Each trainer's share, on its device, in their order.
        on_host: The same before they were sent.
        weights: By which it was divided.
    """

    parts: tuple[MiniBatch, ...] = ()
    on_host: tuple[MiniBatch, ...] = ()
    weights: tuple[int, ...] = ()


class DividedStages(Stages):
    """Samples mini-batches on the host, reads each share's features there, and sends it to its trainer's device.

    Args:
        dividing: How.
        given: As of `Stages`.
        options: Likewise.
    """

    def __init__(self, *given: Any, dividing: Dividing, **options: Any) -> None:
        super().__init__(*given, **options)
        self._dividing = dividing

    def sample(self, epoch: int, planned: PlannedBatch) -> Sampled:
        """Returns the sampled ids of `planned`: of the whole, or of all shares beside each other."""
        watch, weights = self._dividing.watch, self._dividing.weights
        if not self._dividing.independent:
            with watch.at("sampling", epoch, planned.index):
                return super().sample(epoch, planned)
        begin, parts = perf_counter(), []
        for trainer, (low, high) in enumerate(pairwise(seed_bounds(len(planned.seeds), weights))):
            if high > low:
                with watch.at("sampling", epoch, planned.index, trainer):
                    parts.append(self._sampler.sample(planned.seeds[low:high], epoch, planned.index))
        return Sampled(epoch, planned.index, side_by_side(parts), perf_counter() - begin)

    def gather(self, sampled: Sampled) -> DividedBatch:
        """Returns the mini-batch with each share's features and labels, on its device or on the way there."""
        whole, (epoch, index), watch = sampled.subgraph, (sampled.epoch, sampled.index), self._dividing.watch
        weights = self._dividing.weights
        ends = seed_bounds(whole.num_seeds, weights)
        on_host, parts, begin = [], [], perf_counter()
        for trainer, send in enumerate(self._dividing.send):
            with watch.at("loading", epoch, index, trainer):
                share = cut(whole, ends[trainer], ends[trainer + 1])
                on_host.append(self._on_host(dataclasses.replace(sampled, subgraph=share)))
            with watch.at("transfer", epoch, index, trainer):
                parts.append(send(on_host[-1]))
        seconds = StageSeconds(sampled.seconds, perf_counter() - begin, 0.0, 0.0)
        structure = torch.from_numpy(whole.indptr), torch.from_numpy(whole.indices)
        hits = sum(part.hits for part in on_host)
        none = torch.empty(0)
        return DividedBatch(
            epoch,
            index,
            whole,
            none,
            none,
            *structure,
            hits,
            seconds,
            self._aggregator,
            parts=tuple(parts),
            on_host=tuple(on_host),
            weights=weights,
        )

    def arrive(self, batch: MiniBatch) -> None:
        """Does nothing: each trainer waits for its own share."""

    def release(self, batch: MiniBatch) -> None:
        """Takes back the buffers of all shares."""
        assert isinstance(batch, DividedBatch)
        for part in batch.on_host:
            super().release(part)

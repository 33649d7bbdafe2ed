"""`DividedStages`: mini-batches that several trainers of one process have shares of, each on a device of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any

import torch

from a3gnn.config import TrainConfig
from a3gnn.measurement import StageSeconds
from a3gnn.runtime.batch import MiniBatch
from a3gnn.runtime.plan import PlannedBatch
from a3gnn.runtime.prefetching import prefetched
from a3gnn.runtime.stages import Sampled, Stages
from a3gnn.runtime.watch import Watch
from a3gnn.sampling.share import Shares, cut, seed_bounds
from a3gnn.sampling.side_by_side import side_by_side


@dataclass(slots=True, eq=False)
class Dividing:
    """How mini-batches come to trainers.

    Attributes:
        weights: What each trainer has of the seeds, whole numbers in proportion; one of 0 has none, and keeps step.
            Where mini-batches are sampled whole, it may be set anew, for those that are read from then on.
        send: Brings a trainer's share to its device; safe to call from several threads.
        page_locked: Whether it is copied from there, so that it is read to page-locked memory.
        watch: Knows who works at what.
        independent: Whether each share is sampled for itself. If not, the whole mini-batch is, and cut by its seeds,
            so that the shares come to what the whole comes to (`a3gnn.sampling.share`).
        depths: By how many mini-batches sampling may be ahead of loading, loading of transfer, and transfer of the
            trainers; None where the configuration's mode and workers say who is ahead.
        threads: Of each stage that is ahead of the next by `depths`.
    """

    weights: tuple[int, ...]
    send: tuple[Callable[[MiniBatch], MiniBatch], ...]
    page_locked: tuple[bool, ...]
    watch: Watch
    independent: bool = False
    depths: tuple[int, int, int] | None = None
    threads: int = 1


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


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A mini-batch after its second stage.

    Attributes:
        sampled: What was sampled of it.
        shares: Each trainer's, on the host.
        weights: By which it was divided.
        seconds: Of loading.
    """

    sampled: Sampled
    shares: tuple[MiniBatch, ...]
    weights: tuple[int, ...]
    seconds: float


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

    @property
    def depths(self) -> tuple[int, int, int] | None:
        """As of `Dividing`."""
        return self._dividing.depths

    def prefetched(
        self, epoch: int, planned: Iterable[PlannedBatch], depths: tuple[int, int, int]
    ) -> Generator[DividedBatch, None, None]:
        """Yields the mini-batches `planned`, in order; sampling, loading and transfer are ahead by `depths`."""
        stages = partial(self.sample, epoch), self.load, self.transfer
        return prefetched(planned, stages, depths, self._dividing.threads)

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
        return self.transfer(self.load(sampled))

    def load(self, sampled: Sampled) -> Loaded:
        """Returns each share of the mini-batch with its features and labels, on the host."""
        whole, dividing, begin = sampled.subgraph, self._dividing, perf_counter()
        weights, shares = dividing.weights, []
        ends = seed_bounds(whole.num_seeds, weights)
        for trainer, locked in enumerate(dividing.page_locked):
            with dividing.watch.at("loading", sampled.epoch, sampled.index, trainer):
                share = cut(whole, ends[trainer], ends[trainer + 1])
                read = self._on_host(dataclasses.replace(sampled, subgraph=share), locked=locked)
                shares.append(read.pinned() if locked else read)
        return Loaded(sampled, tuple(shares), weights, perf_counter() - begin)

    def transfer(self, loaded: Loaded) -> DividedBatch:
        """Returns the mini-batch with its shares on their devices, or on the way there."""
        sampled, parts, begin = loaded.sampled, [], perf_counter()
        for trainer, (share, send) in enumerate(zip(loaded.shares, self._dividing.send, strict=True)):
            with self._dividing.watch.at("transfer", sampled.epoch, sampled.index, trainer):
                parts.append(send(share))
        whole, none = sampled.subgraph, torch.empty(0)
        return DividedBatch(
            sampled.epoch,
            sampled.index,
            whole,
            none,
            none,
            torch.from_numpy(whole.indptr),
            torch.from_numpy(whole.indices),
            sum(share.hits for share in loaded.shares),
            StageSeconds(sampled.seconds, loaded.seconds + perf_counter() - begin, 0.0, 0.0),
            self._aggregator,
            parts=tuple(parts),
            on_host=loaded.shares,
            weights=loaded.weights,
        )

    def arrive(self, batch: MiniBatch) -> None:
        """Does nothing: each trainer waits for its own share."""

    def release(self, batch: MiniBatch) -> None:
        """Takes back the buffers of all shares; torch reuses those that are page-locked once copies have ended."""
        assert isinstance(batch, DividedBatch)
        for part, locked in zip(batch.on_host, self._dividing.page_locked, strict=True):
            if not locked:
                super().release(part)


def most_held(config: TrainConfig, shares: Shares | Dividing | None) -> int:
    """Returns how many buffers an epoch has out at once: those ahead, the caller's, and those that it has yet to drop.

    Args:
        config: Its mode and workers matter.
        shares: As of `Pipeline`.
    """
    ahead = 0 if config.parallel_mode == "sequential" else config.num_workers
    if not isinstance(shares, Dividing):
        return ahead + 2
    if shares.depths is not None:
        ahead = sum(shares.depths[1:])
    return (ahead + 2) * len(shares.send)

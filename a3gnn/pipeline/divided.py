"""`DividedStages`: mini-batches that several trainers of one process have shares of, each on a device of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import torch

from a3gnn.config import TrainConfig
from a3gnn.measurement import StageSeconds
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.pipeline.stages import SampledBatch, Sampler, Stages
from a3gnn.pipeline.watch import Watch
from a3gnn.sampling.share import Shares, cut, seed_bounds
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.threads import pool
from a3gnn.threads.staged_map import staged_map


@dataclass(frozen=True, slots=True)
class RepeatedWork:
    """Of all shares together over the whole mini-batch; 1 where nothing is repeated.

    Attributes:
        sampled_edges: Edges that are sampled.
        trained_edges: Edges that are computed with, of the input layer.
        rows: Rows of features that are read.
    """

    sampled_edges: float
    trained_edges: float
    rows: float


def repeated_work(
    sampler: Sampler, planned: Iterable[PlannedBatch], weights: Sequence[int], *, independent: bool
) -> RepeatedWork:
    """Returns what shares repeat of the mini-batches `planned`, as those of epoch 0 are sampled.

    Args:
        sampler: Samples them once more, whole.
        planned: One at least.
        weights: What each share has of the seeds, in proportion.
        independent: Whether each is sampled for itself; if not, it is cut from the whole.
    """
    edges = rows = trained = read = 0
    for batch in planned:
        whole = sampler.sample(batch.seeds, 0, batch.index)
        edges, rows = edges + whole.num_edges, rows + whole.num_nodes
        for low, high in pairwise(seed_bounds(len(batch.seeds), weights)):
            if high > low:
                alone = sampler.sample(batch.seeds[low:high], 0, batch.index) if independent else cut(whole, low, high)
                trained, read = trained + alone.num_edges, read + alone.num_nodes
    # A graph may have no edge.
    repeated = trained / edges if edges else 1.0
    return RepeatedWork(repeated if independent else 1.0, repeated, read / rows)


def side_by_side(parts: Sequence[Subgraph]) -> Subgraph:
    """Returns one neighbourhood that holds all `parts`, without an edge from one to another.

    Seeds are those of the parts, in order; `a3gnn.sampling.share.cut` gives each part back. A node that several parts
    reach is there several times.

    Args:
        parts: Of as many hops each, one at least, without ids of edges.
    """
    sizes = np.array([part.hop_sizes for part in parts])  # (n_parts, n_hops + 1)
    found = np.diff(sizes, axis=1, prepend=0)
    by_hop = found.T.ravel()  # nodes come hop by hop, and within a hop part by part
    begins = (np.cumsum(by_hop) - by_hop).reshape(found.T.shape).T
    places = [
        np.repeat(begin - known + new, new) + np.arange(known[-1])
        for begin, known, new in zip(begins, sizes, found, strict=True)
    ]
    n_id = np.empty(sizes[:, -1].sum(), dtype=np.int32)
    rows = [place[: len(part.indptr) - 1] for part, place in zip(parts, places, strict=True)]
    degrees = np.zeros(sum(map(len, rows)), dtype=np.int64)
    for part, place, row in zip(parts, places, rows, strict=True):
        n_id[place] = part.n_id
        degrees[row] = np.diff(part.indptr)
    indptr = np.zeros(len(degrees) + 1, dtype=np.int32)
    np.cumsum(degrees, out=indptr[1:])
    indices = np.empty(indptr[-1], dtype=np.int32)
    for part, place, row in zip(parts, places, rows, strict=True):
        edges = np.repeat(indptr[row] - part.indptr[:-1], np.diff(part.indptr)) + np.arange(part.num_edges)
        indices[edges] = place[part.indices]
    return Subgraph(n_id, indptr, indices, tuple(sizes.sum(axis=0).tolist()))


def prefetched(
    items: Iterable[Any], stages: Sequence[Callable[[Any], Any]], depths: Sequence[int], threads: int
) -> Generator[Any, None, None]:
    """Yields what `stages` make of each item one after the other, in order (HyScale-GNN, section IV-B and Fig. 7).

    A stage that may be ahead of the next one has a thread of its own, on which it begins an item once the next stage
    has begun the one that is its depth before; the caller, whose the last stage is, begins one when it comes. With
    depth 0 both work on one item, one after the other: on one thread, or on the caller's, when the item is asked for.

    Args:
        items: What is to be made.
        stages: Those before the caller's.
        depths: For each of them, by how many items it may be ahead of the next.
        threads: Those that a stage with a thread of its own computes on, that one included.
    """
    groups: list[list[Callable[[Any], Any]]] = [[]]
    for stage, depth in zip(stages, depths, strict=True):
        groups[-1].append(stage)
        if depth:
            groups.append([])
    *ahead, last = groups
    if not ahead:
        yield from (_in_turn(last, item) for item in items)
        return

    def on_thread(group: Sequence[Callable[[Any], Any]], item: Any) -> Any:
        with pool.limited(threads):
            return _in_turn(group, item)

    own = [partial(on_thread, group) for group in ahead]
    with closing(staged_map(items, own, [depth for depth in depths if depth])) as results:
        for result in results:
            yield _in_turn(last, result)


def _in_turn(stages: Sequence[Callable[[Any], Any]], item: Any) -> Any:
    for stage in stages:
        item = stage(item)
    return item


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

    sampled: SampledBatch
    shares: tuple[MiniBatch, ...]
    weights: tuple[int, ...]
    seconds: float


@dataclass(eq=False)
class DividedStages(Stages):
    """Samples mini-batches on the host, reads each share's features there, and sends it to its trainer's device.

    Attributes:
        dividing: How.
    """

    dividing: Dividing = field(kw_only=True)

    @property
    def depths(self) -> tuple[int, int, int] | None:
        """As of `Dividing`."""
        return self.dividing.depths

    def prefetched(
        self, epoch: int, planned: Iterable[PlannedBatch], depths: tuple[int, int, int]
    ) -> Generator[DividedBatch, None, None]:
        """Yields the mini-batches `planned`, in order; sampling, loading and transfer are ahead by `depths`."""
        stages = partial(self.sample, epoch), self.load, self.transfer
        return prefetched(planned, stages, depths, self.dividing.threads)

    def sample(self, epoch: int, planned: PlannedBatch) -> SampledBatch:
        """Returns the sampled ids of `planned`: of the whole, or of all shares beside each other."""
        watch, weights = self.dividing.watch, self.dividing.weights
        if not self.dividing.independent:
            with watch.at("sampling", epoch, planned.index):
                return super().sample(epoch, planned)
        begin, parts = perf_counter(), []
        for trainer, (low, high) in enumerate(pairwise(seed_bounds(len(planned.seeds), weights))):
            if high > low:
                with watch.at("sampling", epoch, planned.index, trainer):
                    parts.append(self.sampler.sample(planned.seeds[low:high], epoch, planned.index))
        return SampledBatch(epoch, planned.index, side_by_side(parts), perf_counter() - begin)

    def gather(self, sampled: SampledBatch) -> DividedBatch:
        """Returns the mini-batch with each share's features and labels, on its device or on the way there."""
        return self.transfer(self.load(sampled))

    def load(self, sampled: SampledBatch) -> Loaded:
        """Returns each share of the mini-batch with its features and labels, on the host."""
        whole, dividing, begin = sampled.subgraph, self.dividing, perf_counter()
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
        for trainer, (share, send) in enumerate(zip(loaded.shares, self.dividing.send, strict=True)):
            with self.dividing.watch.at("transfer", sampled.epoch, sampled.index, trainer):
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
            self.aggregator,
            parts=tuple(parts),
            on_host=loaded.shares,
            weights=loaded.weights,
        )

    def arrive(self, batch: MiniBatch) -> None:
        """Does nothing: each trainer waits for its own share."""

    def release(self, batch: MiniBatch) -> None:
        """Takes back the buffers of all shares; torch reuses those that are page-locked once copies have ended."""
        assert isinstance(batch, DividedBatch)
        for part, locked in zip(batch.on_host, self.dividing.page_locked, strict=True):
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

"""`DividedStages`: mini-batches divided among several trainers of one process, each with a device of its own.

Also computes how much work the shares repeat, and runs stages ahead of each other by given depths (`prefetched`).
"""

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
from a3gnn.pipeline.stages import SampledBatch, Stages
from a3gnn.pipeline.watch import Watch
from a3gnn.sampling.share import Shares, cut, seed_bounds
from a3gnn.sampling.subgraph import AnySampler, Subgraph
from a3gnn.threads import pool
from a3gnn.threads.ordered_map import staged_map


@dataclass(slots=True, eq=False)
class Dividing:
    """How mini-batches are divided among trainers.

    Attributes:
        weights: Each trainer's seeds, as integers in proportion. A trainer with 0 has none, and still takes part in
            every step. If mini-batches are sampled whole, it may change; mini-batches that are read later follow it.
        send: For each trainer, copies its share to its device; safe to call from several threads.
        page_locked: For each trainer, whether its share is read to page-locked memory, because it is copied from there.
        watch: Records which thread works at which stage.
        independent: Whether each share is sampled by itself. If not, the whole mini-batch is sampled and cut by its
            seeds, so that the shares compute what the whole computes (`a3gnn.sampling.share`).
        depths: By how many mini-batches sampling may be ahead of loading, loading of transfer, and transfer of the
            trainers. None lets the configuration's mode and workers decide.
        threads: Number of threads of each stage that is ahead of the next by `depths`.
    """

    weights: tuple[int, ...]
    send: tuple[Callable[[MiniBatch], MiniBatch], ...]
    page_locked: tuple[bool, ...]
    watch: Watch
    independent: bool = False
    depths: tuple[int, int, int] | None = None
    threads: int = 1


@dataclass(slots=True, eq=False, kw_only=True)
class DividedBatch(MiniBatch):
    """A mini-batch in shares. It holds the structure of the whole mini-batch, but `x` and `y` have no rows."""

    parts: tuple[MiniBatch, ...] = ()  # each trainer's share on its device, in the order of the trainers
    on_host: tuple[MiniBatch, ...] = ()  # the same shares on the host, before the transfer
    weights: tuple[int, ...] = ()  # the weights by which it was divided


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A mini-batch after its second stage, loading."""

    sampled: SampledBatch  # the mini-batch after its first stage
    shares: tuple[MiniBatch, ...]  # each trainer's share, on the host
    weights: tuple[int, ...]  # the weights by which it was divided
    seconds: float  # time that loading took


@dataclass(eq=False)
class DividedStages(Stages):
    """Samples mini-batches on the host, reads each share's features there, and sends it to its trainer's device."""

    dividing: Dividing = field(kw_only=True)

    @property
    def depths(self) -> tuple[int, int, int] | None:
        """See `Dividing.depths`."""
        return self.dividing.depths

    def prefetched(
        self, epoch: int, planned: Iterable[PlannedBatch], depths: tuple[int, int, int]
    ) -> Generator[DividedBatch, None, None]:
        """Yields the mini-batches `planned`, in order; sampling, loading and transfer run ahead by `depths`."""
        stages = partial(self.sample, epoch), self.load, self.transfer
        return prefetched(planned, stages, depths, self.dividing.threads)

    def sample(self, epoch: int, planned: PlannedBatch) -> SampledBatch:
        """Samples `planned`: as a whole, or each share by itself, side by side in one subgraph."""
        if (held := self.held.pop((epoch, planned.index), None)) is not None:
            return held
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
        """Returns the mini-batch with each share's features and labels; copies to devices may still be under way."""
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
        """Sends the shares to their devices; copies may still be under way on return."""
        sampled, parts, begin = loaded.sampled, [], perf_counter()
        for trainer, (share, send) in enumerate(zip(loaded.shares, self.dividing.send, strict=True)):
            with self.dividing.watch.at("transfer", sampled.epoch, sampled.index, trainer):
                parts.append(send(share))
        whole, none = sampled.subgraph, torch.empty(0)
        return DividedBatch(
            epoch=sampled.epoch,
            index=sampled.index,
            subgraph=whole,
            x=none,
            y=none,
            indptr=torch.from_numpy(whole.indptr),
            indices=torch.from_numpy(whole.indices),
            hits=sum(share.hits for share in loaded.shares),
            seconds=StageSeconds(sampled.seconds, loaded.seconds + perf_counter() - begin, 0.0, 0.0),
            aggregator=self.aggregator,
            parts=tuple(parts),
            on_host=loaded.shares,
            weights=loaded.weights,
        )

    def arrive(self, batch: MiniBatch) -> None:
        """Does nothing: each trainer waits for its own share."""

    def release(self, batch: MiniBatch) -> None:
        """Takes back the buffers of all shares, except page-locked ones, which torch reuses once copies have ended."""
        assert isinstance(batch, DividedBatch)
        for part, locked in zip(batch.on_host, self.dividing.page_locked, strict=True):
            if not locked:
                super().release(part)


def most_held(config: TrainConfig, shares: Shares | Dividing | None) -> int:
    """Returns how many buffers an epoch holds at once.

    These are the buffers of mini-batches prepared ahead, the caller's, and those not dropped yet.

    Args:
        config: Its mode and workers are used.
        shares: See `PipelineOptions`.
    """
    ahead = 0 if config.parallel_mode == "sequential" else config.num_workers
    if not isinstance(shares, Dividing):
        return ahead + 2
    if shares.depths is not None:
        ahead = sum(shares.depths[1:])
    return (ahead + 2) * len(shares.send)


@dataclass(frozen=True, slots=True)
class RepeatedWork:
    """Work of all shares together over that of one trainer with the whole mini-batch; 1 means nothing is repeated."""

    sampled_edges: float  # ratio of sampled edges
    trained_edges: float  # ratio of edges that the input layer computes with
    rows: float  # ratio of feature rows that are read


def repeated_work(
    sampler: AnySampler, planned: Iterable[PlannedBatch], weights: Sequence[int], *, independent: bool
) -> RepeatedWork:
    """Returns the work that shares repeat in the mini-batches `planned`, sampled as in epoch 0.

    Args:
        sampler: Samples whole mini-batches.
        planned: At least one mini-batch.
        weights: Each share's seeds, in proportion.
        independent: Whether each share is sampled by itself. If not, it is cut from the whole mini-batch.
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
    """Returns one neighborhood that contains all `parts`, without edges between them.

    Its seeds are the parts' seeds, in order; `a3gnn.sampling.share.cut` returns each part. A node that several parts
    reach occurs several times.

    Args:
        parts: At least one, all with the same number of hops; all with edge ids or all without.
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
    e_id = None if parts[0].e_id is None else np.empty(indptr[-1], dtype=np.int64)
    for part, place, row in zip(parts, places, rows, strict=True):
        edges = np.repeat(indptr[row] - part.indptr[:-1], np.diff(part.indptr)) + np.arange(part.num_edges)
        indices[edges] = place[part.indices]
        if e_id is not None:
            e_id[edges] = part.e_id
    return Subgraph(n_id, indptr, indices, tuple(sizes.sum(axis=0).tolist()), e_id)


def prefetched(
    items: Iterable[Any], stages: Sequence[Callable[[Any], Any]], depths: Sequence[int], threads: int
) -> Generator[Any, None, None]:
    """Passes each item through `stages` and yields the results in order (HyScale-GNN, section IV-B and Fig. 7).

    A stage with a depth d > 0 runs on a thread of its own. It begins an item once the next stage has begun the item d
    places before. A stage with depth 0 shares a thread with the next one, and both finish an item before the next
    item. The caller is the last stage: it begins an item when it receives it. A stage that shares the caller's thread
    works when the caller requests an item.

    Args:
        items: Inputs of the first stage.
        stages: All stages except the caller's.
        depths: For each of `stages`, how many items it may be ahead of the next one.
        threads: Number of threads that a stage with a thread of its own computes on, including that one.
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

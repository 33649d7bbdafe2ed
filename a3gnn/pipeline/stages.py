"""The stages of a mini-batch before training, each timed: sample, gather, transfer; and the buffers that they reuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.features.buffers import BufferPool
from a3gnn.features.row_table import Aggregator, input_width
from a3gnn.features.store import FeatureStore, ReadResult
from a3gnn.features.typed_store import TypedRows, TypedStore
from a3gnn.measurement import StageSeconds
from a3gnn.pipeline.batch import MiniBatch, Upload
from a3gnn.pipeline.pairs import LinkExamples, PairSeeds
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.share import CutSampler
from a3gnn.sampling.subgraph import AnySampler, Subgraph


@dataclass(frozen=True, slots=True, eq=False)
class SampledBatch:
    """A mini-batch after its first stage, sampling; `examples` as in `MiniBatch`."""

    epoch: int
    index: int
    subgraph: Subgraph
    seconds: float
    examples: LinkExamples | None = None


@dataclass(eq=False)
class Stages:
    """Brings one mini-batch from its seeds to the device; every method is safe to call from several threads.

    Attributes:
        sampler: Samples ids.
        store: Serves features.
        labels: Labels of all nodes, or of all pairs, of any kind (`a3gnn.graphs.labels`).
        device: Where mini-batches are trained.
        buffers: Memory for dense features that are trained on the host; None allocates for each mini-batch.
        lends: Whether a mini-batch keeps its buffer as long as its features are in use, instead of until `release`.
        aggregator: Aggregates the features for the input layer; None reads them unchanged.
        tabled: Whether the store's rows are already aggregated.
        dtype: Type of dense features, float32 or bfloat16; the same as in `buffers`.
        edge_values: Values of all edges by name, which mini-batches contain by `Subgraph.e_id`.
        pairs: Makes seeds of pairs, for which planned mini-batches have numbers of pairs; None for nodes.
        held: Mini-batches that were sampled ahead, by epoch and index, until they are asked for (`Hyperbatches`).
    """

    sampler: AnySampler
    store: FeatureStore
    labels: NDArray[Any]
    device: str
    buffers: BufferPool | None
    lends: bool
    aggregator: Aggregator | None
    tabled: bool
    dtype: torch.dtype
    edge_values: Mapping[str, NDArray[np.float32]]
    pairs: PairSeeds | None = field(default=None, kw_only=True)
    held: dict[tuple[int, int], SampledBatch] = field(default_factory=dict, init=False)
    _fused: Aggregator | None = field(init=False)
    _upload: Upload | None = field(init=False)

    def __post_init__(self) -> None:
        self._fused = None if self.tabled else self.aggregator
        device = torch.device(self.device)
        self._upload = None if device.type == "cpu" else Upload(device)

    def sample(self, epoch: int, planned: PlannedBatch) -> SampledBatch:
        """Returns the sampled ids of `planned`."""
        if (held := self.held.pop((epoch, planned.index), None)) is not None:
            return held
        begin, examples = perf_counter(), None
        if self.pairs is not None:
            planned, examples = self.pairs.planned(planned, epoch)
        if planned.until is None:
            subgraph = self.sampler.sample(planned.seeds, epoch, planned.index)
        else:
            assert isinstance(self.sampler, Sampler | CutSampler), "only the host samples by time"
            subgraph = self.sampler.sample(planned.seeds, epoch, planned.index, planned.until)
        if self.pairs is not None and examples is not None:
            subgraph = self.pairs.without(subgraph, examples)
        return SampledBatch(epoch, planned.index, subgraph, perf_counter() - begin, examples)

    def gather(self, sampled: SampledBatch) -> MiniBatch:
        """Returns the mini-batch with its features and labels; its copy to the device may still be under way."""
        if self._upload is None:
            return self._on_host(sampled)
        with self._upload.stream():
            return self._upload.send(self._on_host(sampled))

    def _on_host(self, sampled: SampledBatch, *, locked: bool = False) -> MiniBatch:
        """Returns the mini-batch on the host, in page-locked memory if `locked`; or on the device that caches rows."""
        begin, typed = perf_counter(), None
        subgraph = sampled.subgraph
        if isinstance(self.store, TypedStore):
            typed = self.store.read_types(subgraph)
            x, hits = torch.empty(0), typed.hits
        else:
            x, hits = self._read(subgraph, locked)
        judged = subgraph.n_id[: subgraph.num_seeds] if sampled.examples is None else sampled.examples.ids
        y = torch.from_numpy(np.asarray(self.labels)[judged])
        seconds = StageSeconds(sampled.seconds, perf_counter() - begin, 0.0, 0.0)
        return self._batch(sampled, x=x, y=y, hits=hits, seconds=seconds, typed=typed)

    def _batch(
        self,
        sampled: SampledBatch,
        *,
        x: torch.Tensor,
        y: torch.Tensor,
        hits: int,
        seconds: StageSeconds,
        typed: TypedRows | None = None,
    ) -> MiniBatch:
        """Returns the mini-batch of `sampled`, on the host, with these features and labels."""
        subgraph = sampled.subgraph
        share = subgraph.share
        return MiniBatch(
            epoch=sampled.epoch,
            index=sampled.index,
            subgraph=subgraph,
            x=x,
            y=y,
            indptr=torch.from_numpy(subgraph.indptr),
            indices=torch.from_numpy(subgraph.indices),
            hits=hits,
            seconds=seconds,
            aggregator=self.aggregator,
            typed=typed,
            edges=self._values(subgraph, typed),
            whole_edges={} if share is None else self._values(share.whole, weights=True),
            examples=sampled.examples,
        )

    def _values(
        self, subgraph: Subgraph, typed: TypedRows | None = None, *, weights: bool = False
    ) -> dict[str, torch.Tensor]:
        """Returns the values of the edges of `subgraph`, by name; `weights` leaves out attributes.

        With types they are in the order of the relations, as in `TypedSubgraph`.
        """
        if not self.edge_values:
            return {}
        assert subgraph.e_id is not None, "a sampler of edges with ids"
        ids = subgraph.e_id if typed is None else np.concatenate(typed.view.e_id)
        read = {name: array for name, array in self.edge_values.items() if array.ndim == 1 or not weights}
        return {name: torch.from_numpy(array[ids]) for name, array in read.items()}

    def complete(self, epoch: int, planned: PlannedBatch) -> MiniBatch:
        """Samples and gathers the mini-batch `planned`."""
        return self.gather(self.sample(epoch, planned))

    def arrive(self, batch: MiniBatch) -> None:
        """Makes the caller's stream wait for `batch` if its copy to a device is under way."""
        if batch.arrival is not None:
            batch.arrival.wait(batch.tensors)

    def release(self, batch: MiniBatch) -> None:
        """Takes back the buffer of `batch`, whose features the caller no longer reads."""
        if self.buffers and not self.lends:
            self.buffers.give(batch.x)

    def _read(self, subgraph: Subgraph, locked: bool) -> ReadResult:
        """Returns the rows, or aggregates, that the input layer reads."""
        if self._fused is None:
            return self.store.read(subgraph.n_id, self._buffer(subgraph.num_nodes, locked))
        block = subgraph.block(0)
        return self.store.read_aggregated(subgraph.n_id, block, self._fused, self._buffer(block.num_dst, locked))

    def _buffer(self, rows: int, locked: bool) -> torch.Tensor | None:
        """Returns memory for dense rows on the store's device; None lets the store allocate."""
        if self.buffers and not locked:
            return self.buffers.lend(rows) if self.lends else self.buffers.take(rows)
        if self.store.is_sparse or not (locked or self._upload):
            return None
        shape = rows, input_width(self._fused, self.store.num_features)
        if self.store.device != "cpu":
            return torch.empty(shape, dtype=self.dtype, device=self.device)
        # torch keeps page-locked memory and reuses it once the copies out of it have ended, so it needs no pool.
        return torch.empty(shape, dtype=self.dtype, pin_memory=True)


class DeferredStages(Stages):
    """Brings mini-batches to the caller without features and labels, which `read` adds for as much as is needed."""

    def gather(self, sampled: SampledBatch) -> MiniBatch:
        """Returns the mini-batch with its structure; `x` and `y` have no rows."""
        none = torch.empty(0)
        return self._batch(sampled, x=none, y=none, hits=0, seconds=StageSeconds(sampled.seconds, 0.0, 0.0, 0.0))

    def read(self, batch: MiniBatch, subgraph: Subgraph) -> MiniBatch:
        """Returns the part `subgraph` of `batch`, or all of it, with features and labels."""
        return super().gather(SampledBatch(batch.epoch, batch.index, subgraph, batch.seconds.sample))

"""The stages of a mini-batch before training, each timed: sample, gather, transfer; and the buffers that they reuse."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.features.row_table import Aggregator, input_width
from a3gnn.features.store import FeatureStore, ReadResult
from a3gnn.features.tensors import lent
from a3gnn.measurement import StageSeconds
from a3gnn.pipeline.batch import MiniBatch, Upload
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import AnySampler, Subgraph

# Ratio of a buffer's rows to the rows of the longest mini-batch so far. Guess.
_SLACK = 1.1


@dataclass(frozen=True, slots=True, eq=False)
class SampledBatch:
    """A mini-batch after its first stage, sampling."""

    epoch: int
    index: int
    subgraph: Subgraph
    seconds: float


@dataclass(eq=False)
class Stages:
    """Brings one mini-batch from its seeds to the device; every method is safe to call from several threads.

    Attributes:
        sampler: Samples ids.
        store: Serves features.
        labels: Labels of all nodes, of any kind (`a3gnn.graphs.labels`).
        device: Where mini-batches are trained.
        buffers: Memory for dense features that are trained on the host; None allocates for each mini-batch.
        lends: Whether a mini-batch keeps its buffer as long as its features are in use, instead of until `release`.
        aggregator: Aggregates the features for the input layer; None reads them unchanged.
        tabled: Whether the store's rows are already aggregated.
        dtype: Type of dense features, float32 or bfloat16; the same as in `buffers`.
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
    _fused: Aggregator | None = field(init=False)
    _upload: Upload | None = field(init=False)

    def __post_init__(self) -> None:
        self._fused = None if self.tabled else self.aggregator
        device = torch.device(self.device)
        self._upload = None if device.type == "cpu" else Upload(device)

    def sample(self, epoch: int, planned: PlannedBatch) -> SampledBatch:
        """Returns the sampled ids of `planned`."""
        begin = perf_counter()
        if planned.until is None:
            subgraph = self.sampler.sample(planned.seeds, epoch, planned.index)
        else:
            assert isinstance(self.sampler, Sampler), "only the host samples by time"
            subgraph = self.sampler.sample(planned.seeds, epoch, planned.index, planned.until)
        return SampledBatch(epoch, planned.index, subgraph, perf_counter() - begin)

    def gather(self, sampled: SampledBatch) -> MiniBatch:
        """Returns the mini-batch with its features and labels; its copy to the device may still be under way."""
        if self._upload is None:
            return self._on_host(sampled)
        with self._upload.stream():
            return self._upload.send(self._on_host(sampled))

    def _on_host(self, sampled: SampledBatch, *, locked: bool = False) -> MiniBatch:
        """Returns the mini-batch on the host, in page-locked memory if `locked`; or on the device that caches rows."""
        begin = perf_counter()
        subgraph = sampled.subgraph
        x, hits = self._read(subgraph, locked)
        y = torch.from_numpy(np.asarray(self.labels)[subgraph.n_id[: subgraph.num_seeds]])
        seconds = StageSeconds(sampled.seconds, perf_counter() - begin, 0.0, 0.0)
        return self._batch(sampled, x=x, y=y, hits=hits, seconds=seconds)

    def _batch(
        self, sampled: SampledBatch, *, x: torch.Tensor, y: torch.Tensor, hits: int, seconds: StageSeconds
    ) -> MiniBatch:
        """Returns the mini-batch of `sampled`, on the host, with these features and labels."""
        return MiniBatch(
            epoch=sampled.epoch,
            index=sampled.index,
            subgraph=sampled.subgraph,
            x=x,
            y=y,
            indptr=torch.from_numpy(sampled.subgraph.indptr),
            indices=torch.from_numpy(sampled.subgraph.indices),
            hits=hits,
            seconds=seconds,
            aggregator=self.aggregator,
        )

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


class BufferPool:
    """Hands out buffers and takes them back; safe to call from several threads.

    Buffers are 10 percent longer than the longest mini-batch so far, because worst-case buffers would take gigabytes.
    The caller must return buffers from `take` by `give`; buffers from `lend` return by themselves. The pool keeps at
    most `spare` returned buffers, and so frees memory that many mini-batches used at once.

    Args:
        width: Columns of each buffer.
        spare: Maximum number of unused buffers.
        dtype: float32 or bfloat16.
    """

    def __init__(self, width: int, spare: int, dtype: torch.dtype = torch.float32) -> None:
        self._width = width
        self._dtype = dtype
        # Appending to a full deque drops the buffer that has waited longest.
        self._free: deque[torch.Tensor] = deque(maxlen=spare)
        self._rows = 0

    def take(self, rows: int) -> torch.Tensor:
        """Returns the first `rows` rows of a buffer, shape (rows, width), uninitialized."""
        return self._buffer(rows)[:rows]

    def give(self, taken: torch.Tensor) -> None:
        """Takes back a result of `take`; its memory may be handed out again."""
        whole = taken._base
        self._free.append(whole if whole is not None else taken)

    def lend(self, rows: int) -> torch.Tensor:
        """Returns rows as `take` does; the memory is handed out again once no tensor uses it any more."""
        return lent(self._buffer(rows), rows, self._free.append)

    def _buffer(self, rows: int) -> torch.Tensor:
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = torch.empty((0, self._width), dtype=self._dtype)
        if len(buffer) < rows:
            self._rows = max(self._rows, int(rows * _SLACK))
            # Frees the short buffer before allocating the long one, so that memory never holds both.
            del buffer
            buffer = torch.empty((max(self._rows, rows), self._width), dtype=self._dtype)
        return buffer

"""The stages of a mini-batch before training, each timed: sample, gather, transfer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.features.result import FeatureStore
from a3gnn.measurement import StageSeconds
from a3gnn.runtime.batch import MiniBatch
from a3gnn.runtime.buffers import BufferPool
from a3gnn.runtime.plan import PlannedBatch
from a3gnn.sampling.subgraph import Subgraph


class Sampler(Protocol):
    """What samples neighbourhoods."""

    def sample(self, seeds: NDArray[np.int32], epoch: int, batch: int) -> Subgraph:
        """Returns the neighbourhood of `seeds` for mini-batch `batch` of `epoch`; safe to call from several threads."""


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """A mini-batch after its first stage."""

    epoch: int
    index: int
    subgraph: Subgraph
    seconds: float


class Stages:
    """Brings one mini-batch from its seeds to the device; every method is safe to call from several threads.

    Args:
        sampler: Samples ids.
        store: Serves features.
        labels: Of the whole graph, int64.
        device: Where mini-batches are trained.
        buffers: Memory for dense features on the host; None takes fresh memory a mini-batch.
    """

    def __init__(
        self, sampler: Sampler, store: FeatureStore, labels: NDArray[np.int64], device: str, buffers: BufferPool | None
    ) -> None:
        self._sampler = sampler
        self._store = store
        self._labels = labels
        self._device = torch.device(device)
        self._buffers = buffers
        self._streams = threading.local()

    def sample(self, epoch: int, planned: PlannedBatch) -> Sampled:
        """Returns the sampled ids of `planned`."""
        begin = perf_counter()
        subgraph = self._sampler.sample(planned.seeds, epoch, planned.index)
        return Sampled(epoch, planned.index, subgraph, perf_counter() - begin)

    def gather(self, sampled: Sampled) -> MiniBatch:
        """Returns the mini-batch with its features and labels, on the device."""
        subgraph = sampled.subgraph
        with self._copy_stream():
            begin = perf_counter()
            buffer = self._buffers.take(subgraph.num_nodes) if self._buffers else None
            x, hits = self._store.read(subgraph.n_id, buffer)
            y = torch.from_numpy(np.asarray(self._labels)[subgraph.n_id[: subgraph.num_seeds]])
            gathered = perf_counter()
            structure = (torch.from_numpy(subgraph.indptr), torch.from_numpy(subgraph.indices))
            seconds = StageSeconds(sampled.seconds, gathered - begin, 0.0, 0.0)
            epoch, index, labels = sampled.epoch, sampled.index, self._labels
            batch = MiniBatch(epoch, index, subgraph, x, y, *structure, hits, seconds, labels)
            if self._device.type == "cpu":
                return batch
            moved = batch.to(self._device)
            if buffer is not None and self._buffers:
                self._buffers.give(buffer)
        moved.seconds = StageSeconds(sampled.seconds, gathered - begin, perf_counter() - gathered, 0.0)
        return moved

    def complete(self, epoch: int, planned: PlannedBatch) -> MiniBatch:
        """Returns the mini-batch of `planned`: sample, then gather."""
        return self.gather(self.sample(epoch, planned))

    def arrive(self, batch: MiniBatch) -> None:
        """Tells the allocator that the caller's stream uses `batch`, which another stream made."""
        if self._device.type == "cuda":
            for tensor in (batch.x, batch.y, batch.indptr, batch.indices):
                if not tensor.is_sparse_csr:
                    tensor.record_stream(torch.cuda.current_stream(self._device))

    def release(self, batch: MiniBatch) -> None:
        """Takes back the buffer of `batch`, whose features the caller no longer reads."""
        if self._buffers and self._device.type == "cpu":
            self._buffers.give(batch.x)

    @contextlib.contextmanager
    def _copy_stream(self) -> Iterator[None]:
        """Copies of a thread go through a CUDA stream of its own, so that they don't wait for kernels that train."""
        if self._device.type != "cuda":
            yield
            return
        if not hasattr(self._streams, "own"):
            self._streams.own = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._streams.own):
            yield
            self._streams.own.synchronize()

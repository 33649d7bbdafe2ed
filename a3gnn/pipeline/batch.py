"""`MiniBatch`: a sampled neighborhood with features and labels, passed from stage to stage; and its copy to a GPU."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from a3gnn.features.row_table import Aggregator
from a3gnn.features.tensors import dense_parts
from a3gnn.features.typed_store import TypedRows
from a3gnn.measurement import StageSeconds
from a3gnn.pipeline.pairs import LinkExamples
from a3gnn.sampling.subgraph import Subgraph

_TENSORS = ("x", "y", "indptr", "indices")


class TorchBlock(NamedTuple):
    """The bipartite CSR of one layer as tensors on the batch's device; the first `num_dst` sources are its rows.

    `indptr` int32, shape (num_dst + 1,); `indices` int32, shape (num_edges,), below `num_src`.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    num_src: int
    num_dst: int


@dataclass(slots=True, eq=False, kw_only=True)
class MiniBatch:
    """A sampled neighborhood with its features and labels.

    Attributes:
        epoch: From 0.
        index: Place in the epoch, from 0.
        subgraph: Ids and structure, on the host. Lacks the input layer's hop if `x` contains rows of a table.
        x: Features of `subgraph.n_id`, shape (num_nodes, num_features), float32 or bfloat16, or sparse CSR. With an
            `aggregator`, it holds the aggregates for the input layer's destinations instead: computed during the read
            (`FeatureStore.read_aggregated`), or rows of a table (`Pipeline`).
        y: Labels of the seeds, int64, shape (num_seeds,).
        indptr: `subgraph.indptr` as a tensor on the device of `x`.
        indices: `subgraph.indices` as a tensor on the device of `x`.
        hits: Rows of features that the cache served.
        seconds: Work done so far, by stage; the trainer fills in `train`.
        aggregator: The aggregator already applied to `x`; None for raw features.
        arrival: When the copy to a CUDA device began and ended; None on the host.
        typed: Nodes, edges and features by type, where there are types; `x` is empty then.
        edges: Values of the sampled edges by name (`EDGE_VALUES`), a row for each of `indices`, float32, on the device
            of `x`; only those that the model reads.
        whole_edges: The weights of the whole mini-batch's edges, on the host, if this is a share.
        examples: The pairs that are predicted, of which `y` has the labels; None if seeds are.
        kept: Whether it is the whole graph, which the pipeline keeps for every epoch. `y` then belongs to the first
            nodes, and the trainer may replace `x` by its aggregates.
    """

    epoch: int
    index: int
    subgraph: Subgraph
    x: torch.Tensor
    y: torch.Tensor
    indptr: torch.Tensor
    indices: torch.Tensor
    hits: int
    seconds: StageSeconds
    aggregator: Aggregator | None = None
    arrival: Arrival | None = None
    typed: TypedRows | None = None
    edges: Mapping[str, torch.Tensor] = field(default_factory=dict)
    whole_edges: Mapping[str, torch.Tensor] = field(default_factory=dict)
    examples: LinkExamples | None = None
    kept: bool = False

    @property
    def num_examples(self) -> int:
        """The number of predicted pairs, or of seeds."""
        if self.kept:
            return len(self.y)
        return self.subgraph.sampled.num_seeds if self.examples is None else len(self.examples.ids)

    @property
    def num_seeds(self) -> int:
        """The number of seeds."""
        return self.subgraph.num_seeds

    @property
    def seed_share(self) -> float:
        """The fraction of the whole mini-batch's seeds in this share: 1 if it is whole, 0 for a share without seeds."""
        share = self.subgraph.share
        return 1.0 if share is None else share.num_seeds / self.subgraph.sampled.num_seeds

    @property
    def nbytes(self) -> int:
        """Bytes of the features, the labels, the structure and the edges' values."""
        tensors = (*dense_parts(self.x), self.y, *self.edges.values())
        return sum(int(tensor.nbytes) for tensor in tensors) + self.subgraph.nbytes

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The dense tensors of features, labels, structure and edges' values; sparse features consist of three."""
        return (*dense_parts(self.x), self.y, self.indptr, self.indices, *self.edges.values())

    @property
    def blocks(self) -> list[TorchBlock]:
        """The blocks of all layers with a sampled hop, input layer first, as views of one CSR."""
        return [self.block(layer) for layer in range(self.subgraph.num_layers)]

    def block(self, layer: int) -> TorchBlock:
        """Returns the block of `layer` as views; 0 is the first layer with a sampled hop."""
        num_src, num_dst = self.subgraph.layer_sizes(layer)
        edges = int(self.subgraph.indptr[num_dst])
        return TorchBlock(self.indptr[: num_dst + 1], self.indices[:edges], num_src, num_dst)

    def pinned(self) -> MiniBatch:
        """Returns the mini-batch with its dense tensors on the host page-locked, for copies that don't block."""
        names = [name for name in _TENSORS if getattr(self, name).device.type == "cpu"]
        dense = [name for name in names if not getattr(self, name).is_sparse_csr]
        edges = {name: one if one.is_cuda else one.pin_memory() for name, one in self.edges.items()}
        return dataclasses.replace(self, **{name: getattr(self, name).pin_memory() for name in dense}, edges=edges)

    def to(self, device: str | torch.device, non_blocking: bool = False) -> MiniBatch:
        """Returns the mini-batch with its tensors on `device`; shares the tensors that already are on it."""
        moved = {name: getattr(self, name).to(device, non_blocking=non_blocking) for name in _TENSORS}
        edges = {name: one.to(device, non_blocking=non_blocking) for name, one in self.edges.items()}
        return dataclasses.replace(self, **moved, edges=edges)


class Arrival(NamedTuple):
    """The begin and end of a mini-batch's copy, as events of the stream that copies."""

    begin: torch.cuda.Event
    end: torch.cuda.Event

    def wait(self, tensors: tuple[torch.Tensor, ...]) -> None:
        """Makes the caller's stream wait for the copy, without blocking the host, and registers it with the allocator.

        The tensors were allocated on the copying stream. Without `record_stream`, its next copies could overwrite their
        memory once the host has dropped them, before the caller's stream has read them.

        Args:
            tensors: Dense tensors, including the parts of sparse ones.
        """
        stream = torch.cuda.current_stream(tensors[0].device)
        stream.wait_event(self.end)
        for tensor in tensors:
            tensor.record_stream(stream)

    def seconds(self) -> float:
        """Waits for the end of the copy, and returns its duration in seconds."""
        self.end.synchronize()
        return float(self.begin.elapsed_time(self.end)) / 1e3


class Upload:
    """Copies on one stream per thread, so that copies wait neither for training kernels nor for each other.

    Args:
        device: A CUDA device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._threads = threading.local()

    @contextmanager
    def stream(self) -> Iterator[torch.cuda.Stream]:
        """Makes the calling thread's own stream the current one."""
        if not hasattr(self._threads, "stream"):
            self._threads.stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._threads.stream):
            yield self._threads.stream

    def send(self, batch: MiniBatch) -> MiniBatch:
        """Starts to copy `batch` from the host, and returns the copy; the host may overwrite `batch` at once."""
        with self.stream() as stream:
            kept = batch.pinned()
            begin = self.mark(stream)
            moved = kept.to(self._device, non_blocking=True)
            moved.arrival = Arrival(begin, self.mark(stream))
        return moved

    def mark(self, stream: torch.cuda.Stream) -> torch.cuda.Event:
        """Returns an event after all work queued on `stream` so far."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(stream)
        return event

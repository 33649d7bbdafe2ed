"""Full-neighbour inference, layer by layer, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from a3gnn.graphs.graph import Graph
from a3gnn.training.chunks import EDGE_BYTES, chunks, in_edges
from a3gnn.training.feature_rows import FeatureRows
from a3gnn.training.layers.block import LayerBlock
from a3gnn.training.layers.cost import Work
from a3gnn.training.layers.layer import Layer
from a3gnn.training.model import Model
from a3gnn.training.scratch import Scratch

#: Bytes of a chunk's temporaries. Guess.
CHUNK_BYTES = 32 * 2**20


class Inference:
    """Computes the logits of some nodes from all their in-neighbours, each layer once for each node that needs it.

    Hidden layers' outputs lie in memory-mapped scratch files; nodes are taken in chunks whose temporaries keep a
    budget. On an accelerator a chunk's sources are gathered and sent; on the CPU layers read the files in place.

    Args:
        graph: The whole graph, whatever parts training sees.
        ids: Nodes to answer for, distinct and ascending.
        num_layers: Layers of the models to come.
        scratch: Where hidden layers' outputs go.
        device: Where the models are.
        chunk_bytes: What a chunk's temporaries may take.
        in_place: Whether layers read whole matrices in place; by default on the CPU.
        on_chunk: Called before each chunk; what it raises ends the work there.
    """

    def __init__(
        self,
        graph: Graph,
        ids: NDArray[np.int32],
        num_layers: int,
        *,
        scratch: Scratch,
        device: torch.device | str = "cpu",
        chunk_bytes: int = CHUNK_BYTES,
        in_place: bool | None = None,
        on_chunk: Callable[[], None] = lambda: None,
    ) -> None:
        self._graph = graph
        self._device = torch.device(device)
        self._scratch = scratch
        self._chunk_bytes = chunk_bytes
        self._in_place = self._device.type == "cpu" if in_place is None else in_place
        self._on_chunk = on_chunk
        self._needed = [ids]
        for _ in range(num_layers):
            self._needed.insert(0, self._with_neighbours(self._needed[0]))
        self._degrees: Tensor | None = None

    @torch.inference_mode()
    def logits(self, model: Model) -> Iterator[tuple[NDArray[np.int32], Tensor]]:
        """Yields the nodes in order, in chunks of (ids, logits float32 of shape (n, num_classes) on the device)."""
        layers = model.layers
        rows = FeatureRows(self._graph.features)
        for i, layer in enumerate(layers[:-1]):
            hidden = self._scratch.matrix(self._graph.num_nodes, layer.out_channels)
            for ids, out in self._layer(layer, rows, self._needed[i], self._needed[i + 1]):
                _put(hidden, ids, functional.relu(out))
            rows = FeatureRows(hidden)
        yield from self._layer(layers[-1], rows, self._needed[-2], self._needed[-1])

    def _layer(
        self, layer: Layer, rows: FeatureRows, inputs: NDArray[np.int32], outputs: NDArray[np.int32]
    ) -> Iterator[tuple[NDArray[np.int32], Tensor]]:
        mean_degree = self._graph.num_edges / self._graph.num_nodes
        work = Work(len(inputs), len(outputs), round(mean_degree * len(outputs)), sparse=rows.is_sparse)
        mapped = layer.maps_first(work)
        sources = rows if not mapped and rows.whole is not None else self._mapped(layer, rows, inputs, mapped)
        row_bytes = 4 * (2 * layer.in_channels + 4 * layer.out_channels)
        edge_bytes = EDGE_BYTES + layer.edge_bytes + (0 if self._in_place else 4 * sources.columns)
        for ids in self._chunks(outputs, row_bytes, edge_bytes):
            block, aggregated = self._block(layer, sources, ids)
            yield ids, layer.update(block, aggregated, rows.read(ids, self._device), mapped)

    def _mapped(self, layer: Layer, rows: FeatureRows, ids: NDArray[np.int32], mapped: bool) -> FeatureRows:
        """Returns what the layer aggregates of each of `ids`, written to scratch once."""
        row_bytes = 4 * (2 * layer.in_channels + 2 * layer.out_channels)
        out: Tensor | None = None
        for some in self._chunks(ids, row_bytes, 0):
            part = layer.sources(rows.read(some, self._device), mapped)
            out = self._scratch.matrix(self._graph.num_nodes, part.shape[1]) if out is None else out
            _put(out, some, part)
        assert out is not None
        return FeatureRows(out)

    def _block(self, layer: Layer, sources: FeatureRows, ids: NDArray[np.int32]) -> tuple[LayerBlock, Tensor]:
        """Returns the full in-neighbourhood of `ids` and the sources' rows that it points into."""
        indptr, indices = in_edges(self._graph, ids)
        degrees = self._in_degrees() if layer.needs_degrees else None
        places: NDArray[np.integer] = ids
        count = self._graph.num_nodes
        matrix = sources.whole
        if not self._in_place or matrix is None:
            nodes, places = np.unique(np.concatenate([ids, indices]), return_inverse=True)
            places, indices = places[: len(ids)], places[len(ids) :].astype(np.int32)
            matrix, count = sources.read(nodes, self._device), len(nodes)
            degrees = degrees[torch.from_numpy(nodes)].to(self._device) if degrees is not None else None
        dst = _slice_or_ids(places, self._device)
        return LayerBlock(_on(indptr, self._device), _on(indices, self._device), count, dst, degrees), matrix

    def _chunks(self, ids: NDArray[np.int32], row_bytes: int, edge_bytes: int) -> Iterator[NDArray[np.int32]]:
        for some in chunks(ids, self._graph.indptr, row_bytes, edge_bytes, self._chunk_bytes):
            self._on_chunk()
            yield some

    def _with_neighbours(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        reached = np.zeros(self._graph.num_nodes, dtype=bool)
        reached[ids] = True
        for some in self._chunks(ids, 16, EDGE_BYTES):
            reached[in_edges(self._graph, some)[1]] = True
        return np.flatnonzero(reached).astype(np.int32)

    def _in_degrees(self) -> Tensor:
        """Returns each node's in-neighbours other than itself, float32, shape (num_nodes,)."""
        if self._degrees is None:
            degrees = torch.empty(self._graph.num_nodes)
            every = np.arange(self._graph.num_nodes, dtype=np.int32)
            for ids in self._chunks(every, 32, EDGE_BYTES):
                indptr, indices = in_edges(self._graph, ids)
                counts = np.diff(indptr)
                loops = np.repeat(ids, counts) == indices
                own = np.bincount(np.repeat(np.arange(len(ids)), counts)[loops], minlength=len(ids))
                degrees[torch.from_numpy(ids)] = torch.from_numpy((counts - own).astype(np.float32))
            self._degrees = degrees
        return self._degrees


def _slice_or_ids(places: NDArray[np.integer], device: torch.device) -> slice | Tensor:
    first, last = int(places[0]), int(places[-1])
    if last - first + 1 == len(places) and (np.diff(places) == 1).all():
        return slice(first, last + 1)
    return torch.from_numpy(places.astype(np.int64)).to(device)


def _put(matrix: Tensor, ids: NDArray[np.int32], rows: Tensor) -> None:
    where = _slice_or_ids(ids, torch.device("cpu"))
    if isinstance(where, slice):
        matrix[where] = rows.cpu()
    else:
        matrix.index_copy_(0, where, rows.cpu())


def _on(array: NDArray[np.int32], device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device)

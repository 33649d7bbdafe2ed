"""Full-neighbor inference of all nodes in groups of columns, for layers whose rows exceed the memory.

An aggregation without weights that are learned treats every column alone. So each layer's rows are stored by groups of
columns. One group at a time is in memory and is read at random, while the edges are read in order. The rest of a layer
works on rows in the order of the nodes, so that all files are read and written in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import IO, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from a3gnn.evaluation.column_kernels import sum_columns
from a3gnn.evaluation.inference import CHUNK_BYTES, Outputs, Scratch
from a3gnn.evaluation.neighborhoods import Neighborhoods
from a3gnn.features.row_table import row_like
from a3gnn.graphs.graph import Graph
from a3gnn.models.feature_rows import FeatureRows
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.layer import Layer, LayerShapes, linear
from a3gnn.models.model import Model
from a3gnn.storage.compiled import readonly
from a3gnn.threads import pool

#: Bytes beside a group of columns: chunks of two layers at once, and as much again to multiply them.
BESIDE_BYTES = 4 * CHUNK_BYTES
#: `aggregator` of `sum_columns`.
_KINDS = {"mean": 0, "sum": 1, "gcn": 2}
_CPU = torch.device("cpu")
#: Layers with an aggregator complete rows without their edges.
_NO_EDGES = LayerBlock(torch.zeros(1, dtype=torch.int32), torch.empty(0, dtype=torch.int32), 0, slice(0, 0))


@dataclass(frozen=True, slots=True)
class LayerGroups:
    """How one layer's rows are stored."""

    mapped: bool  # whether the linear map comes before the aggregation
    width: int  # columns to aggregate
    columns: int  # columns of a group; the last one may have fewer
    own: int  # columns of what a node's own row adds to its output; 0 if nothing is stored

    @property
    def count(self) -> int:
        """Number of groups."""
        return -(-self.width // self.columns)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """What inference of all nodes takes, known before its first step."""

    layers: tuple[LayerGroups, ...]
    dtype: np.dtype[Any]  # of stored rows, float32 or float16
    memory_bytes: int  # of the largest group, and of vectors with a number per node
    scratch_bytes: int  # most bytes of scratch at once
    last_bytes: int  # bytes of scratch while the outputs are computed

    @classmethod
    def of(cls, graph: Graph, model: Model, room: float, dtype: np.dtype[Any]) -> Self:
        """Returns the plan that takes at most `room` bytes of memory, or with one column per group what that takes.

        Args:
            graph: The whole graph.
            model: A model that is `columnwise`.
            room: Bytes for `memory_bytes`; infinite for no limit.
            dtype: Of scratch files, float32 or float16.
        """
        column, vector = graph.num_nodes * dtype.itemsize, vector_bytes(graph, model)
        layers = []
        for i, layer in enumerate(model.layers):
            mapped = maps_first(graph, layer, sparse=not i and graph.features.is_sparse)
            width = layer.out_channels if mapped else layer.in_channels
            has_own = i and (len(layer.input_weights) > 1 or model.shortcut(i) is not None)
            own = layer.out_channels if has_own else 0
            layers.append(LayerGroups(mapped, width, _columns(width, (room - vector) / column), own))
        sizes = [column * (layer.width + layer.own) for layer in layers]
        both = max(first + second for first, second in zip(sizes, [*sizes[1:], 0], strict=True))
        memory = column * max(layer.columns for layer in layers)
        return cls(tuple(layers), dtype, memory + vector, both, sizes[-1])


def warm_up(plan: ColumnPlan) -> None:
    """Compiles the kernel of `plan`, or loads it from numba's cache."""
    starts, none = readonly(np.zeros(2, dtype=np.int64)), readonly(np.empty(0, dtype=np.int32))
    out, weights = np.empty((1, 1), dtype=np.float32), readonly(np.empty(0, dtype=np.float32))
    rows = np.zeros((1, 1), dtype=plan.dtype)
    sum_columns(rows.ctypes.data, row_like(rows), 0, (starts, none, weights), 0, out, 0, 1)


def columnwise(model: Model) -> bool:
    """Returns whether every layer's aggregation treats each column alone; attention reads whole rows."""
    return all(layer.aggregator is not None for layer in model.layers)


def vector_bytes(graph: Graph, model: Model) -> int:
    """Returns the bytes of what inference keeps per node: the factors of GCN, and the ids while degrees are counted."""
    return 8 * graph.num_nodes if model.needs_degrees else 0


def widest_bytes(graph: Graph, model: Model) -> int:
    """Returns the bytes of the largest matrix whose rows `Inference` of all nodes reads at random."""
    sizes = []
    for i, layer in enumerate(model.layers):
        mapped = maps_first(graph, layer, sparse=not i and graph.features.is_sparse)
        stored = 4 * graph.num_nodes * layer.sources(torch.zeros(1, layer.in_channels), mapped).shape[1]
        sizes.append(stored if i or mapped else graph.features.nbytes)
    return max(sizes)


def maps_first(graph: Graph, layer: Layer, *, sparse: bool) -> bool:
    """Returns whether a layer's map comes before its aggregation if all nodes are computed."""
    return layer.maps_first(LayerShapes(graph.num_nodes, graph.num_nodes, graph.num_edges, sparse=sparse))


class ColumnInference:
    """Computes the logits of all nodes by `plan`.

    Args:
        graph: The whole graph, with features in this process.
        model: A model that is `columnwise`, on the CPU, in evaluation mode.
        plan: Of this graph and model.
        scratch: Holds layers' rows.
        on_chunk: Called before each chunk; its exceptions propagate.
        edges: Weights of edges for GCN, float32, shape (num_edges,); None for none.
        chunk_bytes: Limit of a chunk's temporaries.
    """

    def __init__(
        self,
        graph: Graph,
        model: Model,
        plan: ColumnPlan,
        *,
        scratch: Scratch,
        on_chunk: Callable[[], None] = lambda: None,
        edges: NDArray[np.float32] | None = None,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._graph, self._model, self._plan = graph, model, plan
        self._scratch, self._on_chunk, self._chunk_bytes = scratch, on_chunk, chunk_bytes
        self._edges, self._rows = edges, FeatureRows(graph.features)
        self._scale: Tensor | None = None

    @torch.inference_mode()
    def logits(self) -> Outputs:
        """Yields chunks of nodes in order: (ids, logits float32 of shape (n, num_classes)).

        Raises:
            A3GNNError: The disk is full, or the scratch folder can't be written.
        """
        if self._model.needs_degrees:
            self._scale = self._factors()
        layer = self._model.layers[0]
        outputs: Outputs = ((ids, self._rows.read(ids, _CPU)) for ids in self._chunks(_row_bytes(layer)))
        for i in range(len(self._model.layers)):
            outputs = self._layer(i, outputs)
        yield from outputs

    def _factors(self) -> Tensor:
        """Returns GCN's factor of each node, float32, shape (num_nodes,) (`LayerBlock.symmetric_weights`)."""
        options: dict[str, Any] = {"in_place": True, "on_chunk": self._on_chunk, "edges": self._edges}
        degrees = Neighborhoods(self._graph, _CPU, self._chunk_bytes, **options).degrees()
        if self._edges is None:
            return degrees.add_(1).rsqrt_()
        lonely = degrees == 0
        return degrees.rsqrt_().masked_fill_(lonely, 0.0)

    def _layer(self, i: int, before: Outputs) -> Outputs:
        """Yields layer `i`'s outputs from the previous layer's outputs, `before`."""
        layer, groups, nodes = self._model.layers[i], self._plan.layers[i], self._graph.num_nodes
        with ExitStack() as stack:
            stored, own = (
                stack.enter_context(ColumnFile(self._scratch, nodes, width, columns, self._plan.dtype))
                for width, columns in ((groups.width, groups.columns), (groups.own, groups.own))
            )
            for ids, rows in before:
                hidden = functional.relu_(self._model.normalized(i, rows)) if i else rows
                stored.append(self._scaled(ids, layer.sources(hidden, groups.mapped)))
                if groups.own:
                    own.append(self._own(i, hidden))
            self._aggregate(layer, groups, stored)
            for ids in self._chunks(_row_bytes(layer)):
                total = self._scaled(ids, stored.read(ids))
                part = total if groups.mapped else linear(total, layer.input_weights[0])
                out = layer.complete(_NO_EDGES, [part])
                if groups.own:
                    out += own.read(ids)
                elif len(layer.input_weights) > 1 or self._model.shortcut(i) is not None:
                    out += self._own(i, self._rows.read(ids, _CPU))
                yield ids, out

    def _aggregate(self, layer: Layer, groups: LayerGroups, stored: ColumnFile) -> None:
        """Overwrites the stored rows by their aggregates, group by group."""
        indptr, indices = readonly(self._graph.indptr), readonly(self._graph.indices)
        kind, none = _KINDS[str(layer.aggregator)], readonly(np.empty(0, dtype=np.float32))
        space = np.empty(self._graph.num_nodes * groups.columns * self._plan.dtype.itemsize, dtype=np.uint8)
        for group in range(groups.count):
            rows = stored.load(group, space)
            base, like, edge_bytes = rows.ctypes.data, row_like(rows), rows.strides[0]
            for ids in self._chunks(8 * rows.shape[1]):
                starts = indptr[ids[0] : ids[-1] + 2]
                edges = slice(starts[0], starts[-1])
                weights = none if self._edges is None else readonly(self._edges[edges])
                out = np.empty((len(ids), rows.shape[1]), dtype=np.float32)
                given = (base, like, int(ids[0]), (starts, indices[edges], weights), kind, out)
                moved = edge_bytes * (int(starts[-1] - starts[0]) + len(ids))
                pool.in_chunks(partial(sum_columns, *given), len(ids), pool.grain(len(ids), moved))
                stored.put(group, int(ids[0]), out)

    def _own(self, i: int, rows: Tensor) -> Tensor:
        """Returns what the nodes' own input rows add to layer `i`'s outputs: GraphSAGE's map and the residual."""
        layer = self._model.layers[i]
        weights = layer.input_weights[1:]
        own = linear(rows, weights[0]) if weights else torch.zeros(1, layer.out_channels)
        return self._model.with_shortcut(i, own, rows)

    def _scaled(self, ids: NDArray[np.int32], rows: Tensor) -> Tensor:
        """Returns the rows of `ids`, a run, times GCN's factors."""
        return rows if self._scale is None else rows * self._scale[ids[0] : ids[-1] + 1].unsqueeze(1)

    def _chunks(self, row_bytes: int) -> Iterator[NDArray[np.int32]]:
        """Yields all nodes in runs that keep to the limit of a chunk."""
        step = max(1, self._chunk_bytes // row_bytes)
        for start in range(0, self._graph.num_nodes, step):
            self._on_chunk()
            yield np.arange(start, min(start + step, self._graph.num_nodes), dtype=np.int32)


class ColumnFile:
    """A matrix in an unlinked file, stored by groups of columns; a context manager.

    The first write makes the file: then the layer before has no file but its last.

    Args:
        scratch: Where the file is.
        width: Number of columns.
        columns: Columns of a group; the last one may have fewer.
        dtype: float32 or float16.
    """

    def __init__(self, scratch: Scratch, rows: int, width: int, columns: int, dtype: np.dtype[Any]) -> None:
        self._rows, self._width, self._dtype = rows, width, dtype
        self._bounds = [*range(0, width, max(columns, 1)), width]
        self._scratch, self._stack = scratch, ExitStack()
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def _file(self) -> IO[bytes]:
        return self._stack.enter_context(self._scratch.file(self._rows * self._width * self._dtype.itemsize))

    def append(self, rows: Tensor) -> None:
        """Appends rows, float32, shape (n, width)."""
        array = rows.numpy()
        for group, (first, last) in enumerate(pairwise(self._bounds)):
            self.put(group, self._next, array[:, first:last])
        self._next += len(rows)

    def put(self, group: int, first: int, rows: NDArray[np.float32]) -> None:
        """Writes the columns of a group of the rows from `first` on."""
        self._seek(group, first)
        with np.errstate(over="ignore"):  # rows beyond float16's range become infinite, and predictions are checked
            self._file.write(np.ascontiguousarray(rows, dtype=self._dtype).data.cast("B"))

    def load(self, group: int, space: NDArray[np.uint8]) -> NDArray[Any]:
        """Returns all rows of a group, shape (rows, columns of the group), in the memory of `space`."""
        return self._read(group, 0, self._rows, space)

    def read(self, ids: NDArray[np.int32]) -> Tensor:
        """Returns the rows of `ids`, a run, float32, shape (n, width)."""
        out = np.empty((len(ids), self._width), dtype=np.float32)
        space = np.empty(out.nbytes, dtype=np.uint8)
        for group, (first, last) in enumerate(pairwise(self._bounds)):
            out[:, first:last] = self._read(group, int(ids[0]), len(ids), space)
        return torch.from_numpy(out)

    def _read(self, group: int, first: int, count: int, space: NDArray[np.uint8]) -> NDArray[Any]:
        columns = self._bounds[group + 1] - self._bounds[group]
        part = space[: count * columns * self._dtype.itemsize]
        self._seek(group, first)
        if self._file.readinto(part.data) != len(part):  # type: ignore[attr-defined]
            raise OSError("a scratch file is shorter than it was")
        return part.view(self._dtype).reshape(count, columns)

    def _seek(self, group: int, first: int) -> None:
        columns = self._bounds[group + 1] - self._bounds[group]
        self._file.seek((self._rows * self._bounds[group] + first * columns) * self._dtype.itemsize)


def _columns(width: int, most: float) -> int:
    """Returns the columns of a group, at most `most`: whole cache lines of float32, a half of one and so on, or 1."""
    if most >= width:
        return width
    return int(most) // 16 * 16 if most >= 16 else 1 << max(int(most), 1).bit_length() >> 1


def _row_bytes(layer: Layer) -> int:
    """Returns the bytes of a node in a chunk: its input, its aggregate and its output, each with temporaries."""
    return 4 * (4 * layer.in_channels + 4 * layer.out_channels)

"""`EdgeGraph`: the CSR of an edge_index by target and by source, built once per tensor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.kernels.edges import add_loops, count_ends, extent, place_edges
from a3gnn.kernels.sums import Csr, Ints
from a3gnn.models.layers.block import LayerBlock
from a3gnn.pipeline.known_edges import KnownEdges, known_edges

#: sum: weights only. mean: divided by the number of edges. symmetric: times 1 / sqrt(d_source d_target), where d is the
#: number of edges into a node (Kipf and Welling, 2017).
Scaling: TypeAlias = Literal["sum", "mean", "symmetric"]

_IDENTITY: Ints = np.empty(0, dtype=np.int32)
_MOST = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class EdgeGraph:
    """A CSR by target. A slot is a place in `indices`."""

    indptr: Ints  # start of each target's slots, int32, shape (num_dst + 1,)
    indices: Ints  # sources, int32, shape (num_edges,)
    order: Ints  # each slot's place in the edge list, int32, shape (num_edges,); empty if they are equal
    num_src: int
    whole: EdgeGraph | None = None  # the graph of which this one is the first targets, or None
    last_degrees: NDArray[np.float32] | None = None

    @property
    def num_dst(self) -> int:
        """Number of targets."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return len(self.indices)

    @property
    def csr(self) -> Csr:
        """The edges by target, with their places in the edge list."""
        return self.indptr, self.indices, self.order

    @property
    def by_source(self) -> Csr:
        """The edges by source, with their slots."""
        return self.block.by_source

    @cached_property
    def list_by_source(self) -> Csr:
        """The edges by source, with their places in the edge list."""
        starts, targets, slots = self.by_source
        return starts, targets, self.order[slots] if len(self.order) else slots

    @cached_property
    def by_slot(self) -> Tensor | None:
        """The place in the edge list of each slot, int64; None if they are equal."""
        return torch.from_numpy(self.order.astype(np.int64)) if len(self.order) else None

    def in_slots(self, values: Tensor) -> Tensor:
        """Returns `values`, rows in the order of the edge list, in the order of the slots."""
        return values[: self.num_edges] if self.by_slot is None else values.index_select(0, self.by_slot)

    @cached_property
    def looped(self) -> EdgeGraph:
        """The graph with exactly one self loop per node that is a source and a target.

        Its edge list has the others' edges in their order, and then the loops by node, as PyG's `add_self_loops` after
        `remove_self_loops`.
        """
        loops = min(self.num_src, self.num_dst)
        indptr = np.empty_like(self.indptr)
        indices, order = (np.empty(self.num_edges + loops, dtype=np.int32) for _ in range(2))
        add_loops(self.csr, loops, (indptr, indices, order))
        edges, last = int(indptr[-1]), self.last_degrees
        degrees = None if last is None else last + np.float32(1)
        return EdgeGraph(indptr, indices[:edges], order[:edges], self.num_src, last_degrees=degrees)

    @cached_property
    def block(self) -> LayerBlock:
        """The edges as a block of the built-in layers; the targets are the first sources."""
        return LayerBlock(
            torch.from_numpy(self.indptr), torch.from_numpy(self.indices), self.num_src, slice(0, self.num_dst)
        )

    @cached_property
    def _scales(self) -> dict[Any, tuple[NDArray[Any], NDArray[Any]]]:
        return {}

    def scales(self, scaling: Scaling, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns each source's and each target's factor of `scaling`, of `dtype`; empty arrays stand for ones."""
        key = scaling, dtype
        if key not in self._scales:
            self._scales[key] = self._new_scales(scaling, dtype)
        return self._scales[key]

    def _new_scales(self, scaling: Scaling, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        ones = np.empty(0, dtype=dtype)
        if scaling == "sum":
            return ones, ones
        if self.whole is not None:
            scale, own = self.whole.scales(scaling, dtype)
            return scale[: self.num_src], own[: self.num_dst]
        counts = np.diff(self.indptr).astype(dtype)
        if scaling == "mean":
            return ones, (1 / np.maximum(counts, 1)).astype(dtype)
        if self.last_degrees is not None:
            counts[len(counts) - len(self.last_degrees) :] = self.last_degrees
        with np.errstate(divide="ignore"):
            found = np.where(counts > 0, 1 / np.sqrt(counts), 0).astype(dtype)
        return found, found

    def first(self, rows: int) -> EdgeGraph:
        """Returns the graph of the first `rows` targets, with as few sources as contain its edges and targets."""
        if rows == self.num_dst:
            return self
        end = int(self.indptr[rows])
        indices = self.indices[:end]
        num_src = max(rows, int(indices.max()) + 1 if end else 0)
        whole = self if self.whole is None else self.whole
        return EdgeGraph(self.indptr[: rows + 1], indices, self.order[:end], num_src, whole)


def graph_of(edge_index: Tensor, num_src: int, num_dst: int) -> EdgeGraph | None:
    """Returns the graph of `edge_index`, (2, num_edges) on the host, or None if an end is out of range.

    It is built once for an unchanged tensor. A mini-batch of our loader brings its CSR. `size_reason` must be None.
    """
    known = known_edges(edge_index)
    key = num_src, num_dst
    if key not in known.derived:
        known.derived[key] = _built(edge_index, known, num_src, num_dst)
    found: EdgeGraph | None = known.derived[key]
    return found


def size_reason(num_edges: int, num_src: int, num_dst: int) -> str | None:
    """Returns why a graph is too large for kernels, which count edges and self loops in int32, or None."""
    loops = max(num_src, num_dst)
    if num_edges + loops <= _MOST:
        return None
    return f"edges and nodes must be {_MOST:,} or fewer together, got {num_edges:,} and {loops:,}"


def _built(edge_index: Tensor, known: KnownEdges, num_src: int, num_dst: int) -> EdgeGraph | None:
    if known.csr is not None:
        indptr, indices = known.csr
        rows = len(indptr) - 1
        if rows <= num_dst and (not len(indices) or int(indices.max()) < num_src):
            padded = np.concatenate([indptr, np.full(num_dst - rows, indptr[-1], dtype=np.int32)])
            return EdgeGraph(padded, indices, _IDENTITY, num_src, last_degrees=known.last_degrees)
    sources, targets = (edge_index[i].contiguous().numpy() for i in range(2))
    lowest, top_source, top_target, ascending = extent(sources, targets)
    if lowest < 0 or top_source >= num_src or top_target >= num_dst:
        return None
    indptr = np.empty(num_dst + 1, dtype=np.int32)
    count_ends(targets, indptr)
    if ascending:
        return EdgeGraph(indptr, sources.astype(np.int32), _IDENTITY, num_src)
    indices, order = (np.empty(len(sources), dtype=np.int32) for _ in range(2))
    place_edges(sources, targets, indptr, indices, order)
    return EdgeGraph(indptr, indices, order, num_src)

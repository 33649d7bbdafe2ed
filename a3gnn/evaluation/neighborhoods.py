"""`Neighborhoods`: full in-neighborhoods of a graph's nodes as blocks for layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.features.tensors import slice_or_ids
from a3gnn.graphs.arrays import row_slots, row_spans
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.split import mask_ids
from a3gnn.models.feature_rows import FeatureRows
from a3gnn.models.layers.block import LayerBlock
from a3gnn.storage.npy import slices

#: Peak bytes per edge of `Graph.in_edges`.
EDGE_BYTES = 32


class Places:
    """Finds the places of nodes among the rows of a matrix.

    Args:
        nodes: The node of each row, int32, ascending; None for a row per node of the graph.
        num_nodes: Nodes of the graph; the map takes 4 bytes per node.
    """

    def __init__(self, nodes: NDArray[np.int32] | None, num_nodes: int) -> None:
        self.nodes = None if nodes is None or len(nodes) == num_nodes else nodes
        self.count = num_nodes if self.nodes is None else len(self.nodes)
        self._map: NDArray[np.int32] | None = None
        if self.nodes is not None:
            self._map = np.empty(num_nodes, dtype=np.int32)
            self._map[self.nodes] = np.arange(self.count, dtype=np.int32)

    def of(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Returns the places of `ids`, which have rows."""
        return ids if self._map is None else self._map[ids]


class Neighborhoods:
    """Finds in-neighbors, degrees and blocks, chunk by chunk.

    Args:
        graph: The whole graph.
        device: The blocks' device.
        chunk_bytes: Limit of a chunk's temporaries.
        in_place: Whether blocks point into whole matrices; if not, a chunk's sources are gathered and sent.
        on_chunk: Called before each chunk; its exceptions propagate.
        edges: Values of the graph's edges that blocks contain (`LayerBlock.edges`); None for none.
    """

    def __init__(
        self,
        graph: Graph,
        device: torch.device,
        chunk_bytes: int,
        *,
        in_place: bool,
        on_chunk: Callable[[], None],
        edges: NDArray[np.float32] | None = None,
    ) -> None:
        self._graph = graph
        self._device = device
        self._chunk_bytes = chunk_bytes
        self._in_place = in_place
        self._on_chunk = on_chunk
        self._edges = edges
        self._degrees: Tensor | None = None
        self._some_degrees: dict[int, Tensor] = {}

    def chunks(
        self, ids: NDArray[np.int32], row_bytes: int, edge_bytes: int, indptr: NDArray[np.int64] | None = None
    ) -> Iterator[NDArray[np.int32]]:
        """Yields `ids` in order, in pieces that keep to `chunk_bytes`, or hold a single node.

        Args:
            ids: Nodes.
            row_bytes: Bytes per node.
            edge_bytes: Bytes per in-edge of a node.
            indptr: Another indptr, int64, shape (num_nodes + 1,), whose items count instead of the in-edges.
        """
        counted = self._graph.indptr if indptr is None else indptr
        for some in chunks(ids, counted, row_bytes, edge_bytes, self._chunk_bytes):
            self._on_chunk()
            yield some

    def count(self, ids: NDArray[np.int32]) -> int:
        """Returns the number of in-edges of `ids`."""
        indptr = self._graph.indptr
        if len(ids) and ids[-1] - ids[0] + 1 == len(ids):
            return int(indptr[int(ids[-1]) + 1] - indptr[ids[0]])
        return int((indptr[ids.astype(np.int64) + 1] - indptr[ids]).sum())

    def closed(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Returns `ids` and their in-neighbors, int32, ascending."""
        if len(ids) == self._graph.num_nodes:
            return ids
        reached = np.zeros(self._graph.num_nodes, dtype=bool)
        reached[ids] = True
        for some in self.chunks(ids, 16, EDGE_BYTES):
            reached[self._graph.in_edges(some)[1]] = True
        return mask_ids(reached)

    def degrees(self) -> Tensor:
        """Returns each node's number of in-neighbors other than itself, float32, shape (num_nodes,).

        With weights of edges, it returns `LayerBlock.weighted_degrees`.
        """
        if self._degrees is None:
            self._degrees = self._degrees_of(np.arange(self._graph.num_nodes, dtype=np.int32))
        return self._degrees

    def _degrees_of(self, nodes: NDArray[np.int32]) -> Tensor:
        """Returns the `degrees` of `nodes`, which ascend."""
        degrees, done = torch.empty(len(nodes)), 0
        for ids in self.chunks(nodes, 32, EDGE_BYTES):
            if self._edges is None:
                others = torch.from_numpy(self._graph.other_degrees(ids).astype(np.float32))
            else:
                indptr, indices = (torch.from_numpy(part) for part in self._graph.in_edges(ids))
                num_nodes = self._graph.num_nodes
                block = LayerBlock(indptr, indices, num_nodes, slice_or_ids(ids), edges=self._values(ids))
                others = block.weighted_degrees
            degrees[done : done + len(ids)] = others
            done += len(ids)
        return degrees

    def block(
        self, sources: FeatureRows, ids: NDArray[np.int32], places: Places, *, with_degrees: bool
    ) -> tuple[LayerBlock, Tensor]:
        """Returns the block of the full in-neighborhood of `ids`, and the matrix of the source rows in it.

        Args:
            sources: A row of each source, by `places`.
            ids: Destinations, ascending.
            places: Of the sources.
            with_degrees: Whether the block has `in_degrees`.
        """
        indptr, indices = self._graph.in_edges(ids)
        own: NDArray[np.integer]
        matrix = sources.whole
        if self._in_place and matrix is not None:
            own, indices, count = places.of(ids), places.of(indices), places.count
            degrees = self._degrees_at(places) if with_degrees else None
        else:
            nodes, both = np.unique(np.concatenate([ids, indices]), return_inverse=True)
            own, indices = both[: len(ids)], both[len(ids) :].astype(np.int32)
            matrix, count = sources.read(places.of(nodes), self._device), len(nodes)
            degrees = self._degrees_at(places)[torch.from_numpy(places.of(nodes))] if with_degrees else None
        dst = slice_or_ids(own, self._device)
        edges = None if self._edges is None else self._values(ids).to(self._device)
        degrees = None if degrees is None else degrees.to(self._device)
        return LayerBlock(self._moved(indptr), self._moved(indices), count, dst, degrees, edges=edges), matrix

    def _degrees_at(self, places: Places) -> Tensor:
        """Returns the `degrees` of the nodes with `places`; the layers' nodes are nested, so a count names them."""
        if places.nodes is None:
            return self.degrees()
        if places.count not in self._some_degrees:
            self._some_degrees[places.count] = self._degrees_of(places.nodes)
        return self._some_degrees[places.count]

    def _values(self, ids: NDArray[np.int32]) -> Tensor:
        """Returns the values of the edges of `in_edges(ids)`, float32."""
        assert self._edges is not None
        indptr, (first, last) = self._graph.indptr, (int(ids[0]), int(ids[-1]) + 1)
        run = last - first == len(ids)
        slots = slice(indptr[first], indptr[last]) if run else row_slots(indptr, ids)[1]
        return torch.from_numpy(np.array(self._edges[slots]))

    def _moved(self, array: NDArray[np.int32]) -> Tensor:
        return torch.from_numpy(array).to(self._device)


def chunks(
    ids: NDArray[np.int32], indptr: NDArray[np.int64], row_bytes: int, edge_bytes: int, budget: int
) -> Iterator[NDArray[np.int32]]:
    """Yields `ids` in order, in pieces of at most `budget` bytes, or of a single node.

    Args:
        ids: Nodes.
        indptr: The graph's indptr, int64, shape (num_nodes + 1,).
        row_bytes: Bytes per node.
        edge_bytes: Bytes per in-edge of a node.
        budget: Bytes per piece.
    """
    for slab in (ids[some] for some in slices(len(ids), 8)):  # 2**17 nodes decide where pieces end, and so last bits
        taken = np.cumsum(row_bytes + edge_bytes * (indptr[slab + 1] - indptr[slab]))
        for first, end in row_spans(np.concatenate(([0], taken)), budget):
            yield slab[first:end]

"""`Edges`: the edges of a graph as CSR by target, which samplers take."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.graphs.edge_list_kernels import cached_first, is_by_target, places_by_target
from a3gnn.storage.compiled import readonly


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Edges as CSR by target, in read-only views, memory maps included; an edge may occur more than once.

    Attributes:
        indptr: int64, shape (num_nodes + 1,).
        indices: Sources, int32, shape (num_edges,), ascending in each row; with `num_cached`, the cached ones first.
        ids: Each edge's place in a list of edges, int32 or int64, shape (num_edges,); empty if the order is the same.
            None if mini-batches don't need ids.
        weights: float64, shape (num_edges,), finite and >= 0; empty if all weigh the same.
        num_cached: Cached in-neighbors per row, int32, shape (num_nodes,); empty if nothing is cached.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    ids: NDArray[Any] | None = None
    weights: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    num_cached: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def __post_init__(self) -> None:
        for name in (one.name for one in fields(self)):
            array = getattr(self, name)
            object.__setattr__(self, name, None if array is None else readonly(array))

    @classmethod
    def of(
        cls, sources: NDArray[Any], targets: NDArray[Any], num_nodes: int, weights: NDArray[Any] | None = None
    ) -> Self:
        """Returns the edges from `sources` to `targets`, integers in [0, num_nodes), in time linear in their number.

        Raises:
            UsageError: `weights` are not one finite number >= 0 for each edge.
        """
        sources, targets = readonly(sources), readonly(targets)
        checked = np.empty(0) if weights is None else _checked(weights, len(sources))
        indptr = _indptr(targets, num_nodes)
        ids = np.empty(0, dtype=np.int32)
        if not is_by_target(sources, targets):
            ids = places_by_target(sources, targets, num_nodes)
            # Half the memory is half the cache misses in look-ups of a mini-batch's ids.
            ids = ids.astype(np.int32) if len(ids) < 2**31 else ids
            sources, checked = sources[ids], checked[ids] if len(checked) else checked
        return cls(indptr, sources.astype(np.int32), ids, checked)

    @property
    def num_nodes(self) -> int:
        """Nodes of the graph."""
        return len(self.indptr) - 1

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns indptr and indices with each edge once; the arrays themselves if no edge is repeated."""
        targets = self._targets
        kept = np.ones(len(self.indices), dtype=np.bool_)
        kept[1:] = (self.indices[1:] != self.indices[:-1]) | (targets[1:] != targets[:-1])
        if kept.all():
            return self.indptr, self.indices
        return _indptr(targets[kept], self.num_nodes), self.indices[kept]

    def within(self, parts: NDArray[np.int32]) -> Self:
        """Returns the edges between nodes of one part; `parts` int32, shape (num_nodes,)."""
        targets = self._targets
        places = np.flatnonzero(parts[targets] == parts[self.indices])
        ids = self.ids if self.ids is None else self.ids[places] if len(self.ids) else places
        weights = self.weights[places] if len(self.weights) else self.weights
        return type(self)(_indptr(targets[places], self.num_nodes), self.indices[places], ids, weights)

    def by_cache(self, cached: NDArray[np.bool_]) -> Self:
        """Returns a private copy without weights, every row's `cached` (shape (num_nodes,)) in-neighbors first.

        It takes `num_edges + num_nodes` int32 of memory, as much again for ids, and a pass over the edges for each.
        """
        ids, indices = self.ids, np.empty_like(self.indices)
        counts = cached_first(self.indptr, self.indices, cached, self.indices, indices)
        if ids is not None:
            places = ids if len(ids) else readonly(np.arange(len(indices)))
            ids = np.empty_like(places)
            cached_first(self.indptr, self.indices, cached, places, ids)
        return type(self)(self.indptr, indices, ids, num_cached=counts)

    @property
    def _targets(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))


def _indptr(targets: NDArray[Any], num_nodes: int) -> NDArray[np.int64]:
    indptr = np.zeros(num_nodes + 1, dtype=np.int64)
    indptr[1:] = np.bincount(targets, minlength=num_nodes).cumsum()
    return indptr


def _checked(weights: NDArray[Any], num_edges: int) -> NDArray[np.float64]:
    if weights.shape != (num_edges,) or weights.dtype.kind not in "fiub":
        raise UsageError(f"weights must be {num_edges} numbers, one per edge, got {weights.dtype} of {weights.shape}")
    checked = weights.astype(np.float64)
    bad = int(np.count_nonzero(~(np.isfinite(checked) & (checked >= 0))))
    if bad:
        raise UsageError(f"weights must be finite and >= 0, {bad} of {num_edges} are not; 0 leaves an edge out")
    return checked

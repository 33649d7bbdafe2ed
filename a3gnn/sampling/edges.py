"""`Edges`: a graph's edges by their targets, each known by its place in the list that it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.sampling.edge_order import is_by_target, places_by_target
from a3gnn.sampling.views import readonly


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Edges as CSR by target. One that occurs more than once is there as often.

    Attributes:
        indptr: int64, shape (num_nodes + 1,).
        indices: Sources, int32, shape (num_edges,), ascending in each row.
        ids: Each edge's place in the list that they came from, int32 or int64, shape (num_edges,); empty where that is
            its place here.
        weights: float64, shape (num_edges,), finite and >= 0; empty where all weigh the same.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    ids: NDArray[Any]
    weights: NDArray[np.float64]

    @classmethod
    def plain(cls, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> Self:
        """Returns the edges of a CSR as they are, memory maps included: not copied, without ids and weights."""
        return cls(readonly(indptr), readonly(indices), readonly(np.empty(0, dtype=np.int32)), readonly(np.empty(0)))

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
            # Half the memory is half the cache misses where a mini-batch's ids are looked up.
            ids = ids.astype(np.int32) if len(ids) < 2**31 else ids
            sources, checked = sources[ids], checked[ids] if len(checked) else checked
        return cls(readonly(indptr), readonly(sources.astype(np.int32)), readonly(ids), readonly(checked))

    @property
    def num_nodes(self) -> int:
        """Nodes of the graph."""
        return len(self.indptr) - 1

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns indptr and indices with each edge once; the arrays themselves where it is."""
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
        indptr = _indptr(targets[places], self.num_nodes)
        ids = self.ids[places] if len(self.ids) else places
        weights = self.weights[places] if len(self.weights) else self.weights
        return type(self)(readonly(indptr), readonly(self.indices[places]), readonly(ids), readonly(weights))

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

"""`Edges`: the edges of a graph as CSR by target and relation, which samplers take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import A3GNNError, UsageError
from a3gnn.graphs.edge_list_kernels import cached_first, is_by_target, places_by_target
from a3gnn.graphs.schema import Schema
from a3gnn.storage.compiled import readonly


class EdgeList(NamedTuple):
    """The edges of one relation as a list.

    Attributes:
        sources: Integers within the source type, shape (num_edges,).
        targets: Integers within the target type, shape (num_edges,).
        weights: Sampling weights, numbers, shape (num_edges,); None if all weigh the same.
        times: When each edge can be seen, integers or floats, shape (num_edges,); None if it always can.
    """

    sources: NDArray[Any]
    targets: NDArray[Any]
    weights: NDArray[Any] | None = None
    times: NDArray[Any] | None = None


class EdgeTimes(NamedTuple):
    """When edges can be seen, as ranks among all distinct times, which take half the memory and compare faster."""

    ranks: NDArray[np.int32]  # int32, shape (num_edges,), ascending in each row; 0 in relations without times
    distinct: NDArray[Any]  # the distinct times, ascending
    timed: NDArray[np.bool_]  # which relations have times, bool, shape (num_relations,)

    def rank_at(self, times: NDArray[Any]) -> NDArray[np.int32]:
        """Returns the rank of the last distinct time that is at most each of `times`, -1 if there is none."""
        return (np.searchsorted(self.distinct, times, side="right") - 1).astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Edges as CSR by target and relation, in read-only views, memory maps included; an edge may occur more than once.

    Attributes:
        indptr: int64, shape (num_rows + 1,); rows as in `Schema`, which are the nodes of a graph without types.
        indices: Sources, int32, shape (num_edges,). Those of a row ascend; with `num_cached` the cached ones come
            first, and with `times` they are in the order of time instead.
        ids: Each edge's place in the list of its relation, int32 or int64, shape (num_edges,); empty if the order is
            the same. None if mini-batches don't need ids.
        weights: float64, shape (num_edges,), finite and >= 0; empty if all weigh the same.
        num_cached: Cached in-neighbors per row, int32, shape (num_rows,); empty if nothing is cached.
        schema: Types and relations.
        times: When the edges can be seen; None if they always can.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    ids: NDArray[Any] | None = None
    weights: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    num_cached: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    schema: Schema = field(default_factory=lambda: Schema.untyped(0))  # without one, that of the rows
    times: EdgeTimes | None = None

    def __post_init__(self) -> None:
        for name in ("indptr", "indices", "ids", "weights", "num_cached"):
            array = getattr(self, name)
            object.__setattr__(self, name, None if array is None else readonly(array))
        if self.schema.num_rows != len(self.indptr) - 1:
            object.__setattr__(self, "schema", Schema.untyped(len(self.indptr) - 1))

    @classmethod
    def of(
        cls, sources: NDArray[Any], targets: NDArray[Any], num_nodes: int, weights: NDArray[Any] | None = None
    ) -> Self:
        """Returns the edges from `sources` to `targets`, integers in [0, num_nodes); see `of_relations`."""
        return cls.of_relations(Schema.untyped(num_nodes), [EdgeList(sources, targets, weights)])

    @classmethod
    def of_relations(cls, schema: Schema, lists: Sequence[EdgeList]) -> Self:
        """Returns the edges in `lists`, one for each of the schema's relations, in time linear in their number.

        Raises:
            UsageError: Weights are not one finite number >= 0 for each edge, a time is missing, or edges have both.
        """
        weights, times = _weights_of(lists), _times_of(lists)
        if len(weights) and times is not None:
            raise UsageError("weights must be left out where edges have times, as in PyG; draw by one of them")
        sources, rows = _joined(schema, lists)
        keys = sources if times is None else times.ranks
        indptr = _indptr(rows, schema.num_rows)
        ids = np.empty(0, dtype=np.int32)
        if not is_by_target(keys, rows):
            ids = places_by_target(keys, rows, max(schema.num_rows, int(keys.max()) + 1))
            sources, weights = sources[ids], weights[ids] if len(weights) else weights
            times = None if times is None else times._replace(ranks=times.ranks[ids])
        ids = _within_lists(ids, [len(one.sources) for one in lists])
        if times is not None:
            times = times._replace(ranks=readonly(times.ranks))
        return cls(indptr, sources.astype(np.int32), ids, weights, schema=schema, times=times)

    @property
    def num_nodes(self) -> int:
        """Nodes of the graph."""
        return int(self.schema.layout[0, -1])

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns indptr and indices with each edge of a relation once; the arrays themselves if none is repeated."""
        rows = self._rows
        kept = np.ones(len(self.indices), dtype=np.bool_)
        kept[1:] = (self.indices[1:] != self.indices[:-1]) | (rows[1:] != rows[:-1])
        if kept.all():
            return self.indptr, self.indices
        return _indptr(rows[kept], self.schema.num_rows), self.indices[kept]

    def within(self, parts: NDArray[np.int32]) -> Self:
        """Returns the edges between nodes of one part; `parts` int32, shape (num_nodes,)."""
        assert self.num_nodes == self.schema.num_rows, "a row is a node only where there are no types"
        targets = self._rows
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
        return type(self)(self.indptr, indices, ids, num_cached=counts, schema=self.schema)

    @property
    def _rows(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


def _joined(schema: Schema, lists: Sequence[EdgeList]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the sources of all `lists` as ids through all types, and the rows of their targets."""
    sources, rows = [], []
    for number, (relation, edges) in enumerate(zip(schema.relations, lists, strict=True)):
        first = schema.first_node(relation.source)
        sources.append(edges.sources if first == 0 else edges.sources.astype(np.int64) + first)
        rows.append(schema.rows(number, edges.targets))
    if len(lists) == 1:  # no copy
        return readonly(sources[0]), readonly(rows[0])
    none = [np.empty(0, dtype=np.int32)]  # no relations
    return np.concatenate([*none, *sources]).astype(np.int32), np.concatenate([*none, *rows]).astype(np.int32)


def _within_lists(places: NDArray[Any], sizes: Sequence[int]) -> NDArray[Any]:
    """Returns each edge's place in the list of its relation, from its `places` in all lists of `sizes` one by one."""
    if len(sizes) > 1:
        places = places if len(places) else np.arange(sum(sizes))
        firsts = np.cumsum([0, *sizes[:-1]])
        places = places - firsts[np.searchsorted(firsts, places, side="right") - 1]
    # Half the memory is half the cache misses in look-ups of a mini-batch's ids.
    return places.astype(np.int32) if len(places) < 2**31 else places


def _weights_of(lists: Sequence[EdgeList]) -> NDArray[np.float64]:
    """Returns the weights of all `lists`; empty if no list has any. Edges of a list without weights weigh 1."""
    if all(one.weights is None for one in lists):
        return np.empty(0)
    given = [np.ones(len(one.sources)) if one.weights is None else one.weights for one in lists]
    return np.concatenate([_checked(one, len(edges.sources)) for one, edges in zip(given, lists, strict=True)])


def _times_of(lists: Sequence[EdgeList]) -> EdgeTimes | None:
    """Returns the times of all `lists` in their order, or None if no list has any."""
    timed = np.array([one.times is not None for one in lists], dtype=np.bool_)
    if not timed.any():
        return None
    times = [known_times("times", one.times, len(one.sources), "edge") for one in lists if one.times is not None]
    distinct, places = np.unique(np.concatenate(times), return_inverse=True)
    ranks = np.zeros(sum(len(one.sources) for one in lists), dtype=np.int32)
    ranks[np.repeat(timed, [len(one.sources) for one in lists])] = places
    return EdgeTimes(ranks, distinct, readonly(timed))


def known_times(
    name: str, times: NDArray[Any], count: int, owner: str, error: type[A3GNNError] = UsageError
) -> NDArray[Any]:
    """Returns the `times` called `name`, of `count` nodes, edges, seeds or pairs, which `owner` says.

    Raises:
        A3GNNError: An `error`: they are not one number each, or one is missing: NaN, or the least integer, which stands
            for NaT.
    """
    if times.shape != (count,) or times.dtype.kind not in "fiu":
        raise error(f"{name} must be {count} numbers, one per {owner}, got {times.dtype} of shape {times.shape}")
    missing = np.isnan(times) if times.dtype.kind == "f" else times == np.iinfo(times.dtype).min
    if times.dtype.kind != "u" and missing.any():
        raise error(
            f"{name} must be known, {int(missing.sum())} of {count} are missing (NaN or the least integer); without a "
            f"time the future might show, so leave such {owner}s out"
        )
    return times


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

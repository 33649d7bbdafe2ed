"""`Sampler`: multi-hop neighbor sampling on the CPU, biased towards cached nodes (A3GNN, section III-A)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.graphs.edge_list_kernels import take_ids
from a3gnn.graphs.edges import Edges
from a3gnn.sampling.sample_kernels import MAX_EDGES, induced_edges, sample
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.storage.compiled import readonly

#: In-neighbors of a hop: for every relation, or a number for each of the schema's relations; -1 takes all.
Fanout: TypeAlias = int | tuple[int, ...]


class PositionMaps:
    """A pool of relabeling maps (`a3gnn.sampling.relabeling`), one per concurrent call, all zero. Thread-safe.

    A call that fails midway returns no map, so all maps in the pool are zero.

    Args:
        num_nodes: Nodes of the graph.
    """

    def __init__(self, num_nodes: int) -> None:
        self._num_nodes = num_nodes
        self._free: list[NDArray[np.int32]] = []

    def take(self) -> NDArray[np.int32]:
        """Returns a map, zeros, int32, shape (num_nodes,)."""
        try:
            return self._free.pop()
        except IndexError:
            return np.zeros(self._num_nodes, dtype=np.int32)

    def give_back(self, position: NDArray[np.int32]) -> None:
        """Stores `position`, which is zero again, for a later call."""
        self._free.append(position)


class Sampler:
    """Samples in-neighbors; a cached one has `bias_rate` times the weight of an uncached one.

    A row with at most `fanout` in-neighbors gives all of them. Random numbers are keyed by seed, epoch, batch, hop and
    node, and with `disjoint` by the tree. So a mini-batch is the same from any thread, in any order, on any machine.
    Thread-safe; each concurrent call takes an int32 of scratch memory per node, which is reused by later calls.

    Args:
        edges: The edges to sample. If they have ids, mini-batches report them, and seeds may be repeated: each has a
            row. Weighted sampling without replacement follows A-Res (Efraimidis and Spirakis, 2006); a row gives fewer
            than `fanout` edges if fewer of its weights are above 0.
        fanouts: In-neighbors sampled per node, the seeds' hop first; -1 takes all. Each is a number for every relation,
            or a sequence with a number >= -1 for each of the schema's relations. Without fanouts, only the seeds are
            returned.
        seed: Any non-negative integer below 2**64.
        bias_rate: Weight of a cached in-neighbor, >= 1; 1 samples uniformly. Above 1 it needs edges without weights and
            no replacement.
        cached: Which nodes are cached, bool, shape (num_nodes,); None caches nothing. It is read once, and the edges
            are copied in its order.
        replace: Whether an in-neighbor may be drawn more than once; a row then gives `fanout` edges, or none.
        disjoint: Whether each seed has its own tree, which shares no node with other trees. Edges with times need it.
        last: Whether to draw among the latest `fanout` in-neighbors that a seed may see, in place of all of them. Equal
            times rank by place in the list of edges.

    Raises:
        UsageError: An argument is out of range.
    """

    def __init__(
        self,
        edges: Edges,
        fanouts: Sequence[Fanout],
        *,
        seed: int,
        bias_rate: float = 1.0,
        cached: NDArray[np.bool_] | None = None,
        replace: bool = False,
        disjoint: bool = False,
        last: bool = False,
    ) -> None:
        check_arguments([one for one in fanouts if not isinstance(one, tuple)], bias_rate, seed)
        if bias_rate > 1 and (replace or len(edges.weights) or edges.times is not None):
            others = "weights or replacement" if edges.times is None else "times"
            raise UsageError(f"bias_rate must be 1 with {others}, got {bias_rate}; 1 leaves caches alone")
        if edges.times is not None and not disjoint:
            raise UsageError("edges with times need disjoint=True, because each seed sees them up to its own time")
        self.fanouts = tuple(fanouts)
        self.bias_rate = float(bias_rate)
        self._fanouts = _by_relation(fanouts, len(edges.schema.relations))
        self._seed = np.uint64(seed)
        self._edges, self._by_cache = edges, by_cache(edges, bias_rate, cached)
        self._replace, self._disjoint, self._last = replace, disjoint, last
        self._positions = PositionMaps(edges.num_nodes)

    def sample(
        self, seeds: NDArray[np.int32], epoch: int, batch: int, until: NDArray[np.int32] | None = None
    ) -> Subgraph:
        """Returns the neighborhood of `seeds` (int32) for mini-batch `batch` of `epoch`.

        Args:
            seeds: Node ids, through all types.
            epoch: From 0.
            batch: From 0.
            until: The rank (`EdgeTimes.rank_at`) of the last time that each seed sees, int32; needed where edges have
                times.

        Raises:
            UsageError: There are no seeds, one is out of range or must not be repeated, or there are more than 2**31 -
                1 edges.
        """
        edges, none = self._by_cache, np.empty(0, dtype=np.int32)
        assert (edges.times is None) == (until is None), "seeds see edges with times up to their own"
        seeds, position = checked_seeds(seeds, edges.num_nodes), self._positions.take()
        n_id, indptr, indices, places, starts, rows = sample(
            edges.indptr,
            edges.indices,
            edges.num_cached,
            edges.weights,
            _NO_TIMES if edges.times is None else edges.times.ranks,
            edges.schema.layout,
            edges.schema.words,
            _UNTIMED if edges.times is None else edges.times.timed,
            self._fanouts,
            self.bias_rate,
            self._replace,
            self._last,
            self._disjoint,
            edges.ids is not None,
            self._seed,
            np.uint64(epoch),
            np.uint64(batch),
            seeds,
            none if until is None else until,
            position,
        )
        sizes = starts[:, -1].tolist()
        if sizes[0] == 0:
            raise too_many_edges()
        if sizes[0] < len(seeds):
            raise repeated_seeds(len(seeds), sizes[0])
        self._positions.give_back(position)
        tree = None
        if self._disjoint:
            tree = np.concatenate([np.repeat(np.arange(len(seeds)), np.diff(hop)) for hop in starts])
        typed = None if edges.schema.is_untyped else rows
        return Subgraph(n_id, indptr, indices, tuple(sizes), _ids(edges, places), tree, rows=typed)

    def induced(self, n_id: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64] | None]:
        """Returns all edges between the nodes `n_id`: indptr of their rows, sources as positions in `n_id`, and ids."""
        position, edges = self._positions.take(), self._edges
        rows = edges.schema.rows_of(n_id)
        indptr, sources, places = induced_edges(edges.indptr, edges.indices, n_id, rows, position)
        self._positions.give_back(position)
        return indptr, sources, _ids(edges, places)


# Relations and edges without times, which kernels don't look up. Read-only, as those with times: kernels compile once.
_UNTIMED, _NO_TIMES = readonly(np.zeros(1, dtype=np.bool_)), readonly(np.empty(0, dtype=np.int32))


def _by_relation(fanouts: Sequence[Fanout], relations: int) -> NDArray[np.int64]:
    """Returns the fanouts of each hop and relation, int64, shape (hops, relations)."""
    table = np.empty((len(fanouts), relations), dtype=np.int64)
    for hop, fanout in enumerate(fanouts):
        table[hop] = fanout
    return readonly(table)


def _ids(edges: Edges, places: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Returns the ids of the edges at `places`, in the memory of `places`; None if `edges` have none."""
    if edges.ids is not None and len(edges.ids):
        take_ids(edges.ids, places)
    return None if edges.ids is None else places


def warm_up() -> None:
    """Compiles every kernel of the sampler, or loads it from numba's cache, before any timing."""
    edges = Edges(np.array([0, 3, 3, 3, 3], dtype=np.int64), np.array([1, 2, 3], dtype=np.int32))
    sampler = Sampler(edges, (2,), seed=0, bias_rate=2.0, cached=np.array([False, True, False, False]))
    sampler.sample(np.zeros(1, dtype=np.int32), epoch=0, batch=0)


def by_cache(edges: Edges, bias_rate: float, cached: NDArray[np.bool_] | None) -> Edges:
    """Returns `edges`, or a copy with each row's `cached` in-neighbors first if some of them weigh more than others.

    Raises:
        UsageError: `cached` is not bool of shape (num_nodes,).
    """
    mask = None if cached is None else cached_mask(cached, edges.num_nodes)
    return edges if mask is None or bias_rate <= 1 or not mask.any() else edges.by_cache(mask)


def check_arguments(fanouts: Sequence[Fanout], bias_rate: float, seed: int) -> None:
    """Checks the arguments of samplers on every device.

    Raises:
        UsageError: An argument is out of range.
    """
    numbers = [one for one in fanouts if isinstance(one, int | np.integer) and not isinstance(one, bool)]
    if len(numbers) < len(fanouts) or any(fanout < 1 and fanout != -1 for fanout in numbers):
        raise UsageError(f"fanouts must be positive integers (or -1 for all), one per hop, got {tuple(fanouts)}")
    if not (math.isfinite(bias_rate) and bias_rate >= 1):
        raise UsageError(f"bias_rate must be finite and >= 1, got {bias_rate}; 1 samples uniformly")
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise UsageError(f"seed must be an integer in [0, 2**64), got {seed!r}")


def cached_mask(cached: NDArray[np.bool_], num_nodes: int) -> NDArray[np.bool_]:
    """Returns a read-only view of `cached`, which shows later changes to it.

    Raises:
        UsageError: `cached` is not bool of shape (num_nodes,).
    """
    array: object = cached
    if not isinstance(array, np.ndarray) or array.dtype != np.bool_ or array.shape != (num_nodes,):
        got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise UsageError(f"cached must hold one bool per node, shape ({num_nodes},), got {got}")
    return readonly(array)


def checked_seeds(seeds: NDArray[np.int32], num_nodes: int) -> NDArray[np.int32]:
    """Returns `seeds` as contiguous int32 for kernels.

    Raises:
        UsageError: There are no seeds, or one is out of range.
    """
    if seeds.ndim != 1 or not len(seeds):
        raise UsageError(f"seeds must be a vector of at least one node, got shape {seeds.shape}")
    low, high = int(seeds.min()), int(seeds.max())
    if low < 0 or high >= num_nodes:
        raise UsageError(f"seeds must be in [0, {num_nodes}), got ids from {low} to {high}")
    return np.ascontiguousarray(seeds, dtype=np.int32)


def repeated_seeds(seeds: int, distinct: int) -> UsageError:
    """Returns the error for `seeds` seeds of which only `distinct` are distinct."""
    return UsageError(f"seeds must be distinct, got {seeds} seeds and {distinct} distinct ones")


def too_many_edges() -> UsageError:
    """Returns the error for a mini-batch with more than `MAX_EDGES` edges."""
    return UsageError(
        f"a mini-batch must have at most {MAX_EDGES} edges, got more; lower the batch size or the fanouts"
    )

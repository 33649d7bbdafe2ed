"""Multi-hop neighbor sampling on the CPU, biased towards cached nodes (A3GNN, section III-A)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.sampling.sample_kernels import MAX_EDGES, cached_first, sample_hops
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.storage.compiled import readonly


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


@dataclass(frozen=True, slots=True, eq=False)
class Adjacency:
    """In-neighbors as CSR.

    Attributes:
        indptr: int64, shape (num_nodes + 1,).
        indices: int32, shape (num_edges,); each row's cached in-neighbors come first.
        num_cached: Cached in-neighbors per row, int32, shape (num_nodes,); empty if nothing is cached.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    num_cached: NDArray[np.int32]

    @classmethod
    def plain(cls, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> Self:
        """Returns the adjacency, memory maps included: not copied, nothing cached."""
        return cls(readonly(indptr), readonly(indices), readonly(np.empty(0, dtype=np.int32)))

    @classmethod
    def by_cache(cls, indptr: NDArray[np.int64], indices: NDArray[np.int32], cached: NDArray[np.bool_]) -> Self:
        """Returns a private copy with every row's `cached` (bool, shape (num_nodes,)) in-neighbors first.

        It takes `num_edges + num_nodes` int32 of memory and one pass over the edges.

        Raises:
            UsageError: `cached` has another type or length.
        """
        mask, ordered = cached_mask(cached, len(indptr) - 1), np.empty(len(indices), dtype=np.int32)
        counts = cached_first(readonly(indptr), readonly(indices), mask, readonly(indices), ordered)
        return cls(readonly(indptr), readonly(ordered), readonly(counts))

    @property
    def num_nodes(self) -> int:
        """Nodes of the graph."""
        return len(self.indptr) - 1


class NeighborSampler:
    """Samples in-neighbors without replacement; a cached one has `bias_rate` times the weight of an uncached one.

    A row with at most `fanout` in-neighbors gives all of them. Random numbers are keyed by seed, epoch, batch, hop and
    node, so a mini-batch is the same from any thread, in any order, on any machine. Thread-safe; each concurrent call
    takes an int32 of scratch memory per node, which is reused by later calls.

    Args:
        indptr: In-neighbors as CSR, int64, shape (num_nodes + 1,).
        indices: int32, shape (num_edges,).
        fanouts: In-neighbors sampled per node, the seeds' hop first; -1 takes all. Without fanouts, only the seeds are
            returned.
        seed: Any non-negative integer below 2**64.
        bias_rate: Weight of a cached in-neighbor, >= 1; 1 samples uniformly.
        cached: Which nodes are cached, bool, shape (num_nodes,); None caches nothing. It is read once, and `indices` is
            copied in its order.

    Raises:
        UsageError: An argument is out of range.
    """

    def __init__(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        fanouts: Sequence[int],
        *,
        seed: int,
        bias_rate: float = 1.0,
        cached: NDArray[np.bool_] | None = None,
    ) -> None:
        check_arguments(fanouts, bias_rate, seed)
        mask = None if cached is None else cached_mask(cached, len(indptr) - 1)
        self.fanouts = tuple(fanouts)
        self.bias_rate = float(bias_rate)
        self._fanouts = readonly(np.array(self.fanouts, dtype=np.int64))
        self._seed = np.uint64(seed)
        if bias_rate > 1 and mask is not None and mask.any():
            self._adjacency = Adjacency.by_cache(indptr, indices, mask)
        else:
            self._adjacency = Adjacency.plain(indptr, indices)
        self._positions = PositionMaps(self._adjacency.num_nodes)

    def sample(self, seeds: NDArray[np.int32], epoch: int, batch: int) -> Subgraph:
        """Returns the neighborhood of `seeds` (int32, distinct) for mini-batch `batch` of `epoch`.

        Raises:
            UsageError: There are no seeds, one is out of range or repeated, or there are more than 2**31 - 1 edges.
        """
        seeds = checked_seeds(seeds, self._adjacency.num_nodes)
        position = self._positions.take()
        adjacency = self._adjacency
        n_id, indptr, indices, sizes = sample_hops(
            adjacency.indptr,
            adjacency.indices,
            adjacency.num_cached,
            self._fanouts,
            self.bias_rate,
            self._seed,
            np.uint64(epoch),
            np.uint64(batch),
            seeds,
            position,
        )
        if sizes[0] < len(seeds):
            raise repeated_seeds(len(seeds), sizes[0])
        if sizes[-1] == 0:
            raise too_many_edges()
        self._positions.give_back(position)
        return Subgraph(n_id, indptr, indices, tuple(sizes.tolist()))


def warm_up() -> None:
    """Compiles every kernel of the sampler, or loads it from numba's cache, before any timing."""
    indptr, indices = np.array([0, 3, 3, 3, 3], dtype=np.int64), np.array([1, 2, 3], dtype=np.int32)
    cached = np.array([False, True, False, False])
    sampler = NeighborSampler(indptr, indices, (2,), seed=0, bias_rate=2.0, cached=cached)
    sampler.sample(np.zeros(1, dtype=np.int32), epoch=0, batch=0)


def check_arguments(fanouts: Sequence[int], bias_rate: float, seed: int) -> None:
    """Checks the arguments of samplers on every device.

    Raises:
        UsageError: An argument is out of range.
    """
    whole = all(isinstance(fanout, int | np.integer) and not isinstance(fanout, bool) for fanout in fanouts)
    if not whole or any(fanout < 1 and fanout != -1 for fanout in fanouts):
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

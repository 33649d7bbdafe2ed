"""Which rows a static cache holds, and the tiers that hold rows in faster memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.errors import UsageError, unknown_name
from a3gnn.features.kernels import log_unseen, split
from a3gnn.features.rows import DenseRows, FeatureRows, rows_of
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.hotness import hottest_first
from a3gnn.sampling.views import readonly

Policy = Literal["degree", "access"]
POLICIES: tuple[Policy, ...] = ("degree", "access")


def cached_nodes(
    graph: Graph,
    cache_bytes: int,
    policy: Policy = "degree",
    *,
    fanouts: Sequence[int] = (25, 10),
    batch_size: int = 1024,
) -> NDArray[np.int32]:
    """Returns the hottest nodes whose rows fit in `cache_bytes`, int32, sorted.

    The map from node to cached row, an int32 a node, is counted: a cache that can't hold it holds nothing.

    Args:
        graph: The graph.
        cache_bytes: What the cache may take altogether.
        policy: degree (how often a node is an in-neighbour; PaGraph) or access (the expected number of mini-batches
            that need it, by `expected_access`).
        fanouts: For access: in-neighbours taken a node, the seeds' hop first.
        batch_size: For access: seeds a mini-batch.

    Raises:
        UsageError: `cache_bytes` is negative, or the policy unknown.
    """
    if cache_bytes < 0:
        raise UsageError(f"cache_bytes must be >= 0, got {cache_bytes}; 0 turns the cache off")
    if policy not in POLICIES:
        raise unknown_name("policy", policy, POLICIES)
    room = cache_bytes - CACHE_INDEX_BYTES * graph.num_nodes
    if room <= 0:
        return np.empty(0, dtype=np.int32)
    if policy == "degree":
        ranked = hottest_first(graph)
    else:
        ranked = np.argsort(-expected_access(graph, fanouts, batch_size), kind="stable").astype(np.int32)
    return np.sort(ranked[: _rows_that_fit(rows_of(graph.features), ranked, room)])


def expected_access(graph: Graph, fanouts: Sequence[int], batch_size: int) -> NDArray[np.float64]:
    """Returns the probability that a mini-batch needs each node, float64, shape (num_nodes,).

    p_0(v) = B / |train|; p_l(v) = 1 - prod over u with v in N(u) of (1 - p_{l-1}(u) min(1, k_l / deg u)); a node is
    needed unless every hop misses it.
    """
    hop = np.zeros(graph.num_nodes, dtype=np.float64)
    hop[graph.train_ids] = min(1.0, batch_size / max(len(graph.train_ids), 1))
    missed = 1.0 - hop
    for fanout in fanouts:
        log_missed = log_unseen(readonly(graph.indptr), readonly(graph.indices), fanout, hop)
        hop = -np.expm1(log_missed)
        missed *= np.exp(log_missed)
    return 1.0 - missed


def _rows_that_fit(rows: FeatureRows, ranked: NDArray[np.int32], room: int) -> int:
    if isinstance(rows, DenseRows):
        return min(len(ranked), room // max(int(rows.array[:1].nbytes), 1))
    indptr, indices, data = rows.csr
    entry = indices.itemsize + data.itemsize
    sizes = np.diff(indptr)[ranked] * entry + indptr.itemsize
    return int(np.searchsorted(np.cumsum(sizes), room - indptr.itemsize, side="right"))


@dataclass(frozen=True, slots=True, eq=False)
class Tier:
    """Rows of some nodes, copied to faster memory.

    Attributes:
        position: int32, shape (num_nodes,): a node's place in `rows`, -1 where it has none.
        rows: The copies.
    """

    position: NDArray[np.int32]
    rows: FeatureRows

    @classmethod
    def of(cls, source: FeatureRows, nodes: NDArray[np.int32], num_nodes: int) -> Self:
        """Returns the tier that holds the rows of `nodes` (distinct)."""
        position = np.full(num_nodes, -1, dtype=np.int32)
        position[nodes] = np.arange(len(nodes), dtype=np.int32)
        return cls(readonly(position), source.take(nodes))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the map."""
        return self.position.nbytes + self.rows.nbytes

    def split(
        self, ids: NDArray[np.int32], where: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Returns (places in `rows`, where) of the `ids` that it holds, and (ids, where) of those that it does not."""
        hits, hits_at, misses, misses_at = split(self.position, ids, where)
        return hits, hits_at, misses, misses_at

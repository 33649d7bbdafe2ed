"""`TypedStore`: feature rows of several node types, under one bound for their caches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.buffers import BufferPool
from a3gnn.features.cache import NO_CACHE, CacheStats
from a3gnn.features.opening import open_features
from a3gnn.features.row_table import Aggregator
from a3gnn.features.store import FeatureStore, ReadResult
from a3gnn.features.stored_rows import rows_of
from a3gnn.graphs.edge_list_kernels import count_entries
from a3gnn.graphs.edges import Edges
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.halves import values_of
from a3gnn.graphs.schema import Schema
from a3gnn.sampling.subgraph import Block, Subgraph
from a3gnn.sampling.typed import TypedSubgraph, by_type

#: The features of each type, in the order of the schema; None for a type without any.
FeaturesOfTypes = Sequence[DenseFeatures | SparseFeatures | None]
_NOBODY = np.empty(0, dtype=np.int32)


class TypedRows(NamedTuple):
    """A sampled neighborhood by type, with its features.

    Attributes:
        view: Its nodes and edges.
        x: Features of the nodes of each type, as `ReadResult.x`; None for a type without any.
        hits: Rows of features that caches served.
    """

    view: TypedSubgraph
    x: tuple[torch.Tensor | None, ...]
    hits: int


class TypedStore:
    """A `FeatureStore` for each type that has features. Thread-safe.

    Args:
        schema: The types.
        stores: The store of each; None for a type without features.
        spare: Buffers that each type keeps for later mini-batches; None allocates for each mini-batch.
    """

    is_sparse = can_aggregate = False

    def __init__(self, schema: Schema, stores: Sequence[FeatureStore | None], spare: int | None) -> None:
        self._schema, self._stores = schema, tuple(stores)
        self._all = [one for one in stores if one is not None]
        self.num_features = max([0, *(one.num_features for one in self._all)])
        self.device = next((one.device for one in self._all), "cpu")
        self._pools = [
            None
            if spare is None or one is None or one.is_sparse or one.device != "cpu"
            else BufferPool(one.num_features, spare)
            for one in stores
        ]

    @classmethod
    def open(
        cls, features: FeaturesOfTypes, edges: Edges, config: TrainConfig, device: str = "cpu", spare: int | None = None
    ) -> TypedStore:
        """Returns the store of the `features` of the types of `edges`, with `config`'s tier and cache.

        All types share `config.cache_bytes`: the rows that are an in-neighbor most often per byte are cached.

        Args:
            features: In RAM or memory maps.
            edges: Decide what is cached.
            config: As in `open_features`; a cache needs the policy degree.
            device: Device of the training.
            spare: As in `TypedStore`.

        Raises:
            ConfigError: A feature is beyond float16's range.
        """
        chosen = _cached(features, edges, config) if config.cache_bytes else [_NOBODY] * len(features)
        stores = [
            None if one is None else open_features(Graph.of_nodes(one), config, device=device, cached=nodes)
            for one, nodes in zip(features, chosen, strict=True)
        ]
        return cls(edges.schema, stores, spare)

    @property
    def cached(self) -> NDArray[np.int32]:
        """The nodes that caches hold, ids through all types, int32, ascending."""
        firsts = self._schema.layout[0].tolist()
        held = [
            one.cached + np.int32(first) for one, first in zip(self._stores, firsts, strict=False) if one is not None
        ]
        return np.concatenate([_NOBODY, *held])

    @property
    def cache_bytes(self) -> int:
        """Bytes that the caches take, their maps included."""
        return sum(one.cache_bytes for one in self._all)

    @property
    def host_bytes(self) -> int:
        """Anonymous host memory that the stores hold."""
        return sum(one.host_bytes for one in self._all)

    @property
    def row_bytes(self) -> int:
        """Mean bytes of a node's row as it is stored, nodes without features included."""
        counts = self._schema.num_nodes
        total = sum(one.row_bytes * count for one, count in zip(self._stores, counts, strict=True) if one is not None)
        return total // max(sum(counts), 1)

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and overhead of all caches so far."""
        each = [one.stats for one in self._all if one.stats is not NO_CACHE]
        if not each:
            return NO_CACHE
        return CacheStats(each[0].policy, *(sum(values) for values in zip(*(one[1:] for one in each), strict=True)))

    def served_bytes(self, n_id: NDArray[np.int32]) -> int:
        """Returns the bytes of the features of `n_id`, ids through all types, as mini-batches have them."""
        counts = np.diff([np.count_nonzero(n_id < end) for end in self._schema.layout[0]]).tolist()
        return sum(4 * one.num_features * n for one, n in zip(self._stores, counts, strict=True) if one is not None)

    def enter_part(self, part: int) -> None:
        """Does nothing: graphs with types have one part."""

    def read_types(self, subgraph: Subgraph) -> TypedRows:
        """Returns `subgraph` by type, with the features of its nodes."""
        view, found, hits = by_type(subgraph, self._schema), list[torch.Tensor | None](), 0
        for store, pool, ids in zip(self._stores, self._pools, view.n_id, strict=True):
            if store is None:
                found.append(None)
                continue
            read = store.read(ids.astype(np.int32), None if pool is None else pool.lend(len(ids)))
            found.append(read.x)
            hits += read.hits
        return TypedRows(view, tuple(found), hits)

    def read(self, ids: NDArray[np.int32], out: torch.Tensor | None = None) -> ReadResult:
        """Refused; `read_types` returns the rows of each type.

        Raises:
            UsageError: Always.
        """
        raise UsageError("rows of several types have no common width; use read_types")

    def read_aggregated(
        self, ids: NDArray[np.int32], block: Block, aggregator: Aggregator, out: torch.Tensor | None = None
    ) -> ReadResult:
        """Refused, as `read`.

        Raises:
            UsageError: Always.
        """
        return self.read(ids, out)


def _cached(features: FeaturesOfTypes, edges: Edges, config: TrainConfig) -> list[NDArray[np.int32]]:
    """Returns the nodes of each type whose rows are cached, int32, ascending.

    They are taken by falling number of edges from them per byte, until rows and maps (an int32 per node of a type of
    which a row is cached) take `config.cache_bytes`.
    """
    layout = edges.schema.layout[0]
    entries = np.zeros(edges.num_nodes, dtype=np.int64)
    count_entries(edges.indices, entries)
    sizes = np.zeros(edges.num_nodes, dtype=np.int64)  # 0 where there is nothing to cache
    for one, first, last in zip(features, layout, layout[1:], strict=False):
        if one is not None:
            stored = 2 if config.feature_dtype == "float16" else values_of(one).itemsize
            sizes[first:last] = rows_of(one).sizes(stored)
    ranked = np.argsort(-entries / np.maximum(sizes, 1), kind="stable")
    ranked = ranked[sizes[ranked] > 0]
    kinds = np.searchsorted(layout[1:], ranked, side="right")
    costs = sizes[ranked]
    for kind in np.unique(kinds):
        # A copy of sparse rows has one pointer more than rows.
        costs[np.argmax(kinds == kind)] += CACHE_INDEX_BYTES * (layout[kind + 1] - layout[kind]) + 8
    held = np.sort(ranked[: np.searchsorted(costs.cumsum(), config.cache_bytes, side="right")])
    return [(held[(held >= first) & (held < last)] - first).astype(np.int32) for first, last in pairwise(layout)]

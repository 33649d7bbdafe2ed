"""`PygBatches`: mini-batches as PyG's `Data` and `HeteroData`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from a3gnn.features.typed_store import TypedRows
from a3gnn.loader.pyg_attributes import fields_of, relation_keys
from a3gnn.loader.pyg_source import Source
from a3gnn.loader.seeds import SeedFields
from a3gnn.models.own.inputs import of_batch, table_input
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.known_edges import known_edges, note_target_sizes
from a3gnn.pipeline.pyg_edges import (
    BatchEdges,
    SubgraphType,
    adjacencies,
    all_between,
    both_ways,
    relations_both_ways,
    sampled_edges,
)
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import AnySampler, Subgraph
from a3gnn.sampling.typed import by_type

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData


class _View(NamedTuple):
    """A mini-batch by type and relation, in the order of the schema; without types there is one of each.

    Attributes:
        n_id: The nodes of each type.
        tree: The tree of each node, by type; None for a single tree of all seeds.
        edges: The edges of each relation.
        new_nodes: Number of new nodes of each hop, by type, seeds first; None if hops are not told apart.
        new_edges: Number of edges of each hop, by relation.
    """

    n_id: list[Tensor]
    tree: list[Tensor] | None
    edges: list[BatchEdges]
    new_nodes: list[list[int]] | None
    new_edges: list[list[int]]


class PygBatches:
    """Converts a `MiniBatch` to a `Data` or `HeteroData` as from PyG's NeighborLoader.

    Args:
        source: Provides the attributes.
        subgraph_type: Which edges a mini-batch has.
        sampler: The mini-batches' sampler. Induced subgraphs need a `Sampler`, which finds their edges.
        device: cuda moves the mini-batches there; with cpu each tensor stays on its attribute's device.
        adjs: Whether each `Data` has `adjs`.
        degrees: Each node's number of in-neighbors other than itself, if `x` holds rows of a table for gcn.
    """

    def __init__(
        self,
        source: Source,
        subgraph_type: SubgraphType,
        sampler: AnySampler,
        device: str,
        *,
        adjs: bool,
        degrees: Tensor | None = None,
    ) -> None:
        self._source, self._schema, self._keys = source, source.schema, relation_keys(source.schema)
        self._type = subgraph_type
        self._sampler = sampler
        self._device = torch.device(device)
        self._adjs = adjs
        self._degrees = degrees

    def __call__(self, batch: MiniBatch, seeds: SeedFields) -> Data | HeteroData:
        """Returns `batch` as a new `Data` or `HeteroData`; dense x shares the batch's memory.

        Args:
            batch: The mini-batch.
            seeds: What else is written of its seeds.
        """
        subgraph = batch.subgraph
        view = self._untyped(batch) if batch.typed is None else self._typed(subgraph, batch.typed)
        data = self._source.attributes(view.n_id, view.edges)
        if self._source.reads_x:  # float32, whatever the stored dtype
            for kind, x in zip(self._schema.types, (batch.x,) if batch.typed is None else batch.typed.x, strict=True):
                if x is not None:
                    fields_of(data, kind)["x"] = x.to_dense() if x.is_sparse_csr else x
            if batch.aggregator is not None and not self._adjs:
                data.x = table_input(batch, view.edges[0].edge_index, self._degrees)
        self._put_sampled(data, view)
        seeds.put(data, subgraph.num_seeds)
        if subgraph.share is not None:
            data.seed_share = batch.seed_share
        if self._adjs and batch.aggregator is None:
            data.adjs = adjacencies(subgraph, batch.indptr, batch.indices)
        elif self._adjs:  # sources of the input layer are twice as many as nodes, so no edge list fits them
            data.x, data.adjs = of_batch(batch, "adjs")
            if "edge_index" in data:
                del data.edge_index
        return data if self._device.type == "cpu" else data.to(self._device)

    def _put_sampled(self, data: Data | HeteroData, view: _View) -> None:
        """Writes what sampling tells of the nodes of each type and the edges of each relation."""
        for place, (kind, n_id) in enumerate(zip(self._schema.types, view.n_id, strict=True)):
            fields = fields_of(data, kind)
            if "n_id" not in fields:
                fields["n_id"] = n_id
            if view.tree is not None:
                fields["batch"] = view.tree[place]
            if view.new_nodes is not None:
                fields["num_sampled_nodes"] = view.new_nodes[place]
        for place, (key, edges) in enumerate(zip(self._keys, view.edges, strict=True)):
            fields = fields_of(data, key)
            if self._source.has_edge_ids and edges.e_id is not None and "e_id" not in fields:
                fields["e_id"] = edges.e_id
            if view.new_nodes is not None:
                fields["num_sampled_edges"] = view.new_edges[place]

    def _typed(self, subgraph: Subgraph, rows: TypedRows) -> _View:
        typed, dtype, device = rows.view, self._source.like.dtype, self._source.like.device
        if self._type == "induced":
            assert isinstance(self._sampler, Sampler)
            indptr, sources, e_id = self._sampler.induced(subgraph.n_id)
            sizes = (subgraph.num_nodes, subgraph.num_nodes)  # the edges of all nodes are one hop
            subgraph = Subgraph(subgraph.n_id, indptr, sources, sizes, e_id, subgraph.tree)
            typed = by_type(subgraph, self._schema)
        assert typed.e_id is not None, "PyG's data has edges with ids"
        lists = [torch.from_numpy(one) for one in typed.edge_index]
        if dtype != torch.int64 or device.type != "cpu":
            lists = [one.to(device, dtype) for one in lists]
        edges = [BatchEdges(one, torch.from_numpy(ids)) for one, ids in zip(lists, typed.e_id, strict=True)]
        if self._type == "bidirectional":
            edges = relations_both_ways(edges, self._schema.relations)
        trees = None if typed.tree is None else [torch.from_numpy(one) for one in typed.tree]
        n_id = [torch.from_numpy(one).to(dtype) for one in typed.n_id]
        hops = typed.num_sampled_nodes.tolist() if self._type == "directional" else None
        if hops is not None and device.type == "cpu":
            note_target_sizes(lists, typed, self._schema)
        return _View(n_id, trees, edges, hops, typed.num_sampled_edges.tolist())

    def _untyped(self, batch: MiniBatch) -> _View:
        subgraph = batch.subgraph
        hops = _steps(subgraph.hop_sizes) if self._type == "directional" else None
        ends = [int(subgraph.indptr[size]) for size in subgraph.hop_sizes[:-1]]
        # The last hop's rows may be more than its own.
        steps = _steps([*ends[:-1], subgraph.num_edges] if ends else [])
        n_id = torch.from_numpy(subgraph.n_id).to(self._source.like.dtype)
        tree = None if subgraph.tree is None else [torch.from_numpy(subgraph.tree)]
        return _View([n_id], tree, [self._edges(batch)], None if hops is None else [hops], [steps])

    def _edges(self, batch: MiniBatch) -> BatchEdges:
        like, n_id = self._source.like, batch.subgraph.n_id
        if self._type == "induced" and isinstance(self._sampler, Sampler):
            return all_between(n_id, self._sampler, like)
        edges = sampled_edges(batch, like.dtype)
        if self._type == "directional" and edges.edge_index.device.type == "cpu":
            known = known_edges(edges.edge_index)
            known.csr = batch.subgraph.indptr, batch.subgraph.indices
            known.hop_sizes = batch.subgraph.hop_sizes
        if self._type == "bidirectional":
            edges = both_ways(edges, len(n_id))
        if self._device.type == "cpu" and like.device.type != "cpu":
            return edges._replace(edge_index=edges.edge_index.to(like.device))
        return edges


def _steps(totals: Sequence[int]) -> list[int]:
    return [after - before for before, after in pairwise([0, *totals])]

"""`PygBatches`: mini-batches as PyG's `Data`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from a3gnn.loader.pyg_source import Source
from a3gnn.models.own.inputs import of_batch, table_input
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.known_edges import known_edges
from a3gnn.pipeline.pyg_edges import BatchEdges, SubgraphType, adjacencies, all_between, both_ways, sampled_edges
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import AnySampler

if TYPE_CHECKING:
    from torch_geometric.data import Data


class PygBatches:
    """Converts a `MiniBatch` to a `Data` as from PyG's NeighborLoader, with x, edge_index, n_id, batch_size and more.

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
        self._source = source
        self._type = subgraph_type
        self._sampler = sampler
        self._device = torch.device(device)
        self._adjs = adjs
        self._degrees = degrees

    def __call__(self, batch: MiniBatch, input_id: Tensor) -> Data:
        """Returns `batch` as a new `Data`; dense x shares the batch's memory.

        Args:
            batch: The mini-batch.
            input_id: The `input_id` of its seeds, int64.
        """
        subgraph, like = batch.subgraph, self._source.like
        n_id = torch.from_numpy(subgraph.n_id).to(like.dtype)
        edges = self._edges(batch)
        data = self._source.attributes(n_id, edges)
        if self._source.reads_x:  # float32, whatever the stored dtype
            data.x = batch.x.to_dense() if batch.x.is_sparse_csr else batch.x
            if batch.aggregator is not None and not self._adjs:
                data.x = table_input(batch, edges.edge_index, self._degrees)
        if "n_id" not in data:
            data.n_id = n_id
        if self._source.has_edge_ids and edges.e_id is not None and "e_id" not in data:
            data.e_id = edges.e_id
        if subgraph.tree is not None:
            data.batch = torch.from_numpy(subgraph.tree)
        data.input_id = input_id
        data.batch_size = subgraph.num_seeds
        if subgraph.share is not None:
            data.seed_share = batch.seed_share
        if self._type == "directional":
            data.num_sampled_nodes = _steps(subgraph.hop_sizes)
            ends = [int(subgraph.indptr[size]) for size in subgraph.hop_sizes[:-1]]
            # The last hop's rows may be more than its own.
            data.num_sampled_edges = _steps([*ends[:-1], subgraph.num_edges] if ends else [])
        if self._adjs and batch.aggregator is None:
            data.adjs = adjacencies(subgraph, batch.indptr, batch.indices)
        elif self._adjs:  # sources of the input layer are twice as many as nodes, so no edge list fits them
            data.x, data.adjs = of_batch(batch, "adjs")
            if "edge_index" in data:
                del data.edge_index
        return data if self._device.type == "cpu" else data.to(self._device)

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


def _steps(totals: Any) -> list[int]:
    return [after - before for before, after in pairwise([0, *totals])]

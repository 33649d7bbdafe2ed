"""`PygBatches`: mini-batches as PyG's `Data`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.graphs.graph import Graph
from a3gnn.runtime.batch import MiniBatch
from a3gnn.runtime.pyg_structure import adjacencies, edge_index

if TYPE_CHECKING:
    from torch_geometric.data import Data

# The loader's own, or PyG's count of nodes.
_NOT_COPIED = ("x", "edge_index", "num_nodes")


class _Column(NamedTuple):
    """An attribute of nodes, and the dimension that counts them."""

    values: Tensor
    dim: int

    def of(self, ids: Tensor) -> Tensor:
        return self.values.index_select(self.dim, ids.to(self.values.device))


class PygBatches:
    """Makes of a `MiniBatch` what PyG's NeighborLoader gives: `Data` with x, edge_index, n_id, batch_size and more.

    Args:
        source: Whose attributes are served: a `Data` (those of nodes by `n_id`, those of the graph as they are), or a
            graph, whose labels are served as `y`.
        input_ids: The seeds in the order that `input_id` counts, int32, distinct; None gives the seeds' own ids.
        adjs: Whether `adjs` is given.
    """

    def __init__(self, source: Graph | Data, input_ids: NDArray[np.int32] | None, *, adjs: bool) -> None:
        if isinstance(source, Graph):
            self._of_nodes = {"y": _Column(torch.from_numpy(np.array(source.labels)), 0)}
            self._of_graph: dict[str, Any] = {}
        else:
            rest = {name: source[name] for name in source.keys() if name not in _NOT_COPIED}  # noqa: SIM118
            self._of_nodes = {
                name: _Column(torch.as_tensor(value).detach(), source.__cat_dim__(name, value))
                for name, value in rest.items()
                if source.is_node_attr(name)
            }
            self._of_graph = {name: value for name, value in rest.items() if name not in self._of_nodes}
        self._order = None if input_ids is None else np.argsort(input_ids)
        self._sorted = None if input_ids is None else input_ids[self._order]
        self._adjs = adjs

    def __call__(self, batch: MiniBatch) -> Data:
        """Returns `batch` as a `Data` of its own on the same device; dense x shares the batch's memory."""
        from torch_geometric.data import Data

        device, subgraph = batch.x.device, batch.subgraph
        n_id = torch.from_numpy(subgraph.n_id.astype(np.int64))
        known = {name: column.of(n_id).to(device) for name, column in self._of_nodes.items()}
        data = Data(
            x=batch.x.to_dense() if batch.x.is_sparse_csr else batch.x,
            edge_index=edge_index(batch.indptr, batch.indices),
            **{"n_id": n_id.to(device)} | known | self._of_graph,
        )
        data.input_id = self._input_id(n_id[: subgraph.num_seeds]).to(device)
        data.batch_size = subgraph.num_seeds
        data.num_sampled_nodes = _steps(subgraph.hop_sizes)
        data.num_sampled_edges = _steps([int(subgraph.indptr[size]) for size in subgraph.hop_sizes[:-1]])
        if self._adjs:
            data.adjs = adjacencies(subgraph, batch.indptr, batch.indices)
        return data

    def _input_id(self, seeds: Tensor) -> Tensor:
        if self._order is None or self._sorted is None:
            return seeds
        return torch.from_numpy(self._order[np.searchsorted(self._sorted, seeds.numpy())])


def _steps(totals: Any) -> list[int]:
    return [totals[0], *(after - before for before, after in pairwise(totals))]

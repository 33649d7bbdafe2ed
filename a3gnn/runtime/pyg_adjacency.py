"""`TransposedAdjacency`: a `Data`'s `adj_t`, read once, and a mini-batch's edges in its form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from a3gnn.errors import GraphError
from a3gnn.runtime.pyg_edges import BatchEdges


class TransposedAdjacency:
    """A sparse matrix whose rows are targets: torch's, in any layout, or a `SparseTensor` of torch-sparse.

    Args:
        adj_t: Shape (num_nodes, num_nodes).

    Attributes:
        sources: int64, shape (num_edges,), by target.
        targets: int64, shape (num_edges,), ascending; edges are known by their places here.

    Raises:
        GraphError: It is neither.
    """

    def __init__(self, adj_t: Any) -> None:
        self._kind = type(adj_t)
        self._layout = getattr(adj_t, "layout", None)
        if isinstance(adj_t, Tensor) and adj_t.layout != torch.strided:
            matrix = adj_t.to_sparse_csr()
            indptr, self.sources, self._values = matrix.crow_indices(), matrix.col_indices(), matrix.values()
        elif not isinstance(adj_t, Tensor) and hasattr(adj_t, "csr"):
            indptr, self.sources, self._values = adj_t.csr()
        else:
            raise GraphError(f"adj_t must be a sparse tensor, got {self._kind.__name__}; T.ToSparseTensor() makes one")
        self.targets = torch.arange(len(indptr) - 1, device=indptr.device).repeat_interleave(indptr.diff())

    def of(self, edges: BatchEdges, num_nodes: int) -> Any:
        """Returns `edges` with their values, in the same form, shape (num_nodes, num_nodes)."""
        sources, targets = edges.edge_index.long()
        values = self._values
        if values is not None and edges.e_id is not None:
            values = values[edges.e_id.to(values.device)]
        if self._layout is None:
            sizes = (num_nodes, num_nodes)
            return self._kind(row=targets, col=sources, value=values, sparse_sizes=sizes, is_sorted=True)
        indptr = torch.zeros(num_nodes + 1, dtype=torch.int64, device=targets.device)
        indptr[1:] = targets.bincount(minlength=num_nodes).cumsum(0)
        matrix = torch.sparse_csr_tensor(indptr, sources, values, (num_nodes, num_nodes), check_invariants=False)
        return matrix if self._layout == torch.sparse_csr else matrix.to_sparse(layout=self._layout)

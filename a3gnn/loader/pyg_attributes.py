"""The attributes of a mini-batch: rows of node and edge attributes, and graph attributes."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline.pyg_edges import BatchEdges

if TYPE_CHECKING:
    from torch_geometric.data import Data, FeatureStore

#: The sampled structure, and PyG's node count.
STRUCTURE = ("edge_index", "adj_t", "num_nodes")


class Attributes(Protocol):
    """Makes a `Data` of the sampled nodes and edges, without the attributes that sampling itself adds."""

    def __call__(self, n_id: Tensor, edges: BatchEdges) -> Data:
        """Returns a `Data` of the nodes `n_id` and `edges`."""


class _Column(NamedTuple):
    """An attribute of nodes or edges, and its node or edge dimension."""

    values: Any
    dim: int

    def of(self, ids: Tensor) -> Tensor:
        if isinstance(self.values, np.ndarray):  # reads only these rows of a memory map
            return torch.from_numpy(np.take(self.values, ids.numpy(), axis=self.dim))
        taken: Tensor = self.values.index_select(self.dim, ids.to(self.values.device))
        return taken


class GraphAttributes:
    """Attributes of an a3gnn graph: its labels as `y`, with the dtypes of `Graph.to_pyg`."""

    def __init__(self, graph: Graph) -> None:
        self._labels = _Column(torch.from_numpy(np.array(graph.labels)), 0)

    def __call__(self, n_id: Tensor, edges: BatchEdges) -> Data:
        """Returns a `Data` with edge_index and y."""
        from torch_geometric.data import Data

        y = self._labels.of(n_id)
        return Data(edge_index=edges.edge_index, y=y if y.is_floating_point() else y.long())


class DataAttributes:
    """Attributes of a `Data`: node attributes by `n_id`, edge attributes by `e_id`, graph attributes unchanged.

    Args:
        data: Mini-batches have its class.
        adjacency: Its `adj_t`, if any.
        without: Names of attributes to leave out.
    """

    def __init__(self, data: Data, adjacency: TransposedAdjacency | None, without: tuple[str, ...] = ()) -> None:
        asked = copy(data)  # PyG caches the answers in its argument, and they would be saved with `data`
        names = [name for name in asked.keys() if name not in (*STRUCTURE, *without)]  # noqa: SIM118
        of_nodes = [name for name in names if asked.is_node_attr(name)]
        of_edges = [name for name in names if name not in of_nodes and asked.is_edge_attr(name)]
        self._of_nodes = {name: _column(data, name) for name in of_nodes}
        self._of_edges = {name: _column(data, name) for name in of_edges}
        self._adjacency = adjacency
        self._counts_nodes = "num_nodes" in data
        self._has_edge_index = "edge_index" in data or adjacency is None
        self._of_graph = copy(data)
        for name in {*of_nodes, *of_edges, *STRUCTURE, *without} & {*data.keys()}:
            del self._of_graph[name]

    def __call__(self, n_id: Tensor, edges: BatchEdges) -> Data:
        """Returns a `Data` of the same class; each tensor is on its attribute's device."""
        data = copy(self._of_graph)
        for name, column in self._of_nodes.items():
            data[name] = _for_layers(name, column.of(n_id))
        if self._counts_nodes:
            data.num_nodes = len(n_id)
        if self._has_edge_index:
            data.edge_index = edges.edge_index
        for name, column in self._of_edges.items():
            assert edges.e_id is not None  # without ids the loader refuses edge attributes
            data[name] = column.of(edges.e_id)
        if self._adjacency is not None:
            data.adj_t = self._adjacency.of(edges, len(n_id))
        return data

    @property
    def of_edges(self) -> list[str]:
        """Names of attributes that need edge ids."""
        return sorted([*self._of_edges, *(["adj_t"] if self._adjacency is not None else [])])


class StoreAttributes:
    """Attributes from a feature store: each of its tensors becomes a node attribute.

    Args:
        features: The store.
        made_of: The class of mini-batches, called without arguments.
    """

    def __init__(self, features: FeatureStore, made_of: Any) -> None:
        self._features = features
        self._made_of = made_of

    def __call__(self, n_id: Tensor, edges: BatchEdges) -> Data:
        """Returns a `Data` with edge_index, num_nodes and the store's tensors."""
        data: Data = self._made_of()
        data.edge_index = edges.edge_index
        wanted = [copy(attribute) for attribute in self._features.get_all_tensor_attrs()]
        for attribute in wanted:
            attribute.index = n_id
        data.num_nodes = len(n_id)
        for attribute, tensor in zip(wanted, self._features.multi_get_tensor(wanted), strict=True):
            data[attribute.attr_name] = _for_layers(attribute.attr_name, tensor)
        return data


class TransposedAdjacency:
    """A sparse matrix whose rows are targets: torch's, in any layout, or a `SparseTensor` of torch-sparse.

    Args:
        adj_t: Shape (num_nodes, num_nodes).

    Attributes:
        sources: int64, shape (num_edges,), by target.
        targets: int64, shape (num_edges,), ascending. An edge's id is its place here.

    Raises:
        GraphError: `adj_t` has another type.
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
        """Returns `edges` and their values in the type and layout of `adj_t`, shape (num_nodes, num_nodes)."""
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


def _for_layers(name: str, values: Any) -> Any:
    """Returns the attribute's values; casts a 16-bit x to float32, the layers' dtype, without loss of precision."""
    halves = name == "x" and isinstance(values, Tensor) and values.dtype in (torch.float16, torch.bfloat16)
    return values.float() if halves else values


def _column(data: Data, name: str) -> _Column:
    """Returns the node or edge attribute `name`.

    Raises:
        UsageError: Tensors can't hold its values, such as text, dates or None.
    """
    value = data[name]
    try:
        values = value if isinstance(value, Tensor | np.ndarray) else torch.as_tensor(value)
        if isinstance(values, np.ndarray):
            torch.from_numpy(np.empty(0, dtype=values.dtype))
    except (TypeError, ValueError, RuntimeError) as error:
        kind = f"dtype {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise UsageError(
            f"{name} must hold numbers, because it has a value per node or edge, got {kind} ({error}); encode it as "
            f"numbers, or delete data.{name}"
        ) from error
    return _Column(values, data.__cat_dim__(name, values))

"""The attributes of a mini-batch: rows of node and edge attributes, and graph attributes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import ref

import numpy as np
import torch
from torch import Tensor

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.schema import Schema
from a3gnn.pipeline.pyg_edges import BatchEdges

if TYPE_CHECKING:
    from torch_geometric.data import Data, FeatureStore, HeteroData

#: The sampled structure, and PyG's node count.
STRUCTURE = ("edge_index", "adj_t", "num_nodes")


class Attributes(Protocol):
    """Makes a mini-batch of the sampled nodes and edges, without the attributes that sampling itself adds."""

    def __call__(self, n_id: Sequence[Tensor], edges: Sequence[BatchEdges]) -> Data | HeteroData:
        """Returns a mini-batch of the nodes `n_id` of each type, and the `edges` of each relation."""


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
    """Attributes of an a3gnn graph: its labels as `y` and its values of edges, with the dtypes of `Graph.to_pyg`."""

    def __init__(self, graph: Graph) -> None:
        self._labels = _Column(torch.from_numpy(np.array(graph.labels)), 0)
        self._of_edges = {name: _Column(array, 0) for name, array in graph.edge_values.items()}
        self.of_edges = [*self._of_edges]

    def __call__(self, n_id: Sequence[Tensor], edges: Sequence[BatchEdges]) -> Data:
        """Returns a `Data` with edge_index and y, and values of edges that have ids."""
        from torch_geometric.data import Data

        y, e_id = self._labels.of(n_id[0]), edges[0].e_id
        values = {} if e_id is None else {name: column.of(e_id) for name, column in self._of_edges.items()}
        return Data(edge_index=edges[0].edge_index, y=y if y.is_floating_point() else y.long(), **values)


class StoreColumns:
    """The columns of one of PyG's stores: of a `Data`, or of a type of nodes or edges.

    Args:
        data: The data of the store.
        store: The store. PyG caches its answers in it, and they would be saved with the user's data, so give a copy.
        without: Names of attributes to leave out.
    """

    def __init__(self, data: Any, store: Any, without: tuple[str, ...] = ()) -> None:
        self.adjacency = TransposedAdjacency(store["adj_t"]) if store.get("adj_t") is not None else None
        names = [name for name in store.keys() if name not in (*STRUCTURE, *without)]  # noqa: SIM118
        of_nodes = [name for name in names if store.is_node_attr(name)]
        of_edges = [name for name in names if name not in of_nodes and store.is_edge_attr(name)]
        self._of_nodes = {name: _column(data, store, name) for name in of_nodes}
        self.of_edges = {name: _column(data, store, name) for name in of_edges}
        self._counts_nodes = "num_nodes" in store
        self._has_edge_index = "edge_index" in store or self.adjacency is None
        self.names = {*of_nodes, *of_edges, *STRUCTURE, *without} & {*store.keys()}

    def put_nodes(self, out: Any, n_id: Tensor) -> None:
        """Writes the attributes of the nodes `n_id` to `out`; each tensor is on its attribute's device."""
        for name, column in self._of_nodes.items():
            out[name] = _for_layers(name, column.of(n_id))
        if self._counts_nodes:
            out["num_nodes"] = len(n_id)

    def put_edges(self, out: Any, edges: BatchEdges, size: tuple[int, int]) -> None:
        """Writes `edges` between `size` sources and targets to `out`; without ids they have no attributes."""
        if self._has_edge_index:
            out["edge_index"] = edges.edge_index
        if edges.e_id is not None:
            for name, column in self.of_edges.items():
                out[name] = column.of(edges.e_id)
        if self.adjacency is not None:
            out["adj_t"] = self.adjacency.of(edges, size)


class DataAttributes:
    """Attributes of a `Data` or `HeteroData`: nodes' by `n_id`, edges' by `e_id`, the graph's unchanged.

    Args:
        data: Mini-batches have its class.
        schema: Its types and relations.
        read: Types whose x is left out, because it is read as features.
    """

    def __init__(self, data: Data | HeteroData, schema: Schema, read: Collection[str] = ()) -> None:
        self._schema, asked, self._of_graph = schema, copy(data), copy(data)
        self._keys = relation_keys(schema)
        kinds: list[Any] = [*schema.types, *self._keys]
        self._columns = {
            kind: StoreColumns(data, store_of(asked, kind), ("x",) if kind in read else ())
            for kind in dict.fromkeys(kinds)
        }
        for kind, columns in self._columns.items():
            for name in columns.names:
                del store_of(self._of_graph, kind)[name]

    def __call__(self, n_id: Sequence[Tensor], edges: Sequence[BatchEdges]) -> Data | HeteroData:
        """Returns a mini-batch of the same class; each tensor is on its attribute's device."""
        data, schema = _copied(self._of_graph), self._schema
        counts = {kind: len(ids) for kind, ids in zip(schema.types, n_id, strict=True)}
        for kind, ids in zip(schema.types, n_id, strict=True):
            self._columns[kind].put_nodes(fields_of(data, kind), ids)
        for relation, key, one in zip(schema.relations, self._keys, edges, strict=True):
            self._columns[key].put_edges(fields_of(data, key), one, (counts[relation.source], counts[relation.target]))
        return data

    @property
    def adjacencies(self) -> list[TransposedAdjacency | None]:
        """The `adj_t` of each relation."""
        return [self._columns[key].adjacency for key in self._keys]

    @property
    def of_edges(self) -> list[str]:
        """Names of attributes that need edge ids."""
        columns = [self._columns[key] for key in self._keys]
        return sorted({name for one in columns for name in (*one.of_edges, *(["adj_t"] if one.adjacency else []))})


class StoreAttributes:
    """Attributes from a feature store: each of its tensors becomes a node attribute.

    Args:
        schema: The types and relations of the graph store.
        made_of: The class of mini-batches, called without arguments.
    """

    def __init__(self, features: FeatureStore, schema: Schema, made_of: Any) -> None:
        self._features, self._schema, self._made_of = features, schema, made_of

    def __call__(self, n_id: Sequence[Tensor], edges: Sequence[BatchEdges]) -> Data | HeteroData:
        """Returns a mini-batch with edge_index, num_nodes and the store's tensors."""
        data, schema = self._made_of(), self._schema
        of_type = dict(zip(schema.types, n_id, strict=True))
        wanted = [copy(attribute) for attribute in self._features.get_all_tensor_attrs()]
        wanted = [attribute for attribute in wanted if (attribute.group_name or "") in of_type]
        for attribute in wanted:
            kind = attribute.group_name or ""
            attribute.index = of_type[kind]
            store_of(data, kind).num_nodes = len(of_type[kind])
        for attribute, tensor in zip(wanted, self._features.multi_get_tensor(wanted), strict=True):
            store = store_of(data, attribute.group_name or "")
            store[attribute.attr_name] = _for_layers(attribute.attr_name, tensor)
        for key, one in zip(relation_keys(schema), edges, strict=True):
            store_of(data, key).edge_index = one.edge_index
        return data


def relation_keys(schema: Schema) -> list[Any]:
    """Returns PyG's key of the store of each relation; without types, the one store has all."""
    return [""] if schema.is_untyped else [tuple(relation) for relation in schema.relations]


def store_of(data: Any, kind: Any) -> Any:
    """Returns the store of a type of nodes or edges; `data` itself where there are no types."""
    if kind == "":
        return data
    # `data[kind]` takes the name of a type for a relation of the same name while there is no such type.
    return data.get_node_store(kind) if isinstance(kind, str) else data.get_edge_store(*kind)


def fields_of(data: Any, kind: Any) -> Any:
    """Returns the dict of a mini-batch's store, which is set in a fifth of the time that PyG's `setattr` takes.

    None must not be written to it. Stores of other classes are returned themselves.
    """
    store = store_of(data, kind)
    return getattr(store, "_mapping", store)


def _copied(data: Any) -> Any:
    """Returns a copy of a `Data` or `HeteroData` as by its own `__copy__`, in a third of the time."""
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.data.storage import BaseStorage

    if type(data).__copy__ not in (Data.__copy__, HeteroData.__copy__):
        return copy(data)
    out = object.__new__(type(data))
    parent = ref(out)

    def copied(store: Any) -> Any:
        made = object.__new__(type(store))
        vars(made).update(vars(store), _mapping=vars(store)["_mapping"].copy(), _parent=parent)
        return made

    for name, value in vars(data).items():
        if isinstance(value, BaseStorage):
            vars(out)[name] = copied(value)
        else:
            of_type = name in ("_node_store_dict", "_edge_store_dict")
            vars(out)[name] = {key: copied(store) for key, store in value.items()} if of_type else value
    return out


class TransposedAdjacency:
    """A sparse matrix whose rows are targets: torch's, in any layout, or a `SparseTensor` of torch-sparse.

    Args:
        adj_t: Shape (num_targets, num_sources).

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

    def of(self, edges: BatchEdges, size: tuple[int, int]) -> Any:
        """Returns `edges` between `size` sources and targets, with values, in the type and layout of `adj_t`."""
        sources, targets = edges.edge_index.long()
        values = self._values
        if values is not None and edges.e_id is not None:
            values = values[edges.e_id.to(values.device)]
        if self._layout is None:
            sizes = (size[1], size[0])
            return self._kind(row=targets, col=sources, value=values, sparse_sizes=sizes, is_sorted=True)
        indptr = torch.zeros(size[1] + 1, dtype=torch.int64, device=targets.device)
        indptr[1:] = targets.bincount(minlength=size[1]).cumsum(0)
        matrix = torch.sparse_csr_tensor(indptr, sources, values, (size[1], size[0]), check_invariants=False)
        return matrix if self._layout == torch.sparse_csr else matrix.to_sparse(layout=self._layout)


def _for_layers(name: str, values: Any) -> Any:
    """Returns the attribute's values; casts a 16-bit x to float32, the layers' dtype, without loss of precision."""
    halves = name == "x" and isinstance(values, Tensor) and values.dtype in (torch.float16, torch.bfloat16)
    return values.float() if halves else values


def _column(data: Any, store: Any, name: str) -> _Column:
    """Returns the node or edge attribute `name`.

    Raises:
        UsageError: Tensors can't hold its values, such as text, dates or None.
    """
    value = store[name]
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
    of_type = () if isinstance(store, type(data)) else (store,)
    return _Column(values, data.__cat_dim__(name, values, *of_type))

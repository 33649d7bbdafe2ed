"""`Source`: the data of a `Loader`, split into the sampled edges and the served attributes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import GraphError, TypedSetError, UsageError
from a3gnn.graphs.as_graph import is_data
from a3gnn.graphs.assemble import canonical
from a3gnn.graphs.edges import EdgeList, Edges, known_times
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.pyg import check_labels_and_masks, check_rows, features_of, is_hetero, typed_of
from a3gnn.graphs.schema import Relation, Schema
from a3gnn.graphs.typed import typed_graph
from a3gnn.graphs.validate import check_edge_shape, check_edges, check_ends
from a3gnn.loader.pyg_attributes import (
    Attributes,
    DataAttributes,
    GraphAttributes,
    StoreAttributes,
    TransposedAdjacency,
    relation_keys,
    store_of,
)
from a3gnn.parts.opening import graph_of
from a3gnn.storage.mapping import file_behind
from a3gnn.storage.npy import slices

if TYPE_CHECKING:
    from torch_geometric.data import Data, FeatureStore, GraphStore, HeteroData


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The sampled edges and the served attributes.

    Attributes:
        graph: The nodes, and each edge once; where there are types, the nodes alone.
        edges: All edges with their ids; for an a3gnn graph, its edges; empty for a graph in parts.
        attributes: Makes a mini-batch's `Data`, without the x of types that have `features`.
        features: What is read through tiers and caches as the x of each type; None for a type whose x, if it has one,
            is an attribute. Without types, the features of `graph`, if any.
        like: An empty tensor with the dtype and the device of `edge_index`.
        has_edge_ids: Whether mini-batches have e_id.
        node_times: The time of each node, by type, where nodes have times.
    """

    graph: Graph
    edges: Edges
    attributes: Attributes
    features: tuple[DenseFeatures | SparseFeatures | None, ...]
    like: torch.Tensor
    has_edge_ids: bool
    node_times: NodeTimes = field(default_factory=dict)

    @property
    def reads_x(self) -> bool:
        """Whether x is read through tiers and caches, of at least one type."""
        return any(one is not None for one in self.features)

    @property
    def of_types(self) -> tuple[DenseFeatures | SparseFeatures | None, ...] | None:
        """The `features` where there are types, else None."""
        return None if self.schema.is_untyped else self.features

    @property
    def schema(self) -> Schema:
        """The types and relations; one of each for an a3gnn graph."""
        return Schema.untyped(self.graph.num_nodes) if not self.has_edge_ids else self.edges.schema


def opened(data: Any) -> Any:
    """Returns data of several types or events, or a file, folder or set of it, as a PyG `Data` or `HeteroData`.

    Other data is returned itself, but a set by name as a graph, because only its content tells its kind.

    Raises:
        GraphError: It can't be read, or its graph is not valid.
    """
    if not isinstance(data, str | os.PathLike):
        typed = typed_of(data)
    elif isinstance(data, str) and data.startswith(("pyg:", "ogb:")):
        try:
            return Graph.load_untyped(data)
        except TypedSetError as error:
            typed = error.data
    else:
        typed = typed_graph(os.fspath(data))
    return data if typed is None else typed


def source_of(
    data: Any, weight_attr: str | None = None, custom_cls: Any = None, time_attr: str | None = None
) -> Source:
    """Returns the source that `data` is, names or holds.

    Args:
        data: A PyG `Data` or `HeteroData`, a pair of a `FeatureStore` and a `GraphStore`, or what `graph_of` takes.
        weight_attr: The attribute of the data's edges with sampling weights.
        custom_cls: The class of the mini-batches of a pair of stores; PyG's by default.
        time_attr: The attribute of nodes or of edges with their times.

    Raises:
        UsageError: `data` has another type, or an argument doesn't fit its type.
        GraphError: It can't be read, or is not valid.
    """
    if custom_cls is not None and not _are_stores(data):
        raise UsageError(
            "custom_cls must be left out unless data is a pair of stores: other mini-batches have the class of data"
        )
    if is_data(data):
        return _of_data(data, weight_attr, time_attr)
    if is_hetero(data):
        return _of_hetero(data, weight_attr, time_attr)
    if weight_attr is not None:
        raise UsageError(
            f"weight_attr must be left out unless data is a PyG Data or HeteroData, got {weight_attr!r}: only its "
            "edges have attributes"
        )
    if _are_stores(data):
        features, edges_of = data
        return _of_stores(features, edges_of, custom_cls, time_attr)
    if time_attr is not None:
        raise UsageError(f"time_attr must be left out for a graph of a3gnn's, got {time_attr!r}; it has no times")
    graph = graph_of(data, lambda line: warnings.warn(line, stacklevel=2))
    if graph.types is not None:
        raise UsageError("a loader takes the file or the HeteroData of a graph with types, got an a3gnn Graph of it")
    rows = graph.indptr, graph.indices
    if graph.is_parted:  # its edges are remote; `Pipeline` refuses uses of them
        rows = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32)
    edges = Edges(*rows, ids=np.empty(0, dtype=np.int32))
    return Source(graph, edges, GraphAttributes(graph), (graph.features,), torch.empty(0, dtype=torch.int64), False)


def data_of(data: Any, source: Source) -> Any:
    """Returns an argument from which `source_of` rebuilds this source, even after `data` has lost attributes."""
    if is_data(data) or is_hetero(data):
        return copy(data)
    return source.graph if isinstance(data, str | os.PathLike | Graph) and not source.graph.is_parted else data


def read_x(data: Any, source: Source) -> dict[str, torch.Tensor]:
    """Returns the tensors x of `data`, by type, whose memory the features of `source` may share."""
    if not (is_data(data) or is_hetero(data)):
        return {}
    read = [kind for kind, one in zip(source.schema.types, source.features, strict=True) if one is not None]
    tensors = {kind: store_of(data, kind)["x"] for kind in read}
    return {kind: x for kind, x in tensors.items() if isinstance(x, torch.Tensor) and x.layout == torch.strided}


def state_of(x: torch.Tensor) -> tuple[Any, ...]:
    """Returns what changes with the memory of `x`, or with the way that `Source` takes it.

    Torch moves a tensor into shared memory by `share_memory_`, or when it sends the tensor to another process. Users
    set `x.data`.
    """
    return x.data_ptr(), x.shape, x.dtype, x.requires_grad


def _of_data(data: Data, weight_attr: str | None, time_attr: str | None) -> Source:
    """Returns the source for `data`; labels and masks may hold any values, because only their lengths are checked."""
    if data.num_nodes is None:
        raise GraphError(f"a PyG Data must have num_nodes, got only {data.keys()}; set data.num_nodes")
    schema, features = Schema.untyped(data.num_nodes), _features(data.get("x"), data.num_nodes)
    attributes = DataAttributes(data, schema, () if features is None else ("",))
    edge_index, like = _edge_index(data, attributes.adjacencies[0])
    check_rows(data, edge_index.shape[-1])
    check_labels_and_masks(data, edge_index.shape[-1])
    if edge_index.size:
        check_edges(edge_index, data.num_nodes)
    weights = None if weight_attr is None else _weights(data, weight_attr)
    of_nodes, (times,) = times_of(data, schema, time_attr, [edge_index])
    edges = Edges.of_relations(schema, [EdgeList(edge_index[0], edge_index[1], weights, times)])
    return Source(_graph(edges, features), edges, attributes, (features,), like, True, of_nodes)


def _of_hetero(data: HeteroData, weight_attr: str | None, time_attr: str | None) -> Source:
    """Returns the source for `data`; see `_of_data`."""
    counts = {kind: _count(data[kind].num_nodes, kind) for kind in data.node_types}
    for kind, count in counts.items():
        if (rows := getattr(data[kind].get("x"), "shape", (count,))[0]) != count:
            raise GraphError(f"x of {kind!r} must have one row per node, got {rows:,} rows for num_nodes {count:,}")
    schema = Schema.of(counts, [Relation(*kind) for kind in data.edge_types])
    features = {kind: _features(data[kind].get("x"), count) if count else None for kind, count in schema.counts.items()}
    read = [kind for kind, one in features.items() if one is not None]
    attributes, stores = DataAttributes(data, schema, read), [data[key] for key in relation_keys(schema)]
    found = [_edge_index(one, known) for one, known in zip(stores, attributes.adjacencies, strict=True)]
    lists = [edge_index for edge_index, _ in found]
    _check_relations(schema, lists)
    weights: list[Any] = [None] * len(lists)
    if weight_attr is not None:
        weights = [_host(store[weight_attr]) if weight_attr in store else None for store in stores]
        if all(one is None for one in weights):
            raise UsageError(f"weight_attr must name an attribute of edges, got {weight_attr!r}; no relation has it")
    of_nodes, times = times_of(data, schema, time_attr, lists)
    edges = Edges.of_relations(
        schema, [EdgeList(*ends, *more) for ends, *more in zip(lists, weights, times, strict=True)]
    )
    likes = [like for _, like in found]
    narrow = bool(likes) and all(like.dtype == torch.int32 for like in likes)
    like = likes[0].new_empty(0, dtype=torch.int32 if narrow else torch.int64) if likes else torch.empty(0).long()
    return Source(_graph(edges), edges, attributes, tuple(features.values()), like, True, of_nodes)


def _count(count: int | None, kind: str) -> int:
    if count is None:
        raise GraphError(f"each type must have num_nodes, {kind!r} has none; set data[{kind!r}].num_nodes")
    return int(count)


def _check_relations(schema: Schema, lists: Sequence[NDArray[Any]]) -> None:
    """Checks that the ends of each relation's edges are ids within their types."""
    for relation, edge_index in zip(schema.relations, lists, strict=True):
        ends = [(kind, schema.counts[kind]) for kind in (relation.source, relation.target)]
        check_ends("__".join(relation), edge_index, ends)


def _of_stores(features: FeatureStore, graph: GraphStore, custom_cls: Any, time_attr: str | None) -> Source:
    from torch_geometric.data import Data, HeteroData

    kinds = graph.get_all_edge_attrs()
    keys = list(dict.fromkeys(kind.edge_type for kind in kinds))
    typed = keys != [None]
    counts: dict[str, int] = {}
    for kind in kinds:
        if kind.size is None or None in kind.size:
            raise GraphError(
                f"a GraphStore must know its number of nodes, got size {kind.size}; pass size to put_edge_index"
            )
        for end, size in zip((kind.edge_type[0], kind.edge_type[2]) if typed else ("", ""), kind.size, strict=True):
            counts[end] = max(counts.get(end, 0), size)
    schema = Schema.of(counts, [Relation(*key) for key in keys]) if typed else Schema.untyped(counts[""])
    # By relation: sources, pointers and the order of the store.
    parts: list[Any] = list(graph.csc()) if typed else [{"": part} for part in graph.csc()]
    found = [_listed(*(part.get(key) for part in parts)) for key in relation_keys(schema)]
    lists = [_host(edge_index) for edge_index in found]
    _check_relations(schema, lists) if typed else check_edges(lists[0], counts[""])
    of_nodes, times = times_of(features, schema, time_attr, lists)
    edges = Edges.of_relations(
        schema, [EdgeList(one[0], one[1], times=of_one) for one, of_one in zip(lists, times, strict=True)]
    )
    attributes = StoreAttributes(features, schema, custom_cls or (HeteroData if typed else Data))
    unread = (None,) * len(schema.types)
    return Source(_graph(edges), edges, attributes, unread, _like(found[0]), has_edge_ids=True, node_times=of_nodes)


def _listed(sources: torch.Tensor, indptr: torch.Tensor, order: torch.Tensor | None) -> torch.Tensor:
    """Returns the edges of a store's CSC as a list, shape (2, num_edges), in the order of the store."""
    targets = torch.arange(len(indptr) - 1).repeat_interleave(indptr.diff())
    edge_index = torch.stack([sources, targets.to(sources)])
    return edge_index if order is None else torch.empty_like(edge_index).index_copy_(1, order, edge_index)


def _edge_index(data: Any, adjacency: TransposedAdjacency | None) -> tuple[NDArray[Any], torch.Tensor]:
    """Returns the sources and targets of `data`, shape (2, num_edges), and an empty tensor of their type and device."""
    if adjacency is not None:
        edge_index = torch.stack([adjacency.sources, adjacency.targets])
    elif data.get("edge_index") is None:
        edge_index = torch.empty((2, 0), dtype=torch.int64)
    else:
        edge_index = torch.as_tensor(data.edge_index).detach().as_subclass(torch.Tensor)  # an EdgeIndex has no numpy()
    found = _host(edge_index)
    check_edge_shape(found)
    return found if found.size else np.empty((2, 0), dtype=np.int64), _like(edge_index)


def _like(edge_index: torch.Tensor) -> torch.Tensor:
    """Returns an empty tensor with the dtype of a mini-batch's ids, with which torch must be able to index."""
    return edge_index.new_empty(0, dtype=torch.int32 if edge_index.dtype == torch.int32 else torch.int64)


def _host(tensor: Any) -> NDArray[Any]:
    return tensor.detach().cpu().numpy() if isinstance(tensor, torch.Tensor) else np.asarray(tensor)


def _weights(data: Data, name: str) -> NDArray[Any]:
    if data.get(name) is None:
        raise UsageError(f"weight_attr must name an edge attribute, got {name!r}; data has {data.keys()}")
    return _host(data[name])


def _features(x: Any, num_nodes: int) -> DenseFeatures | SparseFeatures | None:
    """Returns `x` as features for tiers and caches, sharing the memory of a contiguous `x`; None if it can't be.

    Features are dense rows of finite float32 or float16 on the host without gradient, or such rows in CSR, which
    mini-batches contain as dense rows. Rows in COO stay an attribute: mini-batches keep COO, as in PyG's loaders.
    """
    if isinstance(x, torch.Tensor):
        if x.layout == torch.sparse_csr and x.device.type == "cpu" and not x.requires_grad:
            return canonical(features_of(x.clone())[0])[0]  # a clone, whose memory torch won't move (see `has_moved`)
        if x.layout != torch.strided or x.device.type != "cpu" or x.requires_grad or x.dtype == torch.bfloat16:
            return None
        x = x.numpy()
        x = x if (file := file_behind(x)) is None else file
    if not isinstance(x, np.ndarray) or x.dtype not in (np.float32, np.float16) or x.ndim != 2 or not x.shape[1]:
        return None
    return DenseFeatures(np.ascontiguousarray(x)) if len(x) == num_nodes and _is_finite(x) else None


def _is_finite(x: NDArray[np.floating]) -> bool:
    """Returns whether all of `x` is finite; needs only a few MiB, even for a memory map."""
    return all(bool(np.isfinite(x[some]).all()) for some in slices(*x.shape))


def _graph(edges: Edges, features: DenseFeatures | SparseFeatures | None = None) -> Graph:
    """Returns the graph of `edges`, without labels and training nodes; its nodes alone where there are types or times.

    Only a graph without either has its edges in the order of such a graph, and mini-batches are drawn from `edges`.
    """
    features = DenseFeatures(np.empty((edges.num_nodes, 0), dtype=np.float32)) if features is None else features
    graph = Graph.of_nodes(features)
    if not edges.schema.is_untyped or edges.times is not None:
        return graph
    indptr, indices = edges.distinct()
    return replace(graph, indptr=indptr, indices=indices)


def _are_stores(data: Any) -> bool:
    pair = isinstance(data, tuple | list) and len(data) == 2
    return pair and _is_pyg(data[0], "FeatureStore") and _is_pyg(data[1], "GraphStore")


def _is_pyg(data: Any, name: str) -> bool:
    """Returns whether `data` is of PyG's class `name`; imports nothing, because such an object implies the import."""
    pyg = sys.modules.get("torch_geometric.data")
    return pyg is not None and isinstance(data, getattr(pyg, name))


#: The time of each node, by type; types without times are missing.
NodeTimes: TypeAlias = Mapping[str, NDArray[Any]]


def times_of(
    data: Any, schema: Schema, time_attr: str | None, lists: Sequence[NDArray[Any]]
) -> tuple[NodeTimes, list[NDArray[Any] | None]]:
    """Returns the times of nodes, and when the edges of each relation can be seen; None for those without times.

    Where nodes have times, an edge can be seen as soon as its source can.

    Args:
        data: A `Data`, `HeteroData` or `FeatureStore`.
        schema: Its types and relations.
        time_attr: The attribute with the times; None if nothing has times.
        lists: The edges of each relation, shape (2, num_edges).

    Raises:
        UsageError: No type and no relation has times, or both do, or no edge comes from a node with a time; or times
            of nodes are not one number each, or one is missing.
    """
    if time_attr is None:
        return {}, [None] * len(lists)
    of_nodes = _node_times(data, schema, time_attr)
    if schema.is_untyped and of_nodes:
        own: list[NDArray[Any] | None] = [None]
    else:
        own = [_values(data, key, time_attr) for key in relation_keys(schema)]
    of_edges = any(one is not None for one in own)
    if of_nodes and of_edges:
        raise UsageError(
            f"time_attr must name an attribute of nodes or of edges, {time_attr!r} is one of both; rename one of them"
        )
    if of_edges:
        return of_nodes, own
    times = [
        of_nodes[relation.source][edges[0]] if relation.source in of_nodes else None
        for relation, edges in zip(schema.relations, lists, strict=True)
    ]
    if all(one is None for one in times):
        rule = "an attribute of nodes or of edges" if not of_nodes else "an attribute of a type with edges from it"
        raise UsageError(f"time_attr must name {rule}, got {time_attr!r}, which bounds nothing")
    return of_nodes, times


def _node_times(data: Any, schema: Schema, time_attr: str) -> NodeTimes:
    times = {kind: _values(data, kind, time_attr) for kind in schema.types}
    known = {kind: one for kind, one in times.items() if one is not None}
    # A copy, because PyG caches its answer in the data.
    if schema.is_untyped and known and hasattr(data, "is_node_attr") and not copy(data).is_node_attr(time_attr):
        return {}  # an attribute of edges, which may be as many as nodes
    return {kind: known_times("times", one, schema.counts[kind], "node") for kind, one in known.items()}


def _values(data: Any, kind: Any, name: str) -> NDArray[Any] | None:
    """Returns the attribute `name` of a type of nodes or edges; None if it has none."""
    if hasattr(data, "get_all_tensor_attrs") and not hasattr(data, "stores"):  # a feature store
        match = [one for one in data.get_all_tensor_attrs() if one.attr_name == name and (one.group_name or "") == kind]
        if not match:
            return None
        attribute = copy(match[0])
        attribute.index = None  # all rows
        values = data.get_tensor(attribute)
    else:
        values = store_of(data, kind).get(name)
    if values is None:
        return None
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)

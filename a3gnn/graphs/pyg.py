"""Converts graphs from and to `Data` of PyTorch Geometric: `from_data` and `to_data`."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.assemble import assemble, assemble_unlabeled, naming_graph
from a3gnn.graphs.edge_values import EDGE_VALUES, are_readable
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.pyg_names import elsewhere
from a3gnn.graphs.split import IDS, MASKS, SPLIT_NAMES, Split, ids_mask, masks_of, unused_splits
from a3gnn.graphs.types import Types
from a3gnn.graphs.validate import check_edge_shape, check_in_float32, num_rows
from a3gnn.units import some_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data, HeteroData, TemporalData

#: Remedies for data types that are often passed by mistake, by package and class.
REMEDIES = {
    "torch_geometric.HeteroData": "a heterogeneous graph alone is taken as it is; data.to_homogeneous() can convert it",
    "torch_geometric.TemporalData": (
        "only Loader and LinkNeighborLoader take events with times; Data(x=..., edge_index=torch.stack([data.src, "
        "data.dst]), y=...) is the graph of all events, without their times"
    ),
    "torch_geometric.Dataset": "give dataset[0]",
    "torch_geometric.DynamicInheritanceGetter": (
        "a Batch is saved as one graph by torch.save(Data.from_dict(batch.to_dict()), FILE), and a Batch of HeteroData "
        "by torch.save(batch.to_homogeneous(), FILE)"
    ),
    "collections.defaultdict": (
        "transforms like ToUndirected leave it in a Data; torch.save(Data.from_dict(data.to_dict()), FILE) drops it"
    ),
    "networkx.Graph": "torch_geometric.utils.from_networkx converts it to a Data",
    "dgl.DGLGraph": "torch_geometric.utils.from_dgl converts it to a Data; name its features x and its labels y",
    "numpy.ndarray": "a3gnn needs edges, features and labels: Data(x=..., edge_index=..., y=...) of tensors",
    "torch.Tensor": "a3gnn needs edges, features and labels: Data(x=..., edge_index=..., y=...)",
}
#: The remedy for several graphs.
_SEVERAL = (
    "several graphs train as one: Data.from_dict(Batch.from_data_list(graphs).to_dict()) joins them, with train_mask, "
    "val_mask and test_mask (a bool per node) in each"
)
#: The remedy for the file in which PyG keeps a processed data set.
_SAVED_SET = "this is a data set's processed file; load the data set in Python and save dataset[0], or give pyg:NAME"
#: Names that PyG treats as attributes of nodes, and of edges (`torch_geometric.data.storage`).
_OF_NODES = ("x", "feat", "pos", "batch", "node_type", "n_id")
_OF_EDGES = ("edge_weight", "edge_attr", "edge_type", "e_id")


def from_data(
    data: Data,
    name: str,
    source: str | None = None,
    nan_is_unlabeled: bool = False,
    split: Split | None = None,
) -> GraphArrays:
    """Returns the graph in `data`: x, edge_index, y, values of edges, and masks from its masks and ids (`masks_of`).

    Args:
        data: Its x may be dense or sparse and of any real type; y holds classes or values, of shape (N,) or (N, 1), or
            rows of 0 and 1.
        name: Shown to users.
        source: Identity of the file that `data` was read from.
        nan_is_unlabeled: Whether y may hold classes as floats, NaN for unlabeled, as OGB writes it.
        split: Replaces the graph's own split.

    Raises:
        GraphError: `data` lacks x, edge_index or y, or is not valid.
    """
    with naming_graph(name):
        data = as_data(data)
        x, edge_index, y = (_tensor_of(data, attribute) for attribute in ("x", "edge_index", "y"))
        edges = array_of("edge_index", edge_index)
        check_edge_shape(edges)
        check_rows(data, edges.shape[1])
        features, feature_notes = features_of(x)
        labels = _labels(y, nan_is_unlabeled)
        masks, mask_notes = masks_of(lambda kind: _optional(data, kind), labels, num_rows(features), split)
        values = edge_values_of(data)
    notes = (*feature_notes, *mask_notes, *left_out(data, values))
    return assemble(name, edges, features, labels, masks, notes, source, values)


def from_unlabeled(data: Data, name: str) -> GraphArrays:
    """Returns the graph in x, edge_index and values of edges of `data`; its nodes have no labels and no split.

    Raises:
        GraphError: `data` lacks x or edge_index, or is not valid.
    """
    with naming_graph(name):
        data = as_data(data)
        x, edge_index = (_tensor_of(data, attribute, "x and edge_index") for attribute in ("x", "edge_index"))
        edges = array_of("edge_index", edge_index)
        check_edge_shape(edges)
        check_rows(data, edges.shape[1])
        features, notes = features_of(x)
        values = edge_values_of(data)
    return assemble_unlabeled(name, edges, features, (*notes, *left_out(data, values)), values)


def as_data(data: Any) -> Data:
    """Returns `data`, which must be a `Data`; one that a PyG before 2.0 has pickled gets its present form.

    Raises:
        GraphError: `data` is something else; the message says what to do.
    """
    from torch_geometric.data import Data

    if not isinstance(data, Data):
        raise GraphError(f"a graph must be a PyG Data, got {type(data).__name__}{remedy_for(data)}")
    if "_store" in vars(data):
        return data
    return Data(**{name: value for name, value in vars(data).items() if value is not None and name[:2] != "__"})


def is_hetero(data: Any) -> TypeGuard[HeteroData]:
    """Returns whether `data` is a `HeteroData`; imports nothing, because such an object implies the import."""
    pyg = sys.modules.get("torch_geometric.data")
    return pyg is not None and isinstance(data, pyg.HeteroData)


def typed_of(data: Any) -> Data | HeteroData | None:
    """Returns data of several types, or of events with times, as a `HeteroData` or `Data`; None for other data.

    Raises:
        GraphError: Events lack their ends or times, or have attributes of different lengths.
    """
    from torch_geometric.data import Data, HeteroData, TemporalData

    if isinstance(data, HeteroData):
        return data
    if isinstance(data, TemporalData):
        return _of_events(data)
    dicts = ("x_dict", "edge_index_dict", "num_nodes_dict")  # OGB's form
    if not isinstance(data, Data) or not any(name in vars(data).get("_store", ()) for name in dicts):
        return None
    found = HeteroData()
    for name, values in data.to_dict().items():
        for kind, value in values.items() if isinstance(values, Mapping) else ():
            attribute = name.removesuffix("_dict").removeprefix("node_")
            flat = attribute == "y" and value.ndim == 2 and value.shape[1] == 1
            found[kind][attribute] = value.reshape(-1) if flat else value
    return found


def _of_events(events: TemporalData) -> Data:
    """Returns events as edges: `t` becomes `time`, `msg` edge_attr, and other values of events begin with edge_.

    Nodes are counted up to the largest id. PyG takes an attribute for one of nodes if events are as many as nodes and
    its name lacks edge, so the times are called edge_time then.
    """
    import torch
    from torch_geometric.data import Data

    values, names = events.to_dict(), {"t": "time", "msg": "edge_attr"}
    for name in ("src", "dst", "t"):
        if not isinstance(values.get(name), torch.Tensor) or values[name].ndim != 1:
            got = "none" if values.get(name) is None else type(values[name]).__name__
            raise GraphError(f"a TemporalData must have src, dst and t, a number per event each, got {got} as {name}")
    number = len(values["src"])
    for name in ("dst", "t", "msg", "y"):
        if (shape := tuple(getattr(values.get(name), "shape", (number,))))[:1] != (number,):
            raise GraphError(f"{name} must have one row per event, got shape {shape} for {number:,} events")
    ends = torch.stack([values.pop("src"), values.pop("dst")])
    nodes = values.pop("num_nodes", int(ends.max()) + 1 if number else 0)
    names |= {"t": "edge_time"} if nodes == number else {}
    data = Data(edge_index=ends, num_nodes=nodes)
    for name, value in values.items():
        of_event = isinstance(value, torch.Tensor) and value.ndim > 0 and len(value) == number
        data[names.get(name, f"edge_{name}" if of_event and "edge" not in name else name)] = value
    return data


def remedy_for(data: object) -> str:
    """Returns the remedy for data of another type than PyG's `Data`, after a semicolon; "" for unknown types."""
    if isinstance(data, list | tuple) and data:
        return f"{remedy_for(data[0])}; {_SEVERAL}" if len(set(map(type, data))) == 1 else f"; {_SAVED_SET}"
    if isinstance(data, Mapping):
        has = some_of(list(data))
        return f"; Data.from_dict(...) makes one of a dict with x, edge_index and y; this one has {has or 'nothing'}"
    names = [f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(data).__mro__]
    return next((f"; {REMEDIES[name]}" for name in names if name in REMEDIES), "")


def to_data(graph: GraphArrays) -> Data | HeteroData:
    """Returns a `Data` from which `from_data` makes the same graph, except that float16 features become float32.

    Its tensors are writable copies. x is float32, dense or sparse CSR; edge_index is int64, by target; edge_attr and
    edge_weight, if the graph has them, are float32; masks are bool. y is int64 (classes, or rows of 0 and 1) or float32
    (values). With types it is a `HeteroData`.
    """
    import torch
    from torch_geometric.data import Data

    if graph.links is not None:
        raise UsageError(f"{graph.name} has links to predict, which its HeteroData would lose; read its file with PyG")
    if graph.types is not None:
        return _to_hetero(graph, graph.types)
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    labels = graph.labels if graph.target == "values" else graph.labels.astype(np.int64)
    data = Data(
        x=feature_tensor(graph.features),
        edge_index=torch.from_numpy(np.stack([graph.indices.astype(np.int64), targets])),
        y=torch.from_numpy(np.array(labels)),
        num_nodes=graph.num_nodes,
        **{name: torch.from_numpy(np.array(array)) for name, array in graph.edge_values.items()},
    )
    for mask, ids in zip(MASKS, (graph.train_ids, graph.val_ids, graph.test_ids), strict=True):
        data[mask] = torch.zeros(graph.num_nodes, dtype=torch.bool)
        data[mask][torch.from_numpy(ids.astype(np.int64))] = True
    return data


def _to_hetero(graph: GraphArrays, types: Types) -> HeteroData:
    import torch
    from torch_geometric.data import HeteroData

    data, schema = HeteroData(), types.schema
    for kind, features, number in zip(schema.types, types.features, schema.num_nodes, strict=True):
        data[kind].num_nodes = number
        if features is not None:
            data[kind].x = feature_tensor(features)
    owners = np.repeat(np.arange(schema.num_rows), np.diff(types.rows))
    for place, relation in enumerate(schema.relations):
        rows = schema.rows(place, np.arange(schema.counts[relation.target]))
        edges = np.flatnonzero(np.isin(owners, rows))
        targets = np.searchsorted(rows, owners[edges])
        sources = graph.indices[edges].astype(np.int64) - schema.first_node(relation.source)
        store = data[tuple(relation)]
        store.edge_index = torch.from_numpy(np.stack([sources, targets]))
        for name, values in graph.edge_values.items():
            if columns := types.edge_columns[name][place]:
                store[name] = torch.from_numpy(values[edges, :columns] if values.ndim == 2 else values[edges])
    store, first, last = data[types.target], types.first, types.first + types.num_targets
    labels = graph.labels[first:last]
    store.y = torch.from_numpy(np.array(labels if graph.target == "values" else labels.astype(np.int64)))
    for mask, ids in zip(MASKS, (graph.train_ids, graph.val_ids, graph.test_ids), strict=True):
        store[mask] = torch.from_numpy(ids_mask(ids - first, types.num_targets))
    return data


def left_out(data: Data, read: Collection[str]) -> tuple[str, ...]:
    """Returns notes on the edge attributes of `data` that are not `read`, and on splits that are unused."""
    names = sorted({*edge_attributes(data)} - {*read})
    others = (name for name in data.to_dict() if name not in SPLIT_NAMES)
    on_splits = unused_splits(name for name in others if name != "split_idx" or not isinstance(data[name], Mapping))
    if not names:
        return on_splits
    are = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not used"
    return (f"{are}: of edges, a3gnn reads numbers in {' and '.join(EDGE_VALUES)}", *on_splits)


def edge_values_of(data: Any) -> dict[str, NDArray[Any]]:
    """Returns the values of edges in `data`, or in a relation of it, by name, that have a readable form."""
    import torch

    found = {name: data.get(name) for name in EDGE_VALUES}
    tensors = {name: one.detach().cpu() for name, one in found.items() if isinstance(one, torch.Tensor)}
    dense = {name: one for name, one in tensors.items() if one.layout is torch.strided and not one.is_complex()}
    arrays = {name: array_of(name, one.float() if one.is_floating_point() else one) for name, one in dense.items()}
    return {name: array for name, array in arrays.items() if are_readable(name, array)}


def edge_attributes(data: Data) -> list[str]:
    """Returns the sorted names of the edge attributes in `data`, without edge_index."""
    asked = copy(data)  # PyG caches the answers in the object, and torch.save would store them
    return sorted(name for name in asked.keys() if name != "edge_index" and asked.is_edge_attr(name))  # noqa: SIM118


def features_of(x: Tensor) -> tuple[DenseFeatures | SparseFeatures, tuple[str, ...]]:
    """Returns the features of a dense or sparse tensor; a dtype that can't be stored becomes float32, with a note."""
    import torch

    if x.dtype.is_complex:
        raise GraphError(f"x must be real, got {x.dtype}; use torch.view_as_real(data.x).flatten(1)")
    notes: tuple[str, ...] = ()
    if x.dtype not in (torch.float32, torch.float16):
        notes = (f"features were {str(x.dtype).removeprefix('torch.')}; they are stored as float32",)
        x = _in_float32(x)
    if x.layout == torch.strided:
        return DenseFeatures(x.numpy()), notes
    if x.layout == torch.sparse_csr:
        indptr, indices, values = x.crow_indices().numpy(), x.col_indices().numpy(), x.values().numpy()
    elif x.layout == torch.sparse_coo:
        x = x.coalesce()  # sorts by row
        indices, values = x.indices()[1].numpy(), x.values().numpy()
        indptr = np.searchsorted(x.indices()[0].numpy(), np.arange(x.shape[0] + 1))
    else:
        raise GraphError(f"x must be dense, sparse COO or sparse CSR, got {x.layout}; use x.to_sparse_csr()")
    return SparseFeatures(values, indices, indptr, (x.shape[0], x.shape[1])), notes


def check_rows(data: Data, num_edges: int) -> None:
    """Checks that each attribute with a name of `_OF_NODES` or `_OF_EDGES` has a row per node or edge.

    Raises:
        GraphError: An attribute has another number of rows, such as x with fewer rows than num_nodes.
    """
    num_nodes = data.num_nodes
    for name in _OF_NODES:
        if (rows := _rows(data, name)) not in (None, num_nodes):
            raise GraphError(
                f"{name} must have one row per node, got {rows:,} rows for num_nodes {num_nodes:,}. Append rows to "
                f"{name} for the other nodes, such as zeros, or set data.num_nodes to {rows}"
            )
    for name in _OF_EDGES:
        if (rows := _rows(data, name)) not in (None, num_edges):
            raise GraphError(
                f"{name} must have one row per edge, got {rows:,} rows for {num_edges:,} edges; give edge_index and "
                f"{name} the same edges, or delete data.{name}"
            )


def check_labels_and_masks(data: Data, num_edges: int) -> None:
    """Checks that y and masks have a value per node or per edge; y may also have one row, for the whole graph.

    Raises:
        GraphError: An attribute has another length.
    """
    num_nodes = data.num_nodes
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        allowed = (None, num_nodes, num_edges, *((1,) if name == "y" else ()))
        if (rows := _rows(data, name)) not in allowed:
            raise GraphError(
                f"{name} must have one value per node, got {rows:,} for num_nodes {num_nodes:,}; give each node one, "
                f"or delete data.{name}"
            )


def _rows(data: Data, name: str) -> int | None:
    """Returns the length of the attribute `name` along the dimension that PyG counts by; None without a length."""
    value: Any = data.get(name)
    shape = getattr(value, "shape", None)
    if shape is None or not len(shape):
        return None
    dim = data.__cat_dim__(name, value)
    return int(shape[dim]) if isinstance(dim, int) else None


def feature_tensor(features: DenseFeatures | SparseFeatures) -> Tensor:
    """Returns features as a float32 tensor, dense or sparse CSR."""
    import torch

    from a3gnn.storage.csr_tensor import csr

    if isinstance(features, DenseFeatures):
        return torch.from_numpy(np.array(features.array, dtype=np.float32))
    indptr, indices = (torch.from_numpy(array.astype(np.int64)) for array in (features.indptr, features.indices))
    values = torch.from_numpy(np.array(features.data, dtype=np.float32))
    return csr(indptr, indices, values, features.shape)


def _tensor_of(data: Data, attribute: str, needed: str = "x, edge_index and y") -> Tensor:
    """Returns an attribute's tensor on the host; the error lists the attributes that are `needed`."""
    import torch

    value = getattr(data, attribute, None)
    if value is None:
        raise GraphError(f"a PyG Data must have {needed}, but it lacks {attribute}{_instead(data, attribute)}")
    if not isinstance(value, torch.Tensor):
        remedy = "torch.as_tensor converts an array"
        if np.asarray(value).dtype.kind in "OSU":  # such as a list of text
            remedy = (
                "torch.as_tensor(pandas.factorize(y)[0]) numbers the classes" if attribute == "y" else "give numbers"
            )
        raise GraphError(f"{attribute} must be a tensor, got {type(value).__name__}; {remedy}")
    return value.detach().cpu()


def _instead(data: Data, attribute: str) -> str:
    """Returns what `data` has in place of a missing attribute, with the remedy; "" without such."""
    if attribute == "edge_index" and getattr(data, "adj_t", None) is not None:
        return "; it has adj_t: leave out the transform ToSparseTensor"
    other = elsewhere(data.to_dict(), attribute)
    if other is not None:
        return f"; set data.{attribute} = data.{other}"
    constant = "; nodes without features can have a constant: torch_geometric.transforms.Constant()(data)"
    return constant if attribute == "x" else ""


def _optional(data: Data, name: str) -> NDArray[Any] | None:
    """Returns a part of the split of `data`, such as train_mask, or split_idx[train]; None if there is none."""
    import torch

    if name in (*MASKS, *chain(*IDS)):
        return None if data.get(name) is None else array_of(name, _tensor_of(data, name))
    place, entry, key = name.partition("[")
    value: Any = data.get(place)
    if entry:
        value = value.get(key.removesuffix("]")) if isinstance(value, Mapping) else None
    if not isinstance(value, torch.Tensor | np.ndarray):
        return None  # an attribute of another meaning
    try:
        return array_of(name, torch.as_tensor(value).detach().cpu())
    except (GraphError, TypeError):
        return None


def array_of(name: str, tensor: Tensor) -> NDArray[Any]:
    """Returns the array of a dense tensor; a subclass such as `EdgeIndex` is stripped, because it has no array.

    Raises:
        GraphError: NumPy has no such dtype, or the layout is not dense.
    """
    import torch

    try:
        return tensor.detach().as_subclass(torch.Tensor).numpy()
    except (TypeError, RuntimeError) as error:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise GraphError(f"{name} must be dense and of a type that NumPy has, got {kind} {tensor.layout}") from error


def _in_float32(x: Tensor) -> Tensor:
    """Returns `x` as float32.

    Raises:
        GraphError: A value is beyond float32's range.
    """
    import torch

    narrow = x.float()
    if x.dtype is torch.float64 and x.layout in (torch.strided, torch.sparse_coo, torch.sparse_csr):
        check_in_float32("x", _stored(x), _stored(narrow))
    return narrow


def _stored(x: Tensor) -> NDArray[Any]:
    """Returns the values that a dense or sparse tensor stores."""
    import torch

    values: NDArray[Any] = (
        x.numpy() if x.layout == torch.strided else (x.coalesce() if x.is_sparse else x).values().numpy()
    )
    return values


def _labels(y: Tensor, nan_is_unlabeled: bool) -> NDArray[Any]:
    """Returns `y` as integers or floats of one dimension, or rows. Floats that are whole may be measured: values."""
    import torch

    if y.dtype == torch.bfloat16:
        y = y.float()
    if y.ndim == 2 and y.shape[1] != 1:
        return array_of("y", y)
    if y.layout != torch.strided:
        raise GraphError(f"y must be dense, got {y.layout}; use y.to_dense()")
    flat = y.reshape(-1) if y.ndim == 2 else y
    if nan_is_unlabeled and flat.is_floating_point():
        whole = torch.nan_to_num(flat, nan=-1.0)
        flat = whole.long() if torch.equal(whole, whole.round()) else flat
    if flat.dtype == torch.bool or flat.is_complex():
        raise GraphError(
            "y must be integers (classes), floats (values) or rows of 0 and 1 (several labels per node), got "
            f"{str(flat.dtype).removeprefix('torch.')}; for classes, set data.y = data.y.long()"
        )
    return flat.numpy()

"""Graphs of several node types and relations, or with times: reading them from files, and what they consist of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from a3gnn.errors import A3GNNError, GraphError, nearest
from a3gnn.graphs import npz, pyg_sets
from a3gnn.graphs.assemble import canonical, naming_graph
from a3gnn.graphs.data_folder import load_data
from a3gnn.graphs.features import SparseFeatures
from a3gnn.graphs.folder import has_data
from a3gnn.graphs.load import expanded
from a3gnn.graphs.pyg import array_of, edge_attributes, typed_of
from a3gnn.graphs.schema import Relation, Schema
from a3gnn.graphs.split import MASKS
from a3gnn.graphs.validate import check_edge_shape, check_ends, check_features
from a3gnn.units import count, printable, some_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data, HeteroData

    from a3gnn.graphs.draft import Draft

#: Arrays of a node type in a file, and of a relation, with their names in PyG.
_OF_NODES = {"x": "x", "y": "y", "node_time": "time", **{mask: mask for mask in MASKS}}
_OF_EDGES = {
    "edge_index": "edge_index",
    "edge_time": "time",
    **{name: name for name in ("edge_weight", "edge_attr", "edge_y", "edge_y_reg", "edge_split")},
}
_SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")
#: Attributes that a reverse relation shares. Targets are left out, so that each is predicted once.
_SHARED = ("time", "edge_weight", "edge_attr", "edge_split")


def read_typed(path: Path, reverse: bool = False) -> Data | HeteroData:
    """Returns the graph in an .npz file with `node_types`, in RAM; `docs/reference/data_formats.md` has the layout.

    Args:
        path: The file.
        reverse: Whether to add a relation `rev_NAME` for each relation, with the same times, weights and attributes.

    Returns:
        A `HeteroData`, or a `Data` for one type and one relation. Times are called `time`.

    Raises:
        GraphError: The file is truncated or foreign, or its graph is not valid.
    """
    from torch_geometric.data import Data

    found = read_hetero(path)
    for source, name, target in found.edge_types if reverse else ():
        store, mirror = found[source, name, target], found[target, f"rev_{name}", source]
        mirror.edge_index = store.edge_index.flip(0)
        for key in _SHARED:
            if key in store:
                mirror[key] = store[key]
    if len(found.node_types) > 1 or len(found.edge_types) != 1 or "time" in found.node_stores[0]:
        return found
    return Data(**found.node_stores[0].to_dict(), **found.edge_stores[0].to_dict())


def read_hetero(path: Path) -> HeteroData:
    """Returns the graph in an .npz file as `read_typed` does, as a `HeteroData` in any case."""
    with npz.readable(path), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = {name: npz.member(name, archive) for name in archive.files}
    return hetero_of(arrays, path)


def hetero_of(arrays: dict[str, NDArray[Any]], path: Path, draft: Draft | None = None) -> HeteroData:
    """Returns the graph in the arrays of the .npz file at `path`, and takes them out of `arrays`.

    Args:
        arrays: The arrays by name.
        path: The file, for messages.
        draft: Takes arrays of other types and order in scratch files, so that memory maps stay on disk; None makes
            them in RAM.

    Raises:
        GraphError: The graph is not valid.
    """
    from torch_geometric.data import HeteroData

    with naming_graph(printable(path.stem)):
        numbers, relations = _types(arrays)
        found = HeteroData()
        for kind, number in numbers.items():
            values = _taken(arrays, kind, (*_OF_NODES, *_SPARSE))
            sparse = {name: values.pop(name) for name in _SPARSE if name in values}
            found[kind].num_nodes = number
            if sparse and "x" not in values:
                found[kind].x = _sparse(sparse, kind, number, path, draft)
            _check_lengths(values, kind, number, "node")
            _check_masks(values, kind)
            for name, array in values.items():
                found[kind][_OF_NODES[name]] = _tensor(f"{name}__{kind}", array, draft)
        for relation in relations:
            called = "__".join(relation)
            values = _taken(arrays, called, tuple(_OF_EDGES))
            edges = _edges(values, called, [(kind, numbers[kind]) for kind in relation[::2]])
            _check_lengths(values, called, edges.shape[1], "edge")
            found[relation].edge_index = _tensor(f"edge_index__{called}", edges, draft, np.int64)
            for name, array in values.items():
                found[relation][_OF_EDGES[name]] = _tensor(f"{name}__{called}", array, draft)
        if arrays:
            known = [f"{name}__{of}" for of in numbers for name in _OF_NODES]
            known += [f"{name}__{'__'.join(of)}" for of in relations for name in _OF_EDGES]
            name = min(arrays)
            raise GraphError(
                f"each array must belong to a type or relation of the file, got {name}{nearest(name, known)}"
            )
    return found


def typed_graph(spec: str, mapped: bool = False) -> Data | HeteroData | None:
    """Returns the graph in an .npz file with `node_types`, or of types or events in a folder or a .pt file.

    Args:
        spec: A path; for any other spec the result is None.
        mapped: Whether the tensors of a .pt file are maps of it. Those of a folder always are.

    Raises:
        GraphError: The file or folder can't be read, or its graph is not valid.
    """
    try:
        path = expanded(spec)
        if has_data(path):
            return load_data(path)
        if not path.is_file():
            return None
    except (A3GNNError, OSError) as error:  # such as an unknown home folder, or a name that is too long
        if isinstance(error, GraphError):
            raise
        return None
    if path.suffix == ".npz":
        return read_hetero(path) if "node_types" in npz.array_names(path) else None
    if path.suffix not in (".pt", ".pth"):
        return None
    # Whoever reads a file of another class reads it again, so its tensors stay unread here.
    data = typed_of(pyg_sets.unpickled(path, mapped=True)[0])
    return data if mapped or data is None else typed_of(pyg_sets.unpickled(path)[0])


def describe_typed(data: Data | HeteroData) -> dict[str, Any]:
    """Returns the figures of each node type and relation: how many, mean in-degree, features, range of times.

    `notes` has remarks for users. A `Data` has the type `node`, with a relation `to` itself.
    """
    data, numbers = counted(data)
    types = {kind: {"nodes": number, **_described(data[kind])} for kind, number in numbers.items()}
    relations = {
        " ".join(store._key): {
            "edges": store.edge_index.shape[1],
            "mean_degree": store.edge_index.shape[1] / max(numbers[store._key[2]], 1),
            **_described(store),
        }
        for store in data.edge_stores
    }
    return {"node_types": types, "relations": relations, "notes": _notes(data, numbers.keys())}


def check_typed(data: Data | HeteroData) -> None:
    """Checks the types, ids and lengths in `data` on which loaders rely.

    Raises:
        GraphError: A rule is broken.
    """
    data, numbers = counted(data)
    known = {kind: numbers.get(kind, 0) for kind in data.node_types}
    Schema.of(known, [Relation(*key) for key in data.edge_types])  # which knows the types of relations
    for store in data.node_stores:
        _check_lengths(_among(store, ("x", "time", *MASKS)), store._key, known[store._key], "node")
    for store in data.edge_stores:
        called, edges = "__".join(store._key), array_of("edge_index", store.edge_index.detach().cpu())
        check_ends(called, edges, [(kind, known[kind]) for kind in store._key[::2]])
        _check_lengths(_among(store, ("time", "edge_attr", "edge_weight")), called, edges.shape[1], "edge")


def _among(store: Any, names: Collection[str]) -> dict[str, Any]:
    return {name: store[name] for name in names if hasattr(store.get(name), "shape")}


def counted(data: Data | HeteroData) -> tuple[HeteroData, dict[str, int]]:
    """Returns `data` with types and an edge_index per relation, and the number of nodes of each type that it tells.

    Raises:
        GraphError: An edge_index is not of integers and shape (2, num_edges).
    """
    import torch

    numbers: dict[str, int] = {}
    data = _as_hetero(data)
    for store in data.edge_stores:
        if "edge_index" not in store and "adj_t" in store:
            store.edge_index = store.adj_t.to_sparse_coo().indices().flip(0)
        elif "edge_index" not in store or not store.edge_index.numel():
            store.edge_index = torch.empty((2, 0), dtype=torch.int64)
        check_edge_shape(array_of("edge_index", store.edge_index.detach().cpu()))
        for end, row in zip((0, 2), store.edge_index, strict=True):
            numbers[store._key[end]] = max(numbers.get(store._key[end], 0), int(row.max()) + 1 if len(row) else 0)
    numbers |= {kind: data[kind].x.shape[0] for kind in data.node_types if "x" in data[kind]}
    numbers |= {kind: number for kind in data.node_types if (number := data[kind].get("num_nodes")) is not None}
    return data, numbers


def _as_hetero(data: Data | HeteroData) -> HeteroData:
    """Returns `data` with types, sharing its tensors; `data` itself stays as it is."""
    from torch_geometric.data import HeteroData

    if isinstance(data, HeteroData):
        return copy(data)
    found, of_edges = HeteroData(), {"edge_index", *edge_attributes(data)}
    found["node"].num_nodes = data.num_nodes
    for name, value in data.to_dict().items():
        (found["node", "to", "node"] if name in of_edges else found["node"])[name] = value
    return found


def _notes(data: HeteroData, types: Collection[str]) -> list[str]:
    """Returns remarks on relations that times don't bound, on relations without edges, and on isolated types."""
    stores = {store._key: store for store in data.edge_stores}
    timed = {kind for kind in data.node_types if "time" in data[kind]}
    of_edges = any("time" in store for store in stores.values())
    unbounded = [key for key, store in stores.items() if not ("time" in store if of_edges else key[0] in timed)]
    empty = [key for key, store in stores.items() if not store.edge_index.numel()]
    ends = {end for key in stores if key not in empty for end in (key[0], key[2])}
    found: list[tuple[str, list[Any], int]] = [
        ("relations without times, which loaders do not bound", unbounded if of_edges or timed else [], len(stores)),
        ("relations without edges", empty, len(stores)),
        ("types without an edge", [(kind,) for kind in types if kind not in ends], len(types)),
    ]
    return [
        f"{what} ({len(names)} of {total}): {some_of([' '.join(name) for name in names])}"
        for what, names, total in found
        if names
    ]


def _described(store: Any) -> dict[str, Any]:
    """Returns the columns of features, the first and last time, and the names of other attributes."""
    found: dict[str, Any] = {}
    if "x" in store:
        found["features"] = store.x.shape[1] if store.x.ndim > 1 else 1
    if "time" in store and store.time.numel():
        found["times"] = [store.time.min().item(), store.time.max().item()]
    others = sorted({*store.keys()} - {"x", "time", "edge_index", "num_nodes"})
    return found | ({"attributes": others} if others else {})


def _types(arrays: dict[str, NDArray[Any]]) -> tuple[dict[str, int], list[tuple[str, str, str]]]:
    """Returns the nodes of each type, and the relations; takes both out of `arrays`.

    Raises:
        GraphError: They are missing or not valid.
    """
    missing = [name for name in ("node_types", "num_nodes", "edge_types") if name not in arrays]
    if missing:
        raise GraphError(f"a file of typed nodes must have node_types, num_nodes and edge_types, it lacks {missing[0]}")
    kinds, numbers, called = (arrays.pop(name) for name in ("node_types", "num_nodes", "edge_types"))
    if len({*kinds.tolist()}) != len(kinds) or kinds.dtype.kind != "U" or not len(kinds):
        raise GraphError(f"node_types must be different names, got {kinds.dtype} {kinds.tolist()}")
    if numbers.shape != kinds.shape or numbers.dtype.kind not in "iu" or numbers.min() < 0:
        raise GraphError(
            f"num_nodes must be an integer >= 0 for each of {len(kinds)} node_types, got {numbers.tolist()}"
        )
    relations = [tuple(str(name).split("__")) for name in called.tolist()]
    for relation in relations:
        if len(relation) != 3 or not {relation[0], relation[2]} <= {*kinds.tolist()} or relations.count(relation) > 1:
            known = ", ".join(kinds.tolist())
            raise GraphError(
                f"edge_types must be different names SOURCE__RELATION__TARGET of the types {known}, got "
                f"{'__'.join(relation)}; rename it, or add its types to node_types"
            )
    return dict(zip(kinds.tolist(), numbers.tolist(), strict=True)), relations  # type: ignore[return-value]


def _taken(arrays: dict[str, NDArray[Any]], of: str, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Takes the arrays `NAME__OF` out of `arrays`, and returns them by name."""
    return {name: arrays.pop(f"{name}__{of}") for name in names if f"{name}__{of}" in arrays}


def _check_lengths(values: Mapping[str, NDArray[Any]], of: str, number: int, row: str) -> None:
    for name, array in values.items():
        if array.ndim == 0 or array.shape[0] != number:
            raise GraphError(
                f"{name}__{of} must have a row per {row}, got shape {tuple(array.shape)} for {count(number, row)}; "
                f"give each {row} one, in the same order"
            )


def _check_masks(values: Mapping[str, NDArray[Any]], kind: str) -> None:
    masks = [name for name in MASKS if name in values]
    for name in masks:
        if values[name].dtype != np.bool_:
            raise GraphError(f"{name}__{kind} must be bool, got {values[name].dtype}; use astype(bool)")
    both = sum(values[name].astype(np.int64) for name in masks) if masks else np.zeros(0)
    if np.max(both, initial=0) > 1:
        raise GraphError(
            f"masks of {kind} must not overlap, but {int(np.sum(both > 1)):,} nodes are in several, such as "
            f"{int(np.argmax(both))}; let each node be in one"
        )


def _tensor(name: str, array: NDArray[Any], draft: Draft | None, dtype: DTypeLike | None = None) -> Tensor:
    """Returns `array` as a tensor of `dtype`, by default its own in the machine's byte order.

    Raises:
        GraphError: Torch has no such dtype.
    """
    import torch

    kind = array.dtype.newbyteorder("=") if dtype is None else np.dtype(dtype)
    try:
        torch.from_numpy(np.empty(0, dtype=kind))
    except TypeError:
        raise GraphError(
            f"{name} must hold numbers of a type that torch has, got {array.dtype}; astype('int64') converts dates, too"
        ) from None
    return torch.from_numpy(array.astype(kind, copy=False) if draft is None else draft.cast(array, kind))


def _sparse(parts: Mapping[str, NDArray[Any]], kind: str, number: int, path: Path, draft: Draft | None) -> Tensor:
    """Returns the tensor of sparse features of a node type."""
    from a3gnn.storage.csr_tensor import csr

    if missing := [name for name in _SPARSE if name not in parts]:
        raise GraphError(f"sparse features of {kind} need {', '.join(_SPARSE)}, they lack {missing[0]}__{kind}")
    with naming_graph(kind):
        features = npz.features_in(parts, path)
        check_features(features)
        assert isinstance(features, SparseFeatures)
    if features.shape[0] != number:
        raise GraphError(f"x_shape__{kind} must begin with the {count(number, 'node')} of {kind}, got {features.shape}")
    if number:
        rows = canonical(features)[0] if draft is None else draft.canonical(features)
        assert isinstance(rows, SparseFeatures)
        features = rows
    indptr = _tensor(f"x_indptr__{kind}", features.indptr, draft, np.int64)
    indices = _tensor(f"x_indices__{kind}", features.indices, draft, np.int64)
    values = _tensor(f"x_data__{kind}", features.data, draft, np.float32)
    return csr(indptr, indices, values, features.shape)


def _edges(values: dict[str, NDArray[Any]], called: str, ends: list[tuple[str, int]]) -> NDArray[Any]:
    """Takes the edges of a relation out of `values`, and returns them."""
    if "edge_index" not in values:
        raise GraphError(f"the relation {called} needs edge_index__{called}, got none; leave it out of edge_types")
    edges = values.pop("edge_index")
    check_edge_shape(edges)
    edges = edges.reshape(2, -1)
    check_ends(called, edges, ends)
    return edges

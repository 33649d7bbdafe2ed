"""Graphs of several node types and relations: `read_typed` reads an .npz file of them, `describe_typed` counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError, nearest
from a3gnn.graphs import npz, pyg_sets
from a3gnn.graphs.assemble import naming_graph
from a3gnn.graphs.pyg import feature_tensor
from a3gnn.graphs.split import MASKS
from a3gnn.graphs.validate import check_edge_shape, check_ends, check_features
from a3gnn.units import count, printable

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

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
    import torch
    from torch_geometric.data import HeteroData

    with npz.readable(path), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = {name: npz.member(name, archive) for name in archive.files}
    with naming_graph(printable(path.stem)):
        numbers, relations = _types(arrays)
        found = HeteroData()
        for kind, number in numbers.items():
            values = _taken(arrays, kind, (*_OF_NODES, *_SPARSE))
            sparse = {name: values.pop(name) for name in _SPARSE if name in values}
            found[kind].num_nodes = number
            if sparse and "x" not in values:
                found[kind].x = _sparse(sparse, kind, number, path)
            _check_lengths(values, kind, number, "node")
            _check_masks(values, kind)
            for name, array in values.items():
                found[kind][_OF_NODES[name]] = torch.from_numpy(array)
        for relation in relations:
            called = "__".join(relation)
            values = _taken(arrays, called, tuple(_OF_EDGES))
            edges = _edges(values, called, [(kind, numbers[kind]) for kind in relation[::2]])
            _check_lengths(values, called, edges.shape[1], "edge")
            found[relation].edge_index = torch.from_numpy(edges.astype(np.int64, copy=False))
            for name, array in values.items():
                found[relation][_OF_EDGES[name]] = torch.from_numpy(array)
        if arrays:
            known = [f"{name}__{of}" for of in numbers for name in _OF_NODES]
            known += [f"{name}__{'__'.join(of)}" for of in relations for name in _OF_EDGES]
            name = min(arrays)
            raise GraphError(
                f"each array must belong to a type or relation of the file, got {name}{nearest(name, known)}"
            )
    return found


def typed_graph(spec: str) -> HeteroData | None:
    """Returns the graph in an .npz file with `node_types`, or the `HeteroData` in a .pt file; None for another spec."""
    from torch_geometric.data import HeteroData

    path = Path(spec).expanduser()
    if path.suffix == ".npz" and path.is_file():
        with npz.readable(path), np.load(path, allow_pickle=False) as archive:
            has_types = "node_types" in archive.files
        return read_hetero(path) if has_types else None
    if path.suffix not in (".pt", ".pth") or not path.is_file():
        return None
    # Whoever reads a file of another class reads it again, so its tensors stay unread here.
    is_typed = isinstance(pyg_sets.unpickled(path, mapped=True)[0], HeteroData)
    return pyg_sets.unpickled(path)[0] if is_typed else None


def describe_typed(data: HeteroData) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns the figures of each node type and relation: how many, mean in-degree, features, range of times."""
    numbers: dict[str, int] = {}
    for store in data.edge_stores:
        for end, row in zip((0, 2), store.edge_index, strict=True):
            numbers[store._key[end]] = max(numbers.get(store._key[end], 0), int(row.max()) + 1 if len(row) else 0)
    numbers |= {kind: number for kind in data.node_types if (number := data[kind].get("num_nodes")) is not None}
    numbers |= {kind: data[kind].x.shape[0] for kind in data.node_types if "x" in data[kind]}
    types = {kind: {"nodes": number, **_described(data[kind])} for kind, number in numbers.items()}
    relations = {
        " ".join(store._key): {
            "edges": store.edge_index.shape[1],
            "mean_degree": store.edge_index.shape[1] / max(numbers[store._key[2]], 1),
            **_described(store),
        }
        for store in data.edge_stores
    }
    return {"node_types": types, "relations": relations}


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
                f"{name}__{of} must have a row per {row}, got shape {array.shape} for {count(number, row)}; give each "
                f"{row} one, in the same order"
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


def _sparse(parts: Mapping[str, NDArray[Any]], kind: str, number: int, path: Path) -> Any:
    """Returns the tensor of sparse features of a node type."""
    if missing := [name for name in _SPARSE if name not in parts]:
        raise GraphError(f"sparse features of {kind} need {', '.join(_SPARSE)}, they lack {missing[0]}__{kind}")
    with naming_graph(kind):
        features = npz.features_in(parts, path)
        check_features(features)
    if features.shape[0] != number:
        raise GraphError(f"x_shape__{kind} must begin with the {count(number, 'node')} of {kind}, got {features.shape}")
    return feature_tensor(features)


def _edges(values: dict[str, NDArray[Any]], called: str, ends: list[tuple[str, int]]) -> NDArray[Any]:
    """Takes the edges of a relation out of `values`, and returns them."""
    if "edge_index" not in values:
        raise GraphError(f"the relation {called} needs edge_index__{called}, got none; leave it out of edge_types")
    edges = values.pop("edge_index")
    check_edge_shape(edges)
    edges = edges.reshape(2, -1)
    check_ends(called, edges, ends)
    return edges

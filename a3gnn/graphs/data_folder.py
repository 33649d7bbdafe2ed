"""Folders of .npy files for PyG's data objects: node types, relations, times and all other attributes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.draft import Draft
from a3gnn.graphs.folder import read_data
from a3gnn.graphs.pyg import array_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data, HeteroData

#: The dense parts of a sparse tensor of each layout, in the order of the function that makes it of them.
_PARTS = {
    "sparse_coo": ("_indices", "_values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
}
#: Characters of an attribute's name in the name of its file, for people: the layout has the whole name.
_NAME_LENGTH = 40


def write_data(data: Data | HeteroData, draft: Draft, *, is_told: bool = False) -> None:
    """Writes `data` to `draft`: its tensors and arrays as .npy files, other values to its layout.

    Args:
        data: The object.
        draft: The destination.
        is_told: Whether the draft has printed what the conversion takes.

    Raises:
        GraphError: An attribute is neither numbers nor text.
        OSError: A file can't be written.
    """
    from torch_geometric.data import HeteroData

    arrays: dict[str, NDArray[Any]] = {}
    stores = [[store._key, _attributes(store, arrays)] for store in data.stores]
    draft.layout = {"class": "HeteroData" if isinstance(data, HeteroData) else "Data", "stores": stores}
    total, done = sum(array.nbytes for array in arrays.values()), 0
    if not is_told:
        draft.tell(total, total, 0)
    for name, array in arrays.items():
        draft.put(name, array)
        done += array.nbytes
        draft.progress("writing arrays", done, total)


def load_data(path: Path) -> Data | HeteroData:
    """Returns the data object in the folder `path`, whose tensors are copy-on-write memory maps.

    The content is verified the first time, and again after a file has changed.

    Raises:
        GraphError: The folder has no data object, is of another version, or is damaged.
    """
    from torch_geometric.data import Data, HeteroData

    meta, arrays = read_data(path)
    data = HeteroData() if meta["class"] == "HeteroData" else Data()
    for key, attributes in meta["stores"]:
        if key is None:
            store = data.stores[0]
        else:
            store = data.get_node_store(key) if isinstance(key, str) else data.get_edge_store(*key)
        for name, entry in attributes.items():
            store[name] = _decoded(entry, arrays)
    return data


def _attributes(store: Any, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Returns the entry of each attribute of `store` in a layout; adds the arrays of the entries to `arrays`."""
    found: dict[str, Any] = {}
    for name, value in store.items():
        place = "" if store._key is None else f" of {store._key}"
        entry, own = _encoded(value, f"{name}{place}")
        stem = re.sub(r"\W|^(?=\d)", "_", name, flags=re.ASCII)[:_NAME_LENGTH]
        names = [f"{stem}_{len(arrays) + i}" for i in range(len(own))]
        arrays |= dict(zip(names, own, strict=True))
        found[name] = entry | ({"arrays": names} if own else {})
    return found


def _encoded(value: Any, name: str) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Returns the entry of a value in a layout, and the arrays that it refers to, in order."""
    import torch

    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return {"kind": "array"}, [value]
    if not isinstance(value, torch.Tensor):
        value = value.item() if isinstance(value, np.generic) else value
        try:
            if json.loads(json.dumps(value)) == value:
                return {"kind": "value", "value": value}, []
        except (TypeError, ValueError):
            pass
        raise GraphError(
            f"{name} must be a tensor, an array of numbers, text, a number or a list of them to be stored in a folder, "
            f"got {type(value).__name__}; convert it, or delete it"
        )
    value = value.detach().cpu()
    layout, dtype = (str(one).removeprefix("torch.") for one in (value.layout, value.dtype))
    if layout == "strided":
        return {"kind": layout, "dtype": dtype}, [_array(value, name)]
    if layout not in _PARTS:
        raise GraphError(f"{name} must be dense, or sparse in COO, CSR or CSC, got {layout}; use to_sparse_csr()")
    value = value.coalesce() if layout == "sparse_coo" else value
    parts = [_array(getattr(value, part)(), name) for part in _PARTS[layout]]
    return {"kind": layout, "dtype": dtype, "shape": list(value.shape)}, parts


def _array(tensor: Tensor, name: str) -> NDArray[Any]:
    """Returns the array of a dense tensor; bfloat16, which NumPy lacks, as int16 of the same bits."""
    import torch

    return array_of(name, tensor.view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor)


def _decoded(entry: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """Returns the value of an entry in a layout."""
    import torch

    kind, own = entry["kind"], [arrays[name] for name in entry.get("arrays", ())]
    if kind == "value":
        return entry["value"]
    if kind == "array":
        return own[0]
    *indices, values = (torch.from_numpy(array) for array in own)
    values = values.view(torch.bfloat16) if entry["dtype"] == "bfloat16" else values
    if kind == "strided":
        return values
    more = {"is_coalesced": True} if kind == "sparse_coo" else {}
    make = getattr(torch, f"{kind}_tensor")
    return make(*indices, values, entry["shape"], check_invariants=False, **more)

"""Graphs from PyTorch Geometric and OGB: a `Data`, a saved one, or a data set by name."""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from a3gnn._imports import optional
from a3gnn.errors import A3GNNError, GraphError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.assemble import MASKS, assemble
from a3gnn.graphs.cache import cache_root, source_of
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.pyg_names import PYG_NAMES
from a3gnn.seeding import generator

if TYPE_CHECKING:
    from torch_geometric.data import Data

_SPLIT = (0.6, 0.2, 0.2)


def from_data(data: Data, name: str, source: str | None = None) -> GraphArrays:
    """Returns the graph in `data`: x, edge_index, y, and masks or, where it has none, a random 60/20/20 split.

    Raises:
        GraphError: It lacks x, edge_index or y, or breaks a law of graphs.
    """
    for attribute in ("x", "edge_index", "y"):
        if getattr(data, attribute, None) is None:
            raise GraphError(f"{name}: a PyG Data must have x, edge_index and y, this one lacks {attribute}")
    features, feature_notes = _features(data.x)
    labels = _labels(data.y.detach().cpu().numpy())
    masks, mask_notes = _masks(data, labels)
    edge_index = data.edge_index.detach().cpu().numpy()
    return assemble(name, edge_index, features, labels, masks, (*feature_notes, *mask_notes), source)


def read(path: Path) -> GraphArrays:
    """Returns the graph in a PyG `Data` that `torch.save` wrote to `path`.

    Only tensors and PyG's own classes are unpickled (`weights_only=True`): a file can't run code.

    Raises:
        GraphError: The file is truncated, foreign, or its graph breaks a law.
    """
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    try:
        # PyG registers Data as safe, but not what is inside one.
        with torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            data = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        raise GraphError(
            f"{path} is not a readable PyG Data: truncated, foreign, or with classes other than tensors and PyG's "
            f"({type(error).__name__}); if you trust it, load it in Python and use Graph.from_pyg"
        ) from error
    if not isinstance(data, Data):
        raise GraphError(f"{path} must hold a PyG Data, got {type(data).__name__}; save dataset[0]")
    return from_data(data, path.stem, source_of(path))


def from_pyg_name(name: str) -> GraphArrays:
    """Returns the data set that PyG knows as `name` (`Cora`), or as `CLASS/NAME` (`Planetoid/Cora`).

    Raises:
        GraphError: The name is unknown, or the data set can't be downloaded.
    """
    from torch_geometric import datasets

    known = {short.lower(): spelled for short, spelled in PYG_NAMES.items()}
    kind, _, member = known.get(name.lower(), name).partition("/")
    if not hasattr(datasets, kind):
        raise GraphError(
            f"pyg:{name} is unknown; it is pyg:CLASS/NAME with a class of torch_geometric.datasets, "
            f"or one of {', '.join(PYG_NAMES)}"
        )
    folder = cache_root() / "downloads" / "pyg" / kind
    with _fetching(f"pyg:{name}", folder):
        dataset = getattr(datasets, kind)(str(folder), *([member] if member else []))
        data = dataset[0]
    return from_data(data, f"pyg:{name}")


def from_ogb_name(name: str) -> GraphArrays:
    """Returns OGB's node property data set `name` (`ogbn-arxiv`) with its own split.

    Raises:
        MissingDependencyError: The package ogb is not installed.
        GraphError: The name is unknown, or the data set can't be downloaded.
    """
    nodeproppred = optional("ogb.nodeproppred", "ogb", f"ogb:{name}")
    folder = cache_root() / "downloads" / "ogb"
    with _fetching(f"ogb:{name}", folder):
        dataset = nodeproppred.PygNodePropPredDataset(name, root=str(folder))
        data, split = dataset[0], dataset.get_idx_split()
    for mask, part in zip(MASKS, ("train", "valid", "test"), strict=True):
        chosen = np.zeros(data.num_nodes, dtype=bool)
        chosen[split[part].numpy()] = True
        data[mask] = _tensor(chosen)
    return from_data(data, f"ogb:{name}")


@contextlib.contextmanager
def _fetching(spec: str, folder: Path) -> Iterator[None]:
    """Turns whatever a foreign downloader raises into one error, and keeps its chatter off stdout."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except A3GNNError:
        raise
    except Exception as error:  # data set classes raise what they like
        raise GraphError(
            f"{spec} can't be loaded or downloaded to {folder} ({type(error).__name__}: {error}); "
            "check the name and the network, or put the files there by hand"
        ) from error


def _tensor(array: NDArray[Any]) -> Any:
    import torch

    return torch.from_numpy(array)


def _features(x: Any) -> tuple[DenseFeatures | SparseFeatures, tuple[str, ...]]:
    """Returns the features of a dense or sparse tensor; a type that is not stored becomes float32, with a note."""
    import torch

    x = x.detach().cpu()
    notes: tuple[str, ...] = ()
    if x.dtype not in (torch.float32, torch.float16):
        notes = (f"features were {str(x.dtype).removeprefix('torch.')}; they are stored as float32",)
        x = x.float()
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


def _labels(y: NDArray[Any]) -> NDArray[Any]:
    """Returns `y` as one dimension; OGB writes a column, and NaN in floats for unlabelled."""
    flat = y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y
    if flat.dtype.kind == "f":
        whole = np.nan_to_num(flat, nan=-1.0)
        if np.array_equal(whole, np.round(whole)):
            return np.asarray(whole, dtype=np.int64)
    return flat


def _masks(data: Data, labels: NDArray[Any]) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    given: dict[str, Any] = {name: getattr(data, name, None) for name in MASKS}
    missing = [name for name, mask in given.items() if mask is None]
    if len(missing) == len(MASKS):
        return _random_masks(labels), ("it had no masks; labelled nodes are split 60/20/20 at random, seed 0",)
    if missing:
        raise GraphError(f"a PyG Data must have all of {', '.join(MASKS)} or none, this one lacks {', '.join(missing)}")
    masks = {name: mask.detach().cpu().numpy() for name, mask in given.items()}
    if any(mask.ndim == 2 for mask in masks.values()):
        splits = max(mask.shape[1] for mask in masks.values() if mask.ndim == 2)
        return (
            {name: mask[:, 0] if mask.ndim == 2 else mask for name, mask in masks.items()},
            (f"it had {splits} splits; the first is used",),
        )
    return masks, ()


def _random_masks(labels: NDArray[Any]) -> dict[str, NDArray[Any]]:
    labelled = np.flatnonzero(labels != -1)
    order = generator(0, "split").permutation(labelled)
    bounds = np.round(np.cumsum(_SPLIT)[:-1] * len(order)).astype(int)
    masks: dict[str, NDArray[Any]] = {}
    for name, ids in zip(MASKS, np.split(order, bounds), strict=True):
        mask = np.zeros(len(labels), dtype=bool)
        mask[ids] = True
        masks[name] = mask
    return masks

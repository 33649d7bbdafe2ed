"""Graphs of PyTorch Geometric and OGB: a saved `Data`, or a data set by name."""

from __future__ import annotations

import contextlib
import errno
import inspect
import random
import re
import ssl
import sys
import urllib.error
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from a3gnn._imports import optional
from a3gnn.errors import A3GNNError, GraphError, TypedSetError, UnknownGraphError
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.pyg import REMEDIES, from_data, from_unlabeled, remedy_for, typed_of
from a3gnn.graphs.pyg_names import PYG_NAMES, near_pyg_names
from a3gnn.graphs.split import MASKS, Split
from a3gnn.storage.cache import VARIABLE, cache_root
from a3gnn.storage.graph_copies import source_of
from a3gnn.units import MOST_CHARACTERS, printable

if TYPE_CHECKING:
    from torch_geometric.data import Data

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_NETWORK = (urllib.error.URLError, ConnectionError, TimeoutError, ssl.SSLError)
#: Error numbers of a folder that can't be written or has no room.
_UNWRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
_NETWORK_PACKAGES = {"aiohttp", "requests", "urllib3", "socket"}


def read(path: Path, split: Split | None = None) -> GraphArrays:
    """Returns the graph in a PyG `Data` that `torch.save` wrote to `path`; `split` overrides its masks.

    Only tensors and PyG's own classes are unpickled (`weights_only=True`): a file can't run code.

    Raises:
        GraphError: The file is truncated, foreign, or its graph is not valid.
    """
    data, source = _unpickled(path)
    return from_data(data, printable(path.stem), source, split=split)


def read_unlabeled(path: Path) -> GraphArrays:
    """Returns the graph in x and edge_index of a saved PyG `Data`, for prediction.

    Raises:
        GraphError: The file is truncated, foreign, or its graph is not valid.
    """
    return from_unlabeled(_unpickled(path)[0], printable(path.stem))


def _unpickled(path: Path) -> tuple[Data, str]:
    """Returns the `Data` at `path`, and the identity of the file."""
    from torch_geometric.data import Data

    data, source = unpickled(path)
    if not isinstance(data, Data):
        remedy = remedy_for(data) or "; torch.save(data, FILE) writes one from a PyG Data"
        raise GraphError(f"{path} must hold a PyG Data, got {type(data).__name__}{remedy}")
    return data, source


def unpickled(path: Path, mapped: bool = False) -> tuple[Any, str]:
    """Returns the data of PyG's classes at `path`, and the identity of the file.

    Args:
        path: The file.
        mapped: Whether tensors are maps of the file, so that their contents are read only where they are used.

    Raises:
        GraphError: The file is truncated or foreign.
    """
    import torch

    try:
        with pyg_classes(), warnings.catch_warnings():
            # Since torch 2.14: a warning that a scan of sparse tensors may be slow. The graph is read next in any case.
            warnings.filterwarnings("ignore", message="Validating sparse tensor invariants")
            source = source_of(path)
            maps = mapped and zipfile.is_zipfile(path)  # older files can't be mapped
            data: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=maps)
    except MemoryError:
        raise
    except Exception as error:  # unpickling an arbitrary file may raise anything
        raise GraphError(f"{path} is not a readable PyG Data: {_refused(error)}") from error
    return data, source


def refused_class(error: Exception) -> str | None:
    """Returns the class that torch refuses to unpickle, such as a date; None for another error.

    Messages contain it in place of torch's text, which proposes to run the file's code.
    """
    found = re.search(r"GLOBAL (\S+) was not|but got <class '(\S+)'>", str(error))
    return found and (found[1] or found[2])


def _refused(error: Exception) -> str:
    """Returns why torch can't unpickle a file, with the remedy."""
    found = refused_class(error)
    if found is None:
        return "it is truncated or of another format. torch.save(data, FILE) writes one from a PyG Data"
    package, _, kind = found.rpartition(".")
    name = "Dataset" if package.startswith("torch_geometric.datasets") else kind
    remedy = REMEDIES.get(
        f"{package.partition('.')[0]}.{name}",
        "save a Data of tensors alone: torch.save(Data(x=..., edge_index=..., y=..., train_mask=...), FILE)",
    )
    return f"it holds {found}, which is not unpickled, because a file may run code; {remedy}"


def from_pyg_name(name: str, split: Split | None = None) -> GraphArrays:
    """Returns PyG's data set `name` (`Cora`), or `CLASS/NAME` (`Planetoid/Cora`).

    `split` overrides its masks.

    Raises:
        GraphError: The name is unknown, the data set can't be downloaded or read, or is not one graph.
    """
    from torch_geometric import datasets

    known = {short.lower(): spelled for short, spelled in PYG_NAMES.items()}
    kind, _, member = known.get(name.lower(), name).partition("/")
    if not isinstance(getattr(datasets, kind, None), type):
        near = "".join(f"; did you mean 'pyg:{one}'?" for one in near_pyg_names(name.rpartition("/")[2]))
        raise UnknownGraphError(
            f"pyg:{name} is unknown{near}; give pyg:CLASS/NAME with a class of torch_geometric.datasets, or one of "
            f"{', '.join(PYG_NAMES)}"
        )
    folder = cache_root() / "downloads" / "pyg" / kind
    with _fetching(f"pyg:{name}", folder):
        dataset = _made(getattr(datasets, kind), folder, member)
        graphs, data = len(dataset), dataset[0]
    if graphs != 1:
        raise GraphError(f"pyg:{name} must be one graph, got {graphs}; use Graph.from_pyg(dataset[i])")
    return from_data(_homogeneous(data, f"pyg:{name}"), f"pyg:{name}", split=split)


def _made(kind: type[Any], folder: Path, member: str) -> Any:
    """Returns the data set of a class of PyG's. A class without `root` needs no download; random ones use seed 0.

    Raises:
        GraphError: `member` is given, but the class has a single data set.
    """
    import torch

    arguments = _arguments(kind, folder, member)
    if "root" in inspect.signature(kind).parameters:
        return kind(*arguments)
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  # which PyG draws from
    try:
        with torch.random.fork_rng(devices=[]):
            random.seed(0)
            np.random.seed(0)  # noqa: NPY002
            torch.manual_seed(0)
            return kind()
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def _arguments(kind: type[Any], folder: Path, member: str) -> list[str]:
    """Returns the arguments for a class of PyG's.

    Raises:
        GraphError: The class needs further arguments, or `member` is given, but the class has a single data set.
    """
    spec = f"pyg:{kind.__name__}"
    taken = list(inspect.signature(kind).parameters.values())
    given = [str(folder)] if any(one.name == "root" for one in taken) else []
    if member and not (given and len(taken) > 1 and taken[1].name != "transform"):
        raise GraphError(f"{spec} has a single data set, got {spec}/{member}; leave out /{member}")
    given += [member] if member else []
    named = [one for one in taken[len(given) :] if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    missing = [one.name for one in named if one.default is one.empty]
    if missing == ["name"] and not member:
        raise GraphError(f"{spec} must have the name of a data set, got none; give {spec}/NAME")
    if missing:
        raise GraphError(
            f"{spec} needs the arguments {' and '.join(missing)}, which a name can't contain; create dataset = "
            f"{kind.__name__}(...) in Python, and use Graph.from_pyg(dataset[0])"
        )
    return given


def from_ogb_name(name: str) -> GraphArrays:
    """Returns OGB's node property data set `name` (`ogbn-arxiv`) with its own split.

    Raises:
        MissingDependencyError: The package ogb is not installed.
        GraphError: The name is unknown, or the data set can't be downloaded or read.
        TypedSetError: It is heterogeneous.
    """
    nodeproppred = optional("ogb.nodeproppred", "ogb", f"ogb:{name}")
    folder = cache_root() / "downloads" / "ogb"
    with _fetching(f"ogb:{name}", folder), pyg_classes():
        dataset = nodeproppred.PygNodePropPredDataset(name, root=str(folder))
        given, split = dataset[0], dataset.get_idx_split()
        typed = typed_of(given)
        data = given if typed is None else typed
        stores = {"": data} if typed is None else {kind: data[kind] for kind in data.node_types}
        for mask, part in zip(MASKS, ("train", "valid", "test"), strict=True):
            for kind, ids in split[part].items() if isinstance(split[part], Mapping) else [("", split[part])]:
                if kind in stores:
                    chosen = np.zeros(stores[kind].num_nodes, dtype=bool)
                    chosen[np.asarray(ids)] = True
                    stores[kind][mask] = _tensor(chosen)
    return from_data(_homogeneous(data, f"ogb:{name}"), f"ogb:{name}", nan_is_unlabeled=True)


def pyg_classes() -> AbstractContextManager[None]:
    """Returns a context in which torch unpickles the classes behind PyG's data, and NumPy arrays of integers.

    None of these classes runs code. PyG registers Data as safe, but not the classes that it contains. OGB saves splits
    as arrays and calls torch.load without options; since torch 2.6 the default is `weights_only`.
    """
    import torch
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import AttrType, BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

    safe: list[Any] = [DataEdgeAttr, DataTensorAttr, BaseStorage, GlobalStorage, NodeStorage, EdgeStorage, AttrType]
    safe += [np.ndarray, np.dtype, *(type(np.dtype(kind)) for kind in (np.int64, np.int32))]
    rebuild = np.empty(0).__reduce__()[0]
    safe.append(rebuild)
    # An array may have been saved by a NumPy of another major version.
    safe += [(rebuild, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    context: AbstractContextManager[None] = torch.serialization.safe_globals(safe)
    return context


@contextlib.contextmanager
def _fetching(spec: str, folder: Path) -> Iterator[None]:
    """Turns any error of a foreign downloader into a `GraphError`, and sends its output to stderr."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (A3GNNError, MemoryError):
        raise
    except EOFError as error:
        raise GraphError(
            f"{spec}: its library asks before it downloads, but nobody can answer here; load it once in a terminal"
        ) from error
    except SystemExit as stop:  # OGB exits if the user declines the download
        raise GraphError(f"{spec}: the download to {folder} was declined") from stop
    except Exception as error:  # data set classes may raise anything
        what = "downloaded" if _of_network(error) else "loaded"
        said = " ".join(_COLORS.sub("", str(error)).split())[:MOST_CHARACTERS]
        raise GraphError(
            f"{spec} can't be {what} ({type(error).__name__}: {said}); {_remedy(error, folder)}"
        ) from error


def _remedy(error: BaseException, folder: Path) -> str:
    unwritable = _UNWRITABLE if folder.parent.is_dir() else {*_UNWRITABLE, errno.ENOTDIR}
    if any(isinstance(one, OSError) and one.errno in unwritable for one in _chain(error)):
        return f"its files go to {folder}; set {VARIABLE} to a writable folder"
    if _of_network(error):
        return f"check the network, or put its files into {folder} by hand"
    return f"check the name; if the files in {folder} are damaged, delete them to download them again"


def _of_network(error: BaseException) -> bool:
    """Returns whether `error`, or a cause of it, is a network error."""
    return any(
        isinstance(one, _NETWORK) or type(one).__module__.split(".")[0] in _NETWORK_PACKAGES for one in _chain(error)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields `error` and its chain of causes and contexts."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _homogeneous(data: Any, spec: str) -> Any:
    """Returns `data`, which must have one type of nodes and edges, and no times.

    Raises:
        TypedSetError: It has several, or events with times.
    """
    from torch_geometric.data import Data

    if (typed := typed_of(data)) is None:
        return data
    what = "its edges are events with times" if isinstance(typed, Data) else "it is heterogeneous"
    raise TypedSetError(
        f"{spec} must have one type of nodes and edges, but {what}; only Loader, LinkNeighborLoader and a3gnn graph "
        "take it, with its own split",
        typed,
    )


def _tensor(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array)

"""The forms that `--dataset` takes, and the reader of each."""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Callable
from pathlib import Path

from a3gnn.errors import A3GNNError, GraphError, UnknownGraphError, UsageError
from a3gnn.graphs import npz, pyg_sets
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.assemble import naming_graph
from a3gnn.graphs.folder import read_folder
from a3gnn.graphs.labels import judged_nodes
from a3gnn.graphs.pyg_names import near_pyg_names
from a3gnn.graphs.soundness import split_violations
from a3gnn.graphs.split import MASKS, Split, ids_mask, mask_ids
from a3gnn.graphs.synthetic import generate
from a3gnn.storage.cache import cache_root
from a3gnn.storage.graph_copies import recall, source_of
from a3gnn.units import printable

#: The forms of a spec, for messages.
FORMS = (
    "a graph is one of: FILE.npz; a folder written by `a3gnn graph convert`; synthetic:KEY=VALUE,...; pyg:NAME; "
    "ogb:NAME; FILE.pt with a saved PyG Data"
)
_WRITTEN = "and torch.save(data, 'graph.pt') writes it"
#: How files of other programs become graphs, by their ends.
_FOREIGN: dict[tuple[str, ...], str] = {
    (".bin", ".dgl"): (
        "DGL's files are not read: torch_geometric.utils.from_dgl(dgl.load_graphs(FILE)[0][0]) makes a Data of one, in "
        f"which features must be called x and labels y, {_WRITTEN}"
    ),
    **{
        (suffix,): (
            f"{suffix} is not read: torch_geometric.utils.from_networkx(networkx.read_{reader}(FILE), "
            f"group_node_attrs=[NAME, ...]) makes a Data of it, with x of these attributes and y of y, {_WRITTEN}"
        )
        for suffix, reader in ((".graphml", "graphml"), (".gml", "gml"), (".gexf", "gexf"), (".net", "pajek"))
    },
    (".csv", ".tsv", ".txt", ".edgelist", ".edges", ".parquet", ".json", ".jsonl", ".xlsx", ".gz", ".zip"): (
        "tables are not read: six lines of docs/start/your_graph.md make an .npz of CSV files"
    ),
    (".pkl", ".pickle", ".npy", ".mat", ".mtx", ".h5", ".hdf5"): (
        "this file is not read: np.savez('graph.npz', edge_index=..., x=..., y=...) writes one that is "
        "(docs/start/your_graph.md)"
    ),
}
_OGB_NAMES = ("ogbn-arxiv", "ogbn-products", "ogbn-proteins", "ogbn-papers100m")
_SCHEMES: dict[str, Callable[[str, Split | None], GraphArrays]] = {
    "synthetic": lambda recipe, split: resplit(generate(recipe), split),
    "pyg": pyg_sets.from_pyg_name,
    "ogb": lambda name, split: resplit(pyg_sets.from_ogb_name(name), split),
}
#: Notes of versions that left out values of edges; their copies of a file lack them.
_LEFT_OUT = re.compile(r"\bedge_(attr|weight)\b.*edges have (no weights or|neither weights nor)")
_SUFFIXES: dict[str, Callable[[Path, Split | None], GraphArrays]] = {
    ".npz": npz.read,
    ".pt": pyg_sets.read,
    ".pth": pyg_sets.read,
}
_UNLABELED: dict[str, Callable[[Path], GraphArrays]] = {
    ".npz": npz.read_unlabeled,
    ".pt": pyg_sets.read_unlabeled,
    ".pth": pyg_sets.read_unlabeled,
}


def load_arrays(spec: str | Path, split: Split | None = None) -> GraphArrays:
    """Returns the graph that `spec` names; `split` overrides the graph's own split and one in `spec`.

    If the cache folder has a copy of the file (`source_of` identifies it), that copy is opened.

    Raises:
        GraphError: It can't be read, or is not valid.
        UsageError: `spec` has none of the known forms.
    """
    if isinstance(spec, str):
        own, spec = Split.in_spec(spec)
        split = split or own
    scheme, colon, rest = str(spec).partition(":")
    if colon and scheme == "parts":
        raise UsageError(
            f"only a3gnn train and Loader accept parts on graph servers, got {str(spec)!r}; give the whole graph on "
            "this machine for other uses"
        )
    if colon and scheme in _SCHEMES:
        return _SCHEMES[scheme](rest, split)
    try:
        return _at(Path(spec).expanduser(), spec, split)
    except (OSError, RuntimeError) as error:  # a path that can't be looked at, or the home folder of an unknown user
        raise GraphError(f"{spec} can't be opened ({error}); {FORMS}") from error


def load_unlabeled(path: str | os.PathLike[str]) -> GraphArrays:
    """Returns the graph in a file, for prediction; only features and edges are read, and a split in `path` is ignored.

    Raises:
        GraphError: It can't be read, or is not valid.
    """
    try:
        path = file_of(path)
        if path.suffix not in _UNLABELED:
            raise GraphError(f"{path} must be one of {', '.join(_UNLABELED)} to be read without labels; {FORMS}")
        if not path.is_file():
            raise GraphError(f"{path} must be an existing file{_meant(path)}; {FORMS}")
        return converted_copy(path) or _UNLABELED[path.suffix](path)
    except OSError as error:
        raise GraphError(f"{path} can't be opened ({error}); {FORMS}") from error


def is_file(spec: object) -> bool:
    """Returns whether `spec`, behind an optional split, is the path of an .npz or .pt file (labels are optional)."""
    if not isinstance(spec, str | os.PathLike):
        return False
    try:
        path = file_of(spec)
        return path.suffix in _UNLABELED and path.is_file()
    except OSError:
        return False


def file_of(spec: str | os.PathLike[str]) -> Path:
    """Returns the path in `spec`, without the split that may precede it.

    Raises:
        GraphError: The path begins with a home folder that is unknown.
    """
    path = Split.in_spec(spec)[1] if isinstance(spec, str) else spec
    try:
        return expanded(Path(path))
    except A3GNNError as error:
        raise GraphError(str(error)) from error


def resplit(graph: GraphArrays, split: Split | None) -> GraphArrays:
    """Returns `graph` with other train, validation and test nodes; `graph` itself if `split` is None."""
    if split is None:
        return graph
    if graph.links is not None:
        raise UsageError(f"the links of {graph.name} are split when they are loaded; give the split there")
    own = [ids_mask(ids, graph.num_nodes) for ids in (graph.train_ids, graph.val_ids, graph.test_ids)]
    with naming_graph(graph.name):
        masks = split.masks(judged_nodes(graph.labels, own))
    ids = [mask_ids(mask) for mask in masks.values()]
    found = dataclasses.replace(
        graph,
        train_ids=ids[0],
        val_ids=ids[1],
        test_ids=ids[2],
        notes=(*graph.notes, split.note(MASKS)),
        folder=None,
        source=None,
        known=None,
    )
    for violation in split_violations(found):
        raise GraphError(f"{graph.name} can't be split {split}: {violation.rule}")
    return found


def _at(path: Path, spec: str | Path, split: Split | None) -> GraphArrays:
    if str(spec) and path.is_dir():
        return resplit(read_folder(path), split)
    if path.suffix not in _SUFFIXES:
        raise UnknownGraphError(f"{_foreign(spec)}{FORMS}; got {str(spec)!r}{_meant(path)}")
    if not path.is_file():
        raise UnknownGraphError(f"{_foreign(spec)}{path} does not exist{_meant(path)}; {FORMS}")
    found = converted_copy(path, split) or _SUFFIXES[path.suffix](path, split)
    return found if split is None else dataclasses.replace(found, source=split.spec(found.source or ""))


def _foreign(spec: str | Path) -> str:
    """Returns how data of another program become a graph, by the end or the scheme of `spec`; "" for unknown ones."""
    if "://" in str(spec):
        return f"URLs are not read: download {spec}, and give the path of the file; "
    return next((f"{how}; " for suffixes, how in _FOREIGN.items() if Path(spec).suffix.lower() in suffixes), "")


def _meant(path: Path) -> str:
    """Returns suggestions for a path without a graph: similar file names beside it and data sets of its name."""
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    files = sorted(str(one) for one in beside if one.suffix in _SUFFIXES)
    by_stem = [name for name in files if Path(name).with_suffix("") == path.with_suffix("")]
    near = by_stem or difflib.get_close_matches(str(path), files, n=1)
    stem = path.stem.rpartition(":")[2]
    sets = [
        f"ogb:{name}" for name in _OGB_NAMES if stem.lower().replace("_", "-") in (name, name.removeprefix("ogbn-"))
    ]
    alike = near_pyg_names(stem)
    sets += [f"pyg:{name}" for name in alike if name.lower() == stem.lower() or not (sets or near)]
    found = [repr(name) for name in (*near, *sets) if path.name]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def converted_copy(path: Path, split: Split | None = None) -> GraphArrays | None:
    """Returns the graph in the file at `path` from its copy in the cache folder, or None without a copy."""
    source = source_of(path)
    copy = recall(cache_root(), source if split is None else split.spec(source))
    if copy is None:
        return None
    try:
        graph = read_folder(copy.folder)
    except GraphError:
        return None  # the copy is damaged; the caller reads the file itself
    notes = graph.notes if copy.notes is None else copy.notes
    return None if any(map(_LEFT_OUT.search, notes)) else as_named(graph, printable(path.stem), notes)


def as_named(graph: GraphArrays, name: str, notes: tuple[str, ...]) -> GraphArrays:
    """Returns `graph` under another name and with other notes; its folder may have been written from another source."""
    known = graph.known and dataclasses.replace(graph.known, name=name)
    return dataclasses.replace(graph, name=name, notes=notes, known=known)


def expanded(path: str | Path) -> Path:
    """Returns `path` with `~` replaced by the home folder.

    Raises:
        A3GNNError: The user in `path` has no home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise A3GNNError(f"the home folder in {path} is unknown ({error}); give the full path") from error

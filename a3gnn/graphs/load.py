"""What `--dataset` takes, and who reads it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs import npz, pyg_sets
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.folder import read_folder
from a3gnn.graphs.synthetic.generate import generate
from a3gnn.storage.cache import cache_root, recall, source_of

#: What a spec may be.
FORMS = (
    "a graph is one of: FILE.npz; a folder written by `a3gnn graph convert`; synthetic:KEY=VALUE,...; pyg:NAME; "
    "ogb:NAME; FILE.pt with a saved PyG Data"
)
_SCHEMES: dict[str, Callable[[str], GraphArrays]] = {
    "synthetic": generate,
    "pyg": pyg_sets.from_pyg_name,
    "ogb": pyg_sets.from_ogb_name,
}
_SUFFIXES: dict[str, Callable[[Path], GraphArrays]] = {".npz": npz.read, ".pt": pyg_sets.read, ".pth": pyg_sets.read}


def load_arrays(spec: str | Path) -> GraphArrays:
    """Returns the graph that `spec` means.

    A file that was converted before (`source_of` tells) is opened from its copy in the cache folder.

    Raises:
        GraphError: It can't be read, or is not valid.
        UsageError: `spec` has none of the known forms.
    """
    scheme, colon, rest = str(spec).partition(":")
    if colon and scheme == "parts":
        raise UsageError(
            f"a graph by parts is taken by a3gnn train and Loader alone, got {str(spec)!r}; the rest needs the whole "
            "graph on this machine: give that"
        )
    if colon and scheme in _SCHEMES:
        return _SCHEMES[scheme](rest)
    try:
        return _at(Path(spec).expanduser(), spec)
    except (OSError, RuntimeError) as error:  # a path that can't be looked at, or the home folder of an unknown user
        raise GraphError(f"{spec} can't be opened ({error}); {FORMS}") from error


def _at(path: Path, spec: str | Path) -> GraphArrays:
    if str(spec) and path.is_dir():
        return read_folder(path)
    if path.suffix not in _SUFFIXES:
        raise UsageError(f"{FORMS}; got {str(spec)!r}")
    if not path.is_file():
        raise GraphError(f"{path} does not exist; {FORMS}")
    return converted_copy(path) or _SUFFIXES[path.suffix](path)


def converted_copy(path: Path) -> GraphArrays | None:
    """Returns the graph in the file at `path` from its copy in the cache folder, or None where there is none."""
    copy = recall(cache_root(), source_of(path))
    if copy is None:
        return None
    try:
        graph = read_folder(copy.folder)
    except GraphError:
        return None  # a damaged copy: the file itself is still there
    return as_named(graph, path.stem, graph.notes if copy.notes is None else copy.notes)


def as_named(graph: GraphArrays, name: str, notes: tuple[str, ...]) -> GraphArrays:
    """Returns `graph`, whose folder may have been written under another name, from something with other notes."""
    known = graph.known and dataclasses.replace(graph.known, name=name)
    return dataclasses.replace(graph, name=name, notes=notes, known=known)

"""The graphs below the data root, folder by folder, for people who look for one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from a3gnn.service.http.problems import ProblemDetails
from a3gnn.units import format_size

#: Entries of a folder that are looked at, and that are shown. Guesses.
_LOOKED_AT, _SHOWN = 10_000, 500
#: The file that marks a converted graph's folder (`a3gnn.graphs.folder`).
_MARK = "meta.json"


class FolderEntry(NamedTuple):
    """A graph or a folder.

    Attributes:
        name: Its name.
        path: Its path below the data root.
        is_graph: Whether it is a graph: an .npz file or a converted folder.
        size: Its size in words; "" for folders.
    """

    name: str
    path: str
    is_graph: bool
    size: str


class Listing(NamedTuple):
    """A folder below the data root.

    Attributes:
        folder: Its path below the data root; "" for the root itself.
        parents: Names and paths of the folders above it, the root first.
        entries: Folders, then graphs, by name.
        is_whole: Whether all entries are shown.
    """

    folder: str
    parents: tuple[tuple[str, str], ...]
    entries: tuple[FolderEntry, ...]
    is_whole: bool


def listing(root: Path | None, folder: str) -> Listing:
    """Returns the folders and the graphs in `folder`, a path below `root`. Links that leave the root are left out.

    Raises:
        ProblemDetails: There is no data root, or no such folder below it.
    """
    if root is None:
        raise ProblemDetails(404, "not-found", "this server has no data root; a3gnn serve --data-root sets one")
    try:
        root = root.resolve(strict=True)
        path = (root / folder).resolve(strict=True)
        inside = path.is_relative_to(root) and path.is_dir()
        found = list(islice(os.scandir(path), _LOOKED_AT + 1)) if inside else []
    except (OSError, ValueError, RuntimeError):
        inside, found = False, []
    if not inside:
        raise ProblemDetails(
            404, "not-found", f"{folder[:200]!r} is no folder below the data root; open the data root itself"
        )
    below = "" if path == root else str(path.relative_to(root))
    entries = sorted(_entries(root, path, found[:_LOOKED_AT]), key=lambda one: (one.is_graph, one.name.lower()))
    parts = Path(below).parts
    parents = (("data root", ""), *((part, str(Path(*parts[: i + 1]))) for i, part in enumerate(parts)))
    whole = len(found) <= _LOOKED_AT and len(entries) <= _SHOWN
    return Listing(below, parents, tuple(entries[:_SHOWN]), whole)


def _entries(root: Path, path: Path, found: list[os.DirEntry[str]]) -> Iterator[FolderEntry]:
    for one in found:
        try:
            real = Path(one.path).resolve(strict=True)
            if one.name.startswith(".") or not real.is_relative_to(root) or not one.name.isprintable():
                continue
            below = str((path / one.name).relative_to(root))
            if real.is_dir():
                yield FolderEntry(one.name, below, (real / _MARK).is_file(), "")
            elif real.is_file() and real.suffix == ".npz":
                yield FolderEntry(one.name, below, True, format_size(real.stat().st_size))
        except (OSError, RuntimeError):
            continue

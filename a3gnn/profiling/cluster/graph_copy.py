"""Graphs on the machines that run trials: each has one copy in its cache folder, by content."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from a3gnn.errors import GraphError
from a3gnn.graphs.folder import read_folder
from a3gnn.graphs.verify import verify
from a3gnn.storage.atomic import need_room, replacing
from a3gnn.storage.cache import cache_root, graph_folder
from a3gnn.storage.cache_content import remove_abandoned
from a3gnn.units import format_size


def received(
    fingerprint: str, files: Mapping[str, int], read: Callable[[str, int], bytes], notify: Callable[[str], None]
) -> Path:
    """Returns the folder of a graph in this machine's cache folder; it is fetched where it is missing or damaged.

    What arrives is compared with the fingerprint before it counts as there. What an interrupted fetch of it left goes.

    Args:
        fingerprint: Of the graph's content.
        files: Those of its converted folder, by name with their bytes.
        read: Returns the next bytes of a file from an offset on, at least one of them.
        notify: Takes each line for people.

    Raises:
        GraphError: It can't be written, or something else arrived; nothing is left then.
    """
    folder = graph_folder(cache_root(), fingerprint)
    if _holds(folder, fingerprint):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    remove_abandoned(folder)
    needed = sum(files.values())
    notify(f"fetching the graph, {format_size(needed)}, once for this machine")
    try:
        with replacing(folder) as draft:
            need_room(draft.parent, needed)
            draft.mkdir()
            for name, size in files.items():
                _fetch(draft / name, size, read)
            _check(draft, fingerprint)
    except OSError as error:
        raise GraphError(f"the graph can't be written to {folder}: {error}; nothing was left there") from error
    return folder


def _holds(folder: Path, fingerprint: str) -> bool:
    try:
        return read_folder(folder).fingerprint == fingerprint
    except GraphError:
        return False


def _fetch(path: Path, size: int, read: Callable[[str, int], bytes]) -> None:
    with path.open("xb") as file:
        while (offset := file.tell()) < size:
            piece = read(path.name, offset)
            if not piece:
                raise GraphError(f"{path.name} has {size} bytes, but only {offset} arrived: it changed meanwhile")
            file.write(piece)


def _check(folder: Path, fingerprint: str) -> None:
    problems = [f"{finding.name}: {finding.problem}" for finding in verify(folder) if finding.problem]
    if not problems and (found := read_folder(folder).fingerprint) != fingerprint:
        problems = [f"its fingerprint must be {fingerprint}, got {found}"]
    if problems:
        raise GraphError(
            f"what arrived is not the graph that was sent: {'; '.join(problems)}; a3gnn graph verify says whether it "
            "is damaged where it was sent from, else try again"
        )

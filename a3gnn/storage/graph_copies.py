"""The cached copies of graphs on this machine, and the source file of each."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import NamedTuple

from a3gnn.storage.atomic import replacing
from a3gnn.storage.stamp import content_state, file_state

#: Name of a graph's folder in the cache.
FINGERPRINT = re.compile("[0-9a-f]{32}")


class Copy(NamedTuple):
    """The converted copy of a file's graph.

    Attributes:
        folder: The converted graph.
        notes: The notes from reading the file; None if they were not stored.
    """

    folder: Path
    notes: tuple[str, ...] | None


def graph_folder(root: Path, fingerprint: str) -> Path:
    """Returns the folder of the converted graph with `fingerprint`, which may not exist."""
    return root / "graphs" / fingerprint


def source_of(path: Path) -> str:
    """Returns the identity of the file at `path`: its absolute path, size, times, inode and a hash of its content.

    Call it before reading the file: a file that replaces it during the reading then has another identity.

    Raises:
        OSError: The file can't be read.
    """
    return "|".join(map(str, [path.resolve(), *file_state(path), content_state(path)]))


def remember(root: Path, source: str, fingerprint: str, notes: tuple[str, ...]) -> None:
    """Records that the file `source` contains the graph with `fingerprint`, and the `notes` from reading it."""
    with replacing(_note(root, source)) as draft:
        draft.write_text("\n".join([fingerprint, *notes, ""]), encoding="utf-8")


def recall(root: Path, source: str) -> Copy | None:
    """Returns the converted copy of the graph of `source`, or None if there is no such copy."""
    try:
        fingerprint, *notes = _note(root, source).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return None
    folder = graph_folder(root, fingerprint)
    if not FINGERPRINT.fullmatch(fingerprint) or not folder.is_dir():
        return None
    return Copy(folder, tuple(notes[:-1]) if notes else None)


def _note(root: Path, source: str) -> Path:
    return root / "sources" / hashlib.blake2b(os.fsencode(source), digest_size=16).hexdigest()

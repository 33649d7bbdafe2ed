"""Where copies of graphs live on this machine, and which source file each came from."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import NamedTuple

from a3gnn.storage.atomic import replacing
from a3gnn.storage.file_state import content_state, file_state
from a3gnn.storage.root import cache_root as cache_root

#: How a graph's folder in the cache is named.
FINGERPRINT = re.compile("[0-9a-f]{32}")


def graph_folder(root: Path, fingerprint: str) -> Path:
    """Returns the folder of the converted graph with `fingerprint`, whether it is there or not."""
    return root / "graphs" / fingerprint


def source_of(path: Path) -> str:
    """Returns the identity of the file at `path`: its absolute path, size, times, inode and a hash of its content.

    Ask for it before the file is read: what replaces the file meanwhile then has another identity.

    Raises:
        OSError: The file can't be read.
    """
    return "|".join(map(str, [path.resolve(), *file_state(path), content_state(path)]))


class Copy(NamedTuple):
    """Where the graph of a file was converted to.

    Attributes:
        folder: The converted graph.
        notes: What was said as the file was read; None where it was not kept.
    """

    folder: Path
    notes: tuple[str, ...] | None


def remember(root: Path, source: str, fingerprint: str, notes: tuple[str, ...]) -> None:
    """Notes that the file `source` holds the graph with `fingerprint`, and with which `notes` it was read."""
    with replacing(_note(root, source)) as draft:
        draft.write_text("\n".join([fingerprint, *notes, ""]), encoding="utf-8")


def recall(root: Path, source: str) -> Copy | None:
    """Returns where the graph of `source` was converted to, or None where there is no such copy."""
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

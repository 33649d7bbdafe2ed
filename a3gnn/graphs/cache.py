"""Where copies of graphs live on this machine, and which source file each came from."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from a3gnn.graphs.atomic import replacing


def cache_root(chosen: str | Path | None = None) -> Path:
    """Returns the cache folder: `chosen`, else $A3GNN_CACHE, else a3gnn in $XDG_CACHE_HOME or ~/.cache."""
    if chosen is not None:
        return Path(chosen)
    if own := os.environ.get("A3GNN_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "a3gnn"


def graph_folder(root: Path, fingerprint: str) -> Path:
    """Returns the folder of the converted graph with `fingerprint`, whether it is there or not."""
    return root / "graphs" / fingerprint


def source_of(path: Path) -> str:
    """Returns the identity of the file at `path`: its absolute path, size in bytes and time of change."""
    stat = path.stat()
    return f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"


def remember(root: Path, source: str, fingerprint: str) -> None:
    """Notes that the file `source` holds the graph with `fingerprint`."""
    with replacing(_note(root, source)) as draft:
        draft.write_text(fingerprint, encoding="ascii")


def recall(root: Path, source: str) -> Path | None:
    """Returns the folder of the graph that `source` was converted to, or None where there is none."""
    note = _note(root, source)
    if not note.is_file():
        return None
    folder = graph_folder(root, note.read_text(encoding="ascii"))
    return folder if folder.is_dir() else None


def _note(root: Path, source: str) -> Path:
    return root / "sources" / hashlib.blake2b(source.encode(), digest_size=16).hexdigest()

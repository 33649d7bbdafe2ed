"""States of learning curves, sent between the machine that a study runs on and those that run its trials."""

from __future__ import annotations

import hashlib
from pathlib import Path

from a3gnn.storage.atomic import replacing
from a3gnn.storage.cache import cache_root


def here(path: str) -> Path:
    """Returns where this machine keeps the state that another one keeps at `path`."""
    return cache_root() / "curves" / Path(path).name


def digest(path: Path) -> str:
    """Returns a hash of the state at `path`; "" where there is none."""
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except FileNotFoundError:
        return ""


def keep(path: Path, content: bytes) -> None:
    """Writes a state that arrived, whole or not at all.

    Raises:
        OSError: It can't be written.
    """
    with replacing(path) as draft:
        draft.write_bytes(content)

"""Sends states of learning curves between a study's machine and the machines of its trials."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from a3gnn.storage.atomic import replacing
from a3gnn.storage.cache import cache_root


def here(path: str) -> Path:
    """Returns the path on this machine for the state that another machine keeps at `path`."""
    return cache_root() / "curves" / Path(path).name


def digest(path: Path) -> str:
    """Returns a hash of the state at `path`; "" if there is none."""
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except FileNotFoundError:
        return ""


def keep(path: Path, content: bytes) -> None:
    """Writes a received state, whole or not at all.

    Raises:
        OSError: It can't be written.
    """
    with replacing(path) as draft:
        draft.write_bytes(content)


def keep_or_tell(path: Path, content: bytes, notify: Callable[[str], None]) -> None:
    """Writes a received state, or notifies of the error, because the trial is worth more than its state."""
    try:
        keep(path, content)
    except OSError as error:
        notify(f"the state of a learning curve can't be kept, so a longer one starts anew: {error}")


def sent(path: Path, ray: ModuleType, notify: Callable[[str], None]) -> dict[str, Any] | None:
    """Returns the state at `path` for an order: its digest, and its content in Ray's object store.

    Returns None, and notifies, if it can't be sent: the trial then learns its curve from the start.
    """
    try:
        known = digest(path)
        return {"digest": known, "content": ray.put(path.read_bytes()) if known else None}
    except (ray.exceptions.RayError, OSError) as error:
        notify(f"the state of a learning curve can't be sent, so it starts anew: {error}")
        return None

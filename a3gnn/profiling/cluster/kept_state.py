"""States of learning curves, sent between the machine that a study runs on and those that run its trials."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

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


def keep_or_tell(path: Path, content: bytes, notify: Callable[[str], None]) -> None:
    """Does so, or tells why not: the trial that the state came with is worth more than that."""
    try:
        keep(path, content)
    except OSError as error:
        notify(f"the state of a learning curve can't be kept, so a longer one starts anew: {error}")


def sent(path: Path, ray: ModuleType, notify: Callable[[str], None]) -> dict[str, Any] | None:
    """Returns the state at `path` as an order has it: its digest, and its content in Ray's object store.

    None where it can't be sent, which is told: the trial learns its curve from the start.
    """
    try:
        known = digest(path)
        return {"digest": known, "content": ray.put(path.read_bytes()) if known else None}
    except (ray.exceptions.RayError, OSError) as error:
        notify(f"the state of a learning curve can't be sent, so it starts anew: {error}")
        return None

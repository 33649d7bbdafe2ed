"""The cache folder of a3gnn, and the remedy in errors from writing to it."""

from __future__ import annotations

import os
from pathlib import Path

from a3gnn.errors import A3GNNError

#: Environment variable with the path of the cache folder.
VARIABLE = "A3GNN_CACHE"


def cache_root(chosen: str | Path | None = None) -> Path:
    """Returns the cache folder: `chosen`, else $A3GNN_CACHE, else a3gnn in $XDG_CACHE_HOME or ~/.cache.

    Raises:
        A3GNNError: None of them is set, and the user has no home folder.
    """
    if chosen is not None:
        return Path(chosen)
    if own := os.environ.get(VARIABLE):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "a3gnn"
    try:
        return Path.home() / ".cache" / "a3gnn"
    except RuntimeError:
        raise A3GNNError(
            f"the cache folder is in the user's home folder, but user {os.getuid()} has none, and HOME is not set; set "
            f"{VARIABLE} to a writable folder"
        ) from None


def explained(error: OSError, path: Path) -> OSError:
    """Returns `error` from creating `path`; with a remedy if `path` is in a cache folder that can't be written."""
    try:
        inside = path.absolute().is_relative_to(cache_root().absolute())
    except A3GNNError:
        return error
    if not inside or error.errno is None:
        return error
    text = f"{os.strerror(error.errno)}: the cache folder can't be written; set {VARIABLE} to a writable folder"
    return type(error)(error.errno, text, str(error.filename or path))

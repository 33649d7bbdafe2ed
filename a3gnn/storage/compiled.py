"""`njit`: numba's, whose compiled code is kept where it can be written.

Numba keeps it beside the sources, else in the user's cache folder, and raises where it can write neither: in a
read-only container, or for a user without a home. Where the package can't be written it goes below a3gnn's cache
folder, and where that can't be either, into a folder that ends with the process. Kernels import `njit` from here, so
that this is settled before the first of them.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numba

from a3gnn.errors import A3GNNError, UsageError
from a3gnn.storage.root import VARIABLE, cache_root
from a3gnn.storage.workplace import Workplace

_PACKAGE = Path(__file__).parents[1]
#: Numba's own variable, which children inherit.
_FOLDER = "NUMBA_CACHE_DIR"
#: The folder that ends with the process, where there is one.
_kept: list[Workplace] = []


def _check_enabled() -> None:
    if numba.config.DISABLE_JIT:
        raise UsageError(
            "NUMBA_DISABLE_JIT must be 0 or not set for a3gnn, whose kernels run only when they are compiled, got "
            f"{os.environ.get('NUMBA_DISABLE_JIT') or numba.config.DISABLE_JIT}; unset it"
        )


def _settle_folder() -> None:
    """Chooses where compiled code goes, for this process and for those that it starts, unless the user has."""
    if os.environ.get(_FOLDER) or numba.config.CACHE_DIR or _beside_sources():
        return
    folder = str(_below_cache() or _temporary())
    os.environ[_FOLDER] = numba.config.CACHE_DIR = folder


def _beside_sources() -> bool:
    """Returns whether numba can write beside the sources of every room."""
    rooms = [_PACKAGE, *(Path(entry.path) for entry in os.scandir(_PACKAGE) if entry.is_dir())]
    kept = [room / "__pycache__" for room in rooms]
    return all(os.access(folder, os.W_OK) for folder in (*rooms, *(one for one in kept if one.is_dir())))


def _below_cache() -> Path | None:
    """Returns a folder in the cache folder, or None where that can't be written or is not known."""
    try:
        folder = cache_root().absolute() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, A3GNNError):
        return None


def _temporary() -> Path:
    """Returns a folder that is removed when this process ends.

    Raises:
        A3GNNError: There is no temporary directory that can be written.
    """
    try:
        _kept.append(Workplace())
    except OSError as error:
        raise A3GNNError(
            f"compiled kernels must be kept somewhere, but neither the package, nor the cache folder, nor a temporary "
            f"directory can be written ({error.strerror or error}); set {VARIABLE} to a folder that can"
        ) from error
    warnings.warn(
        f"neither the package nor the cache folder can be written: kernels are compiled anew by each program; set "
        f"{VARIABLE} to a folder that can be written to keep them",
        RuntimeWarning,
        stacklevel=2,
    )
    return _kept[-1].folder


_check_enabled()
_settle_folder()
njit: Any = numba.njit

"""`njit`: numba's, whose compiled code is kept where it can be written, apart for each version of the sources.

It is kept in $NUMBA_CACHE_DIR where the user has set it, else beside the sources; where that can't be written, in
a3gnn's cache folder, and where that can't be either, in a folder that ends with the process. In each of them it lies in
a folder of its own (`kernel_folder`). Every process finds that folder for itself, from the sources that it imports, so
that those of one start agree, and one that starts after an edit does not run what was compiled before it.

Kernels import `njit` from here, so that the folder is known before the first of them.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache

from a3gnn.errors import A3GNNError, UsageError
from a3gnn.storage.atomic import VARIABLE, cache_root
from a3gnn.storage.kernel_folder import adding, folder_name, hold, kernel_sources, remove_unused
from a3gnn.storage.workplace import Workplace

_PACKAGE = Path(__file__).parents[1]
_SOURCES = kernel_sources(_PACKAGE)
#: Numba's own variable, which children inherit.
_FOLDER = "NUMBA_CACHE_DIR"
#: Numba's options that change machine code and are not in its own key.
_OPTIONS = (
    "OPT",
    "LOOP_VECTORIZE",
    "SLP_VECTORIZE",
    "BOUNDSCHECK",
    "DEBUGINFO_DEFAULT",
    "FULL_TRACEBACKS",
    "USING_SVML",
)
#: The folder that ends with the process, where there is one.
_kept: list[Workplace] = []


def _check_enabled() -> None:
    if numba.config.DISABLE_JIT:
        raise UsageError(
            "NUMBA_DISABLE_JIT must be 0 or not set for a3gnn, whose kernels run only when they are compiled, got "
            f"{os.environ.get('NUMBA_DISABLE_JIT') or numba.config.DISABLE_JIT}; unset it"
        )


def _name() -> str:
    """Returns the name of the folder for the present sources, this interpreter and numba as it is set up now."""
    versions = [numba.__version__, llvmlite.__version__, np.__version__, sys.version, str(sys.flags.optimize)]
    options = [f"{name}={getattr(numba.config, name)!r}" for name in _OPTIONS]
    return folder_name(_PACKAGE, _SOURCES, [*versions, *options])


def _settled(name: str) -> Path:
    """Returns the folder called `name`, where it can be written, for this process and for those that it starts."""
    chosen = os.environ.get(_FOLDER) or numba.config.CACHE_DIR
    parent = Path(chosen).absolute() if chosen else _PACKAGE / "__pycache__"
    if (chosen or _beside_sources()) and _takes(parent / name):
        return parent / name
    parent = _below_cache(name) or _temporary()
    if chosen:
        warnings.warn(
            f"{_FOLDER} must name a folder that can be written, got {chosen}, where {name} can't: compiled kernels are "
            f"kept in {parent}",
            RuntimeWarning,
            stacklevel=2,
        )
    else:
        os.environ[_FOLDER] = numba.config.CACHE_DIR = str(parent)
    hold(parent / name)
    return parent / name


def _beside_sources() -> bool:
    """Returns whether this process may write beside the sources."""
    kept = _PACKAGE / "__pycache__"
    return all(os.access(folder, os.W_OK) for folder in (_PACKAGE, kept) if folder.exists())


def _takes(folder: Path) -> bool:
    """Returns whether `folder` exists now, is held, and can be written."""
    try:
        hold(folder)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _below_cache(name: str) -> Path | None:
    """Returns a folder in the cache folder, or None where that can't be written or is not known."""
    try:
        parent = cache_root().absolute() / "kernels"
    except A3GNNError:
        return None
    return parent if _takes(parent / name) else None


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


def _states() -> list[tuple[int, int, int]]:
    """Returns when each of the sources was changed, and its size; none of a package that lies in an archive."""
    states = []
    with suppress(OSError):
        for source in _SOURCES:
            state = (_PACKAGE / source).stat()
            states.append((state.st_mtime_ns, state.st_ctime_ns, state.st_size))
    return states


_check_enabled()
#: Before they are hashed: while these are the same, kernels are compiled from what the name says.
_HASHED = _states()
#: The folder of compiled kernels that this process loads and adds to.
KERNELS = _settled(_name())
remove_unused(KERNELS.parent)


class _Place:
    """Where numba keeps one function, in the form of its locators.

    Numba's own look only at its settings, and those hold for the user's functions too, which stay where they are.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._py_file = inspect.getfile(function)
        self._line = function.__code__.co_firstlineno

    def ensure_cache_path(self) -> None:
        hold(KERNELS)

    def get_cache_path(self) -> str:
        return str(KERNELS)

    def get_source_stamp(self) -> str:
        return hashlib.blake2b(Path(self._py_file).read_bytes()).hexdigest()

    def get_disambiguator(self) -> str:
        return str(self._line)


class _Files(CompileResultCacheImpl):  # type: ignore[misc]  # numba carries no types
    """The files of one function, named by its module too: one folder has them all."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Place(function)
        self._filename_base = self.get_filename_base(f"{function.__module__}.{function.__qualname__}", sys.abiflags)


class _Cache(FunctionCache):  # type: ignore[misc]  # numba carries no types
    """Numba's cache of one function, unused once sources have changed: what is imported then may be of other ones."""

    _impl_class = _Files

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Returns compiled code from the folder, or None where it has none, or is no longer the sources' folder."""
        return super().load_overload(sig, target_context) if _states() == _HASHED else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Adds compiled code to the folder, unless that is no longer the sources' folder."""
        if _states() == _HASHED:
            with adding(KERNELS):
                super().save_overload(sig, data)


def njit(*, cache: bool = False, **options: Any) -> Any:
    """Decorates a function like numba's `njit`.

    Args:
        cache: Whether its compiled code is kept for other processes, in `KERNELS`.
        options: Numba's.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = numba.njit(**options)(function)
        if cache and Path(inspect.getfile(function)).is_file():  # not in an archive
            kernel._cache = _Cache(function)
        return kernel

    return decorate

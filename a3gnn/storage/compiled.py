"""`njit`: numba's, with compiled code cached in a writable folder, a separate one for each version of the sources.

The cache is in $NUMBA_CACHE_DIR if the user has set it, else beside the sources. If that can't be written, it is in
a3gnn's cache folder, and otherwise in a folder that is removed when the process ends. In each of them the code has its
own folder (`kernel_folder`). Every process computes the folder's name from the sources that it imports. So processes of
one start agree, and a process that starts after an edit does not run older code.

Kernels must import `njit` from here, so the folder is known before the first of them. `readonly` gives their arrays one
type.
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
from numpy.typing import NDArray

from a3gnn.errors import A3GNNError, UsageError
from a3gnn.storage.cache import VARIABLE, cache_root
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
#: The folder that is removed at the end of the process, if there is one.
_kept: list[Workplace] = []


def _check_enabled() -> None:
    if numba.config.DISABLE_JIT:
        raise UsageError(
            "NUMBA_DISABLE_JIT must be 0 or unset, because a3gnn's kernels run only when they are compiled, got "
            f"{os.environ.get('NUMBA_DISABLE_JIT') or numba.config.DISABLE_JIT}; unset it"
        )


def _name() -> str:
    """Returns the folder name for the present sources, this interpreter, and numba with its present settings."""
    versions = [numba.__version__, llvmlite.__version__, np.__version__, sys.version, str(sys.flags.optimize)]
    options = [f"{name}={getattr(numba.config, name)!r}" for name in _OPTIONS]
    return folder_name(_PACKAGE, _SOURCES, [*versions, *options])


def _settled(name: str) -> Path:
    """Returns the first writable folder called `name`, for this process and for processes that it starts."""
    chosen = os.environ.get(_FOLDER) or numba.config.CACHE_DIR
    parent = Path(chosen).absolute() if chosen else _PACKAGE / "__pycache__"
    if (chosen or _beside_sources()) and _takes(parent / name):
        return parent / name
    parent = _below_cache(name) or _temporary()
    if chosen:
        warnings.warn(
            f"{_FOLDER} must name a folder in which {name} can be written, got {chosen}; compiled kernels are stored "
            f"in {parent}",
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
    """Creates and holds `folder`; returns whether it can be written."""
    try:
        hold(folder)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _below_cache(name: str) -> Path | None:
    """Returns a folder in the cache folder, or None if that can't be written or is unknown."""
    try:
        parent = cache_root().absolute() / "kernels"
    except A3GNNError:
        return None
    return parent if _takes(parent / name) else None


def _temporary() -> Path:
    """Returns a folder that is removed when this process ends.

    Raises:
        A3GNNError: There is no writable temporary directory.
    """
    try:
        _kept.append(Workplace())
    except OSError as error:
        raise A3GNNError(
            "compiled kernels need a writable folder, but the package, the cache folder and temporary directories "
            f"can't be written ({error.strerror or error}); set {VARIABLE} to a writable folder"
        ) from error
    warnings.warn(
        "the package and the cache folder can't be written, so each program compiles the kernels again; set "
        f"{VARIABLE} to a writable folder to keep them",
        RuntimeWarning,
        stacklevel=2,
    )
    return _kept[-1].folder


def _states() -> list[tuple[int, int, int]]:
    """Returns time of change and size of each of the sources; none for a package in an archive."""
    states = []
    with suppress(OSError):
        for source in _SOURCES:
            state = (_PACKAGE / source).stat()
            states.append((state.st_mtime_ns, state.st_ctime_ns, state.st_size))
    return states


_check_enabled()
#: Taken before the sources are hashed: kernels match the folder's name as long as these states are the same.
_HASHED = _states()
#: The folder of compiled kernels that this process loads and adds to.
KERNELS = _settled(_name())
remove_unused(KERNELS.parent)


class _Place:
    """A cache locator of numba's interface, for one function.

    Numba's own locators use only its settings, which also hold for the user's functions and must not change.
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
    """The files of one function; the module is part of their names, because one folder contains all of them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Place(function)
        self._filename_base = self.get_filename_base(f"{function.__module__}.{function.__qualname__}", sys.abiflags)


class _Cache(FunctionCache):  # type: ignore[misc]  # numba carries no types
    """Numba's cache of one function; off after a change of the sources, because later imports may differ."""

    _impl_class = _Files

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Returns compiled code from the folder, or None if the folder has none or the sources have changed."""
        return super().load_overload(sig, target_context) if _states() == _HASHED else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Adds compiled code to the folder, unless the sources have changed."""
        if _states() == _HASHED:
            with adding(KERNELS):
                super().save_overload(sig, data)


def njit(*, cache: bool = False, **options: Any) -> Any:
    """Decorates a function like numba's `njit`.

    Args:
        cache: Whether the compiled code is cached for other processes, in `KERNELS`.
        options: Numba's.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = numba.njit(**options)(function)
        if cache and Path(inspect.getfile(function)).is_file():  # not in an archive
            kernel._cache = _Cache(function)
        return kernel

    return decorate


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """Returns a read-only view of `array`, memory maps included: with one type of array, kernels compile once."""
    view = np.ascontiguousarray(np.asarray(array)).view()
    view.flags.writeable = False
    return view

"""Imports of many and of optional packages, and the system that a3gnn needs; each error contains the remedy."""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from a3gnn.errors import A3GNNError, MissingDependencyError


def other_system() -> str:
    """Returns the error text for a system other than Linux, with the remedy; "" on Linux."""
    import platform  # here, because every command imports this module

    system = platform.system() if sys.platform == "linux" else sys.platform
    if system == "Linux":
        return ""
    name = {"darwin": "macOS", "Darwin": "macOS", "win32": "Windows"}.get(system, system or "unknown")
    return f"a3gnn runs on Linux only, this system is {name}; use {'WSL' if name == 'Windows' else 'a Linux container'}"


def need_linux() -> None:
    """Raises an `A3GNNError` on other systems, which lack the locks and memory figures that a3gnn needs."""
    if reason := other_system():
        raise A3GNNError(reason)


@contextmanager
def importing(*, freeze: bool = True) -> Iterator[None]:
    """Stops Python's garbage collector within this context; afterwards it ignores the objects that exist by then.

    Modules keep almost all objects that they create. Torch's and a3gnn's are so many that searching them for garbage
    takes a sixth of the import's time, and as long again soon after.

    Args:
        freeze: False in a process that may be the user's, because objects of the user exist there.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if freeze and not gc.get_freeze_count():
                gc.freeze()
            gc.enable()


def optional(module: str, extra: str, purpose: str) -> ModuleType:
    """Returns the imported `module`.

    Raises:
        MissingDependencyError: It is not installed; the message says what needs it and how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{purpose} needs the package {module.split('.')[0]!r}, which can't be imported ({error}); "
            f"install it with: {install_line(extra)}"
        ) from error


def install_line(extra: str) -> str:
    """Returns the command that installs the packages of `extra` for this a3gnn.

    pip knows an installed a3gnn by its name, even if no index has it. A copy that was never installed needs its folder.
    """
    try:
        importlib.metadata.distribution("a3gnn")
        place = "a3gnn"
    except importlib.metadata.PackageNotFoundError:
        place = str(Path(__file__).resolve().parents[1])
    return f'pip install "{place}[{extra}]"'

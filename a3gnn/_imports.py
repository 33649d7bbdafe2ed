"""Imports optional packages; the error for a missing one contains the command that installs it."""

from __future__ import annotations

import importlib
import importlib.metadata
from pathlib import Path
from types import ModuleType

from a3gnn.errors import MissingDependencyError


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

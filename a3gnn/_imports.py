"""Optional packages: one helper, called where they are used, whose error holds the line that installs them."""

from __future__ import annotations

import importlib
from types import ModuleType

from a3gnn.errors import MissingDependencyError


def optional(module: str, extra: str, purpose: str) -> ModuleType:
    """Returns the imported `module`.

    Raises:
        MissingDependencyError: It is not installed; the message says what for and how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{purpose} needs the package {module.split('.')[0]!r}, which can't be imported ({error}); "
            f'install it with: pip install "a3gnn[{extra}]"'
        ) from error

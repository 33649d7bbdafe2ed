"""The versions that a tuned.json names."""

from __future__ import annotations

import importlib.metadata
import platform

from a3gnn.version import __version__

_VERSIONS_OF = ("torch", "torch_geometric", "numba", "numpy", "stable-baselines3", "optuna")


def versions() -> dict[str, str]:
    """Returns the versions of a3gnn, Python and the packages that decide results, those that are installed."""
    found = {"a3gnn": __version__, "python": platform.python_version()}
    for name in _VERSIONS_OF:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found

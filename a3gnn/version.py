"""The version of a3gnn, and of the packages that influence its results."""

__version__ = "0.2.0"
#: What a3gnn is for; README, docs and packages have the same line.
PURPOSE = (
    "Train graph neural networks to the same accuracy in a fraction of the time and memory, on the machine you have."
)

#: Packages that influence results.
_VERSIONS_OF = ("torch", "torch_geometric", "numba", "numpy", "stable-baselines3", "optuna")


def versions() -> dict[str, str]:
    """Returns the versions of a3gnn, of Python, and of the installed packages that influence results."""
    import platform  # here, because every command imports this module
    from importlib import metadata

    found = {"a3gnn": __version__, "python": platform.python_version()}
    for name in _VERSIONS_OF:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found

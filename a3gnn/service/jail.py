"""The datasets that a request may name: graphs below the data root, and synthetic graphs of bounded size."""

from __future__ import annotations

from pathlib import Path

from a3gnn.errors import GraphError
from a3gnn.graphs.synthetic.recipe import Recipe
from a3gnn.service.settings import ServiceSettings

_SYNTHETIC, _SPLIT = "synthetic:", "split:"
#: Schemes that a3gnn takes elsewhere, and the reason why the server refuses them.
_REFUSED = {
    "pyg:": "it downloads, and unpickles what it has downloaded",
    "ogb:": "it downloads, and unpickles what it has downloaded",
}
_CONVERT = "a3gnn graph convert SPEC FOLDER makes a folder of it, which can be put below the data root"


def admitted(spec: str, settings: ServiceSettings) -> str:
    """Returns the dataset to load for the graph that a request names as `spec`.

    Raises:
        GraphError: A request may not name it, or it does not exist.
    """
    for scheme, why in _REFUSED.items():
        if spec.startswith(scheme):
            raise GraphError(f"the server takes no {scheme} data sets, got {spec!r}: {why}; {_CONVERT}")
    if spec.startswith(_SPLIT):
        raise GraphError(
            f"the server splits no graph, got {spec!r}: it opens graphs as they are below the data root; a3gnn graph "
            "convert SPEC FOLDER --split TRAIN,VAL,TEST makes a folder with that split, which can be put there"
        )
    if spec.startswith(_SYNTHETIC):
        _bounded(Recipe.parse(spec.removeprefix(_SYNTHETIC)), settings)
        return spec
    return str(_below(spec, settings.data_root))


def _bounded(recipe: Recipe, settings: ServiceSettings) -> None:
    edges = 2 * recipe.nodes * recipe.degree
    for what, found, most in (
        ("nodes", recipe.nodes, settings.max_nodes),
        ("edges", edges, settings.max_edges),
        ("bytes of features", recipe.nodes * recipe.features * 4, settings.max_upload_bytes),
    ):
        if found > most:
            raise GraphError(f"a graph may have {most:,} {what} here, got {found:,.0f}; choose a smaller one")


def _below(spec: str, root: Path | None) -> Path:
    """Returns the path of `spec`, with links resolved, after a check that it lies below `root`."""
    if root is None:
        raise GraphError(
            f"the server was started without --data-root, so it opens no path, got {spec!r}; upload the graph, or name "
            "a synthetic one"
        )
    try:
        root = root.resolve(strict=True)
        path = (root / spec).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        raise GraphError(
            f"there is no {spec!r} below the data root; a path counts from there, and GET /graphs lists the graphs "
            "that are known"
        ) from None
    if not path.is_relative_to(root):
        # The same message as for a missing file, so that nobody learns which files exist outside.
        raise GraphError(
            f"there is no {spec!r} below the data root; a path counts from there, and GET /graphs lists the graphs "
            "that are known"
        )
    if path.is_file() and path.suffix != ".npz":
        raise GraphError(
            f"the server opens .npz files and converted folders, got {spec!r}: other files may be pickles; {_CONVERT}"
        )
    return path

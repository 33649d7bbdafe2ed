"""`as_graph`: a graph from any form in which users pass their data."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.load import FORMS, is_file
from a3gnn.graphs.pyg import is_hetero, remedy_for
from a3gnn.graphs.split import Split
from a3gnn.graphs.target import Target
from a3gnn.option_names import option

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData

    #: The data that `as_graph` takes; loaders take a `TemporalData`, too.
    GraphLike: TypeAlias = str | os.PathLike[str] | Graph | Data | HeteroData


def as_graph(data: object, split: Split | None = None, target: str = "") -> Graph:
    """Returns `data` as a graph.

    Args:
        data: A path or another spec that `Graph.load` takes, a graph, or a PyG `Data`.
        split: Replaces the graph's own split.
        target: The predicted type of several node types; "" for the only one with labels.

    Raises:
        UsageError: `data` is something else.
        GraphError: The graph can't be read, or is not valid.
    """
    given: tuple[Any, ...] = () if split is None else (split.shares, split.seed)
    if isinstance(data, Graph):
        if target and (data.types is None or data.types.target != target):
            raise UsageError(
                f"{option('target', target)} must be left out for an a3gnn Graph, which has its own target"
            )
        return data.resplit(*given) if given else data
    if isinstance(data, str | os.PathLike):
        return Graph.load(Target(target).within(os.fspath(data)), *given)
    if is_data(data) or is_hetero(data):
        return Graph.from_pyg(
            data, split=split.shares if split else None, split_seed=split.seed if split else 0, target=target
        )
    got = repr(data) if data is None or isinstance(data, int | float | type) else type(data).__name__
    raise UsageError(f"data must be a path or spec, an a3gnn Graph or a PyG Data, got {got}{remedy_for(data)}; {FORMS}")


def as_unlabeled(data: object, target: str = "") -> Graph:
    """Returns `data` as a graph, for prediction; files and a `Data` need neither y nor masks.

    `target` is the predicted type of several.

    Raises:
        UsageError: `data` is something else.
        GraphError: The graph can't be read, or is not valid.
    """
    if is_file(data):
        return Graph.load_unlabeled(data, target)  # type: ignore[arg-type]
    if is_data(data) or is_hetero(data):
        return Graph.from_unlabeled(data, target=target)
    return as_graph(data, target=target)


def spec_of(data: object, graph: Graph, split: Split | None = None) -> str:
    """Returns a spec from which `Graph.load` restores `graph`, in any working folder.

    It is a file's absolute path, or any other spec unchanged; for a graph in RAM or a `Data`, it is the copy in the
    cache folder. A split is part of the spec, with its seed.

    Args:
        data: The data of which `as_graph` made `graph`.
        graph: The result of `as_graph`.
        split: The split given to `as_graph`.
    """
    if not isinstance(data, str | os.PathLike):
        return str(graph.on_disk().folder)
    own, spec = Split.in_spec(os.fspath(data))
    target, spec = Target.in_spec(spec)
    spec, split = str(Path(spec).resolve()) if Path(spec).exists() else spec, split or own
    if graph.types is not None:
        target = Target(graph.types.target)
    spec = target.spec(spec)
    return spec if split is None else split.spec(spec)


def is_data(data: object) -> bool:
    """Returns whether `data` is a PyG `Data`; it imports nothing, because PyG is imported already if there is one."""
    pyg = sys.modules.get("torch_geometric.data")
    return pyg is not None and isinstance(data, pyg.Data)

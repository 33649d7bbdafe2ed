"""`as_graph`: what people pass as their data, as a graph."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.load import FORMS

if TYPE_CHECKING:
    from torch_geometric.data import Data

    #: What `as_graph` takes.
    GraphLike: TypeAlias = str | os.PathLike[str] | Graph | Data

#: By package and class, what to do with kinds of data that are often passed.
_REMEDIES = {
    "torch_geometric.HeteroData": "heterogeneous graphs are not supported, data.to_homogeneous() may make one of it",
    "torch_geometric.TemporalData": "temporal graphs are not supported",
    "torch_geometric.Dataset": "give dataset[0]",
    "networkx.Graph": "torch_geometric.utils.from_networkx makes a Data of it",
    "dgl.DGLGraph": "torch_geometric.utils.from_dgl makes a Data of it",
}


def as_graph(data: object) -> Graph:
    """Returns the graph that `data` is, names or holds.

    Args:
        data: A path or another spec that `Graph.load` takes, a graph, or a PyG `Data`.

    Raises:
        UsageError: `data` is something else.
        GraphError: The graph can't be read, or is not valid.
    """
    if isinstance(data, Graph):
        return data
    if isinstance(data, str | os.PathLike):
        return Graph.load(os.fspath(data))
    if is_data(data):
        return Graph.from_pyg(data)
    names = [f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(data).__mro__]
    remedy = next((f"; {_REMEDIES[name]}" for name in names if name in _REMEDIES), "")
    got = repr(data) if data is None or isinstance(data, int | float | type) else type(data).__name__
    raise UsageError(f"data must be a path or spec, an a3gnn Graph or a PyG Data, got {got}{remedy}; {FORMS}")


def spec_of(data: object, graph: Graph) -> str:
    """Returns what loads the `graph` that `as_graph` made of `data` again, from any working folder.

    A file's whole path, any other spec as it is; of a graph in RAM or a `Data`, the copy in the cache folder.
    """
    if isinstance(data, str | os.PathLike):
        return str(Path(data).resolve()) if Path(data).exists() else os.fspath(data)
    return str(graph.on_disk().folder)


def is_data(data: object) -> bool:
    """Returns whether `data` is a PyG `Data`; imports nothing, as whoever has one has PyG."""
    pyg = sys.modules.get("torch_geometric.data")
    return pyg is not None and isinstance(data, pyg.Data)

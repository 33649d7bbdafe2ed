"""`graph_of`: a PyG `Data` as the graph that a `Loader` samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from a3gnn.errors import GraphError
from a3gnn.graphs.assemble import in_neighbours
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.pyg import edge_attributes
from a3gnn.graphs.validate import check_edges, check_features

if TYPE_CHECKING:
    from torch_geometric.data import Data


def graph_of(data: Data) -> Graph:
    """Returns the structure and the features of `data`, sharing the memory of its `x`.

    Unlike `Graph.from_pyg` it reads no labels and no masks, so these may be of any kind, or missing: every node is
    unlabelled, and none is for training.

    Raises:
        GraphError: `data` has no dense `x` of float32 or float16 or no `edge_index`, has attributes of edges, or is not
            a valid graph.
    """
    for name in ("x", "edge_index"):
        if data.get(name) is None:
            raise GraphError(f"a PyG Data must have x and edge_index, this one lacks {name}; it has {data.keys()}")
    for name in edge_attributes(data):
        raise GraphError(
            f"{name} belongs to edges, and mini-batches know nodes only; delete it (del data.{name}), "
            "or use PyG's NeighborLoader"
        )
    x = data.x
    if x.is_sparse or x.is_sparse_csr:
        raise GraphError(f"x must be a dense tensor, got {x.layout}; give Graph.from_pyg(data), which keeps it sparse")
    if x.dtype not in (torch.float32, torch.float16):
        raise GraphError(
            f"x must be float32 or float16, got {str(x.dtype).removeprefix('torch.')}; data.x = data.x.float(), "
            "or data.x.half() for half the memory"
        )
    features = DenseFeatures(np.ascontiguousarray(data.x.detach().cpu().numpy()))
    edges = data.edge_index.detach().cpu().numpy()
    check_features(features)
    check_edges(edges, len(features.array))
    indptr, indices, notes = in_neighbours(edges, len(features.array))
    nobody = np.empty(0, dtype=np.int32)
    unlabelled = np.broadcast_to(np.int64(-1), len(features.array))
    return Graph("pyg", indptr, indices, features, unlabelled, nobody, nobody, nobody, num_classes=0, notes=notes)

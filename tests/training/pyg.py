"""What PyG's plain modules answer of whole graphs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.models.model import Model
from a3gnn.task import Task
from a3gnn.training.pyg_modules import pyg_module, to_pyg_state_dict


def pyg_logits(task: Task, model: Model, graph: Graph) -> Tensor:
    """Returns the logits of all nodes by PyG's module with the weights of `model`."""
    theirs = pyg_module(task, graph.num_features, graph.num_classes)
    theirs.load_state_dict(to_pyg_state_dict(model.state_dict(), task))
    return logits_of(theirs, graph)


@torch.no_grad()
def logits_of(module: nn.Module, graph: Graph) -> Tensor:
    """Returns the logits of all nodes by a module of PyG's, in evaluation mode."""
    found: Tensor = module.eval()(*whole(graph))
    return found


def whole(graph: Graph) -> tuple[Tensor, Tensor]:
    """Returns the graph's features and edge_index."""
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    edge_index = torch.from_numpy(np.stack([graph.indices.astype(np.int64), targets]))
    features = graph.features
    if isinstance(features, DenseFeatures):
        x = torch.from_numpy(features.array.astype(np.float32))
    else:
        parts = (torch.from_numpy(np.array(a)) for a in (features.indptr, features.indices.astype(np.int64)))
        values = torch.from_numpy(features.data.astype(np.float32))
        x = torch.sparse_csr_tensor(*parts, values, features.shape, check_invariants=True).to_dense()
    return x, edge_index

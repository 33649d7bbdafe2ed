"""`BatchEdges`: a mini-batch's edges in the form of PyG's loaders, for each of its three subgraph types."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.errors import UsageError, unknown_name
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.pyg_structure import edge_index
from a3gnn.sampling.edge_sampler import EdgeSampler

SubgraphType = Literal["directional", "bidirectional", "induced"]
SUBGRAPH_TYPES: tuple[SubgraphType, ...] = get_args(SubgraphType)


class BatchEdges(NamedTuple):
    """Edges of a mini-batch, targets ascending.

    Attributes:
        edge_index: Sources and targets as places in `n_id`, shape (2, num_edges).
        e_id: Each edge's place in the data, int64, shape (num_edges,); None if the sampler doesn't know it.
    """

    edge_index: Tensor
    e_id: Tensor | None


def subgraph_type_of(value: Any, directed: Any = True) -> SubgraphType:
    """Returns the subgraph type.

    Args:
        value: A name or PyG's `SubgraphType`.
        directed: PyG's older option; False means induced.

    Raises:
        UsageError: There is no such type, or `directed` is not a bool.
    """
    asked = getattr(value, "value", value)
    if asked not in SUBGRAPH_TYPES:
        raise unknown_name("subgraph_type", asked, SUBGRAPH_TYPES)
    if not isinstance(directed, bool | np.bool_):
        raise UsageError(f"directed must be True or False, got {directed!r}")
    kind: SubgraphType = asked if directed else "induced"
    return kind


def sampled_edges(batch: MiniBatch, dtype: torch.dtype) -> BatchEdges:
    """Returns the sampled edges, by target; `edge_index` has `dtype` and is on the mini-batch's device."""
    e_id = batch.subgraph.e_id
    found = edge_index(batch.indptr, batch.indices, dtype)
    return BatchEdges(found, None if e_id is None else torch.from_numpy(e_id))


def both_ways(edges: BatchEdges, num_nodes: int) -> BatchEdges:
    """Returns `edges` and their reverses, each pair of nodes once in each direction.

    A sampled edge keeps its id, or the first id of several equal edges. Any other edge has the id of its reverse.
    """
    sources, targets = (row.cpu().long().numpy() for row in edges.edge_index)
    keys = np.concatenate([targets * num_nodes + sources, sources * num_nodes + targets])
    distinct, first = np.unique(keys, return_index=True)
    pairs = torch.from_numpy(np.stack([distinct % num_nodes, distinct // num_nodes]))
    e_id = None if edges.e_id is None else edges.e_id[torch.from_numpy(first % max(len(sources), 1))]
    return BatchEdges(pairs.to(edges.edge_index), e_id)


def all_between(n_id: NDArray[np.int32], sampler: EdgeSampler, like: Tensor) -> BatchEdges:
    """Returns all edges between the nodes `n_id`; `edge_index` has the dtype and device of `like`."""
    indptr, sources, ids = sampler.induced(n_id)
    found = edge_index(torch.from_numpy(indptr), torch.from_numpy(sources), like.dtype)
    return BatchEdges(found.to(like.device), torch.from_numpy(ids))

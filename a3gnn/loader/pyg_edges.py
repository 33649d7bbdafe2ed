"""`BatchEdges`: a mini-batch's edges as PyG's loaders give them, in one of its three kinds of subgraph."""

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
        e_id: Each edge's place in the data, int64, shape (num_edges,); None where the sampler doesn't know it.
    """

    edge_index: Tensor
    e_id: Tensor | None


def subgraph_type_of(value: Any, directed: Any = True) -> SubgraphType:
    """Returns the kind of subgraph that `value`, text or PyG's `SubgraphType`, asks for.

    Args:
        value: What was given.
        directed: PyG's older word: False is induced.

    Raises:
        UsageError: There is no such kind.
    """
    asked = getattr(value, "value", value)
    if asked not in SUBGRAPH_TYPES:
        raise unknown_name("subgraph_type", asked, SUBGRAPH_TYPES)
    if not isinstance(directed, bool | np.bool_):
        raise UsageError(f"directed must be True or False, got {directed!r}")
    kind: SubgraphType = asked if directed else "induced"
    return kind


def sampled_edges(batch: MiniBatch, dtype: torch.dtype) -> BatchEdges:
    """Returns the edges that were sampled, by target; `edge_index` has `dtype` and lies where the mini-batch does."""
    e_id = batch.subgraph.e_id
    found = edge_index(batch.indptr, batch.indices, dtype)
    return BatchEdges(found, None if e_id is None else torch.from_numpy(e_id))


def both_ways(edges: BatchEdges, num_nodes: int) -> BatchEdges:
    """Returns `edges` and their reverses, each pair of nodes once in each direction.

    An edge that was sampled keeps its id, of several the first one's; one that was not has its reverse's.
    """
    sources, targets = (row.cpu().long().numpy() for row in edges.edge_index)
    keys = np.concatenate([targets * num_nodes + sources, sources * num_nodes + targets])
    distinct, first = np.unique(keys, return_index=True)
    pairs = torch.from_numpy(np.stack([distinct % num_nodes, distinct // num_nodes]))
    e_id = None if edges.e_id is None else edges.e_id[torch.from_numpy(first % max(len(sources), 1))]
    return BatchEdges(pairs.to(edges.edge_index), e_id)


def all_between(n_id: NDArray[np.int32], sampler: EdgeSampler, like: Tensor) -> BatchEdges:
    """Returns all edges between the nodes `n_id`; `edge_index` has the type and device of `like`."""
    indptr, sources, ids = sampler.induced(n_id)
    found = edge_index(torch.from_numpy(indptr), torch.from_numpy(sources), like.dtype)
    return BatchEdges(found.to(like.device), torch.from_numpy(ids))

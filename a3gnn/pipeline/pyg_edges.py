"""A mini-batch's edges in the forms of PyG: edge index and sparse CSR for convolutions, `BatchEdges` for loaders."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3gnn.errors import UsageError, unknown_name
from a3gnn.graphs.edge_list_kernels import write_edge_index
from a3gnn.graphs.schema import Relation
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.storage.csr_tensor import csr

SubgraphType = Literal["directional", "bidirectional", "induced"]
SUBGRAPH_TYPES: tuple[SubgraphType, ...] = get_args(SubgraphType)


def edge_index(indptr: Tensor, indices: Tensor, dtype: torch.dtype = torch.int64) -> Tensor:
    """Returns sources and targets as places in `n_id`, shape (2, num_edges), sorted by target.

    Args:
        indptr: CSR pointers of a `Subgraph` or graph, as an integer tensor.
        indices: CSR indices, on the same device.
        dtype: Type of the result.
    """
    edges = indices.numel()
    found = torch.empty((2, edges), dtype=dtype, device=indptr.device)
    if indptr.device.type == "cpu":  # one pass, where torch's operators are five
        write_edge_index(indptr.numpy(), indices.numpy(), found.numpy())
        return found
    rows = torch.arange(len(indptr) - 1, device=indptr.device)
    found[0] = indices
    found[1] = rows.repeat_interleave(indptr.diff().long(), output_size=edges)
    return found


def adjacencies(subgraph: Subgraph, indptr: Tensor, indices: Tensor) -> list[Tensor]:
    """Returns each sampled layer's adjacency, input layer first: sparse CSR of ones, shape (num_dst, num_src).

    Indices are int64, because gather, scatter and softmax in PyG's convolutions accept no other type.

    Args:
        subgraph: Decides the layers and their sizes.
        indptr: `subgraph.indptr` as a tensor.
        indices: `subgraph.indices` as a tensor, on the same device.
    """
    indptr, indices = indptr.long(), indices.long()
    ones = torch.ones(len(indices), device=indices.device)
    found = []
    for layer in range(subgraph.num_layers):
        block = subgraph.block(layer)
        edges = len(block.indices)
        size = (block.num_dst, block.num_src)
        found.append(csr(indptr[: block.num_dst + 1], indices[:edges], ones[:edges], size))
    return found


class BatchEdges(NamedTuple):
    """Edges of a mini-batch, targets ascending."""

    edge_index: Tensor  # sources and targets as places in `n_id`, shape (2, num_edges)
    e_id: Tensor | None  # each edge's place in the data, int64, shape (num_edges,); None if the sampler doesn't know it


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


def relations_both_ways(edges: Sequence[BatchEdges], relations: Sequence[Relation]) -> list[BatchEdges]:
    """Returns the edges of each relation and the reverses of those of its reverse relation, without ids, as PyG does.

    The reverse of a relation is `rev_NAME`; without one, the relation itself within one type, or the only relation back
    between two types. A relation with no or several ways back stays as it is, with a warning.
    """
    result, place = list(edges), {relation: number for number, relation in enumerate(relations)}
    for number, relation in enumerate(relations):
        if relation.name.startswith("rev_"):
            continue
        named = Relation(relation.target, f"rev_{relation.name}", relation.source)
        back = [one for one in relations if (one.source, one.target) == (relation.target, relation.source)]
        if named not in place and relation.source != relation.target and len(back) != 1:
            warnings.warn(
                f"subgraph_type bidirectional leaves {'__'.join(relation)} as it is: a relation back must be named "
                f"{named.name!r} or be the only one, got {len(back)}",
                stacklevel=2,
            )
            continue
        other = place[named] if named in place else number if relation.source == relation.target else place[back[0]]
        reverse = edges[other].edge_index.flip(0)
        pairs = torch.unique(torch.cat([edges[number].edge_index, reverse], dim=1), dim=1)
        pairs = pairs[:, pairs[1].argsort(stable=True)]
        result[number] = BatchEdges(pairs, None)
        if named in place:
            back_pairs = pairs.flip(0)
            result[other] = BatchEdges(back_pairs[:, back_pairs[1].argsort(stable=True)], None)
    return result


def all_between(n_id: NDArray[np.int32], sampler: Sampler, like: Tensor) -> BatchEdges:
    """Returns all edges between the nodes `n_id`; `edge_index` has the dtype and device of `like`."""
    indptr, sources, ids = sampler.induced(n_id)
    found = edge_index(torch.from_numpy(indptr), torch.from_numpy(sources), like.dtype)
    return BatchEdges(found.to(like.device), None if ids is None else torch.from_numpy(ids))

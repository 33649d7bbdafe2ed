"""`known_edges`: what is known of an edge_index, such as its CSR, for as long as the tensor lives unchanged."""

from __future__ import annotations

import threading
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from a3gnn.graphs.schema import Schema
from a3gnn.sampling.typed import TypedSubgraph


@dataclass(eq=False, slots=True)
class KnownEdges:
    """Facts about an edge_index with its present contents.

    Attributes:
        state: Version, memory and shape of the tensor when this was written.
        csr: indptr and indices, int32, of edges sorted by target; rows beyond the CSR have no edges. None if unknown.
        hop_sizes: Nodes known after each hop of a directional mini-batch (`Subgraph.hop_sizes`); empty for others.
        target_sizes: The same for a relation of a typed mini-batch: nodes of its target type.
        last_degrees: In-degrees of the last nodes, without self loops, if their edges are missing because the input
            layer has aggregated in-neighbors already. None if the edges are complete.
        derived: Objects that others compute from the edges, by a key of theirs.
    """

    state: tuple[Any, ...]
    csr: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None
    hop_sizes: tuple[int, ...] = ()
    target_sizes: tuple[int, ...] = ()
    last_degrees: NDArray[np.float32] | None = None
    derived: dict[Any, Any] = field(default_factory=dict)


_known: MutableMapping[Tensor, KnownEdges] = WeakTensorKeyDictionary()
_lock = threading.Lock()


def known_edges(edge_index: Tensor) -> KnownEdges:
    """Returns what is known of `edge_index`; nothing after it was changed in place.

    Changes are seen by the tensor's version, which torch raises with each operation in place. Writes through NumPy or
    `Tensor.data` don't raise it.
    """
    if edge_index.is_inference():  # has no version
        return KnownEdges(())
    state = (edge_index._version, edge_index.data_ptr(), edge_index.shape, edge_index.stride())
    with _lock:
        found = _known.get(edge_index)
        if found is None or found.state != state:
            found = _known[edge_index] = KnownEdges(state)
        return found


def note_target_sizes(edges: Sequence[Tensor], view: TypedSubgraph, schema: Schema) -> None:
    """Notes `target_sizes` of the edge lists of a directional mini-batch `view`, one for each relation of `schema`."""
    totals = dict(zip(schema.types, view.num_sampled_nodes.cumsum(axis=1).tolist(), strict=True))
    for one, relation in zip(edges, schema.relations, strict=True):
        known_edges(one).target_sizes = tuple(totals[relation.target])

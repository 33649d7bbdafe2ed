"""`make_parts`: cuts a graph into parts on disk, one for each graph server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import Partitioner
from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.arrays import row_slots, row_spans
from a3gnn.graphs.describe import neighbor_entries
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition
from a3gnn.option_names import option
from a3gnn.parts.part import ROLES, write_meta
from a3gnn.storage.atomic import need_room, replacing
from a3gnn.storage.claim import claimed_whole
from a3gnn.storage.mapping import settle
from a3gnn.storage.npy import PIECE, NpyWriter, slices
from a3gnn.units import count

#: Most parts: a node's part is a byte.
MOST_PARTS = 256


@dataclass(frozen=True, slots=True)
class MadePart:
    """The result of writing one part."""

    folder: Path  # the part's folder
    nodes: int
    edges: int  # number of edges into them
    cut_edges: int  # number of these edges from other parts
    num_bytes: int  # bytes on disk


def make_parts(
    graph: Graph,
    folder: Path,
    num_parts: int,
    *,
    partitioner: Partitioner = "metis",
    seed: int = 0,
    notify: Callable[[str], None] = lambda line: None,
) -> list[MadePart]:
    """Cuts `graph` and writes folder/part-0, folder/part-1, ...: all of them or none.

    It needs the partitioner's memory, some tens of bytes per node, and pieces of some MiB.

    Args:
        graph: A graph with dense features.
        folder: New or empty.
        num_parts: From 1 to 256, and at most the number of nodes.
        partitioner: As for `a3gnn.graphs.partition.partition`.
        seed: The partitioner's seed.
        notify: Takes lines for the user.

    Raises:
        UsageError: The number of parts or the partitioner is not valid, or another process makes parts in the folder.
        GraphError: The features are sparse, a part would have no nodes, or the folder can't be written.
        MemoryLimitError: There is too little memory for METIS.
    """
    if not 1 <= num_parts <= min(MOST_PARTS, graph.num_nodes):
        raise UsageError(
            f"{option('num_parts')} must be in [1, {min(MOST_PARTS, graph.num_nodes)}] for {graph.name}, got "
            f"{num_parts}; each graph server has one part"
        )
    features = graph.features
    if not isinstance(features, DenseFeatures):
        raise GraphError(f"parts need dense features, but {graph.name} has CSR rows; store them dense, as x (N, F)")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise GraphError(f"{folder} must be new or empty; choose another folder, or delete it")
    with claimed_whole(folder, notify):
        return _made(graph, features, folder, num_parts, partitioner, seed, notify)


def _made(
    graph: Graph,
    features: DenseFeatures,
    folder: Path,
    num_parts: int,
    partitioner: Partitioner,
    seed: int,
    notify: Callable[[str], None],
) -> list[MadePart]:
    """Does the work of `make_parts`, in a folder that this process has claimed."""
    parts = partition(graph, num_parts, seed, partitioner)
    counts = np.bincount(parts, minlength=num_parts)
    if not counts.all():
        raise GraphError(
            f"each part must have a node, but {partitioner} left part {int(counts.argmin())} of {num_parts} without "
            f"one; take fewer parts, or another {option('partitioner')}"
        )
    about = _about(graph, parts, num_parts, partitioner, seed)
    entries, made = neighbor_entries(graph), []
    try:
        with replacing(folder) as draft:
            need_room(draft.parent, graph.features.nbytes + 4 * graph.num_edges + 40 * graph.num_nodes)
            draft.mkdir()
            for number in range(num_parts):
                nodes = np.flatnonzero(parts == number).astype(np.int32)
                inner = draft / f"part-{number}"
                edges, cut = _write(graph, features, parts, nodes, entries, inner)
                write_meta(inner, {**about, "part": number})
                size = sum(file.stat().st_size for file in inner.iterdir())
                made.append(MadePart(folder / inner.name, len(nodes), edges, cut, size))
                notify(f"part {number} of {num_parts}: {count(len(nodes), 'node')}, {count(edges, 'in-edge')}")
            written = draft.stat().st_ino
    except OSError as error:
        raise GraphError(f"the parts can't be written to {folder}: {error}; nothing was left there") from error
    if folder.stat().st_ino != written:
        raise GraphError(
            f"{folder} must stay empty while parts are made, but something was written there; choose another folder"
        )
    return made


def _about(graph: Graph, parts: NDArray[np.int32], num_parts: int, partitioner: str, seed: int) -> dict[str, Any]:
    cut = hashlib.blake2b(graph.fingerprint.encode() + np.ascontiguousarray(parts).tobytes(), digest_size=16)
    return {
        "cut": cut.hexdigest(),
        "num_parts": num_parts,
        "partitioner": partitioner,
        "seed": seed,
        "graph": {
            "name": graph.name,
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "num_classes": graph.num_classes,
            "notes": [*graph.notes, *(f"{name} of edges is not in parts" for name in graph.edge_values)],
            "characteristics": graph.characteristics().to_dict(),
        },
    }


def _write(
    graph: Graph,
    features: DenseFeatures,
    parts: NDArray[np.int32],
    nodes: NDArray[np.int32],
    entries: NDArray[np.int64],
    folder: Path,
) -> tuple[int, int]:
    """Writes the arrays of the part of `nodes` to the new `folder`; returns its edges, and those from other parts."""
    folder.mkdir()
    degrees = graph.indptr[nodes.astype(np.int64) + 1] - graph.indptr[nodes]
    indptr = np.concatenate(([0], np.cumsum(degrees)))
    roles = np.zeros(len(nodes), dtype=np.uint8)
    for name, role in ROLES.items():
        roles[np.isin(nodes, getattr(graph, name), assume_unique=True)] = role
    loops, cut = np.zeros(len(nodes), dtype=np.uint8), 0
    with NpyWriter(folder / "indices.npy", np.int32) as writer:
        for first, last in row_spans(indptr, PIECE):
            own, slots = row_slots(graph.indptr, nodes[first:last])
            found, targets = graph.indices[slots], np.repeat(nodes[first:last], np.diff(own))
            loops[np.searchsorted(nodes, targets[found == targets])] = 1
            cut += int(np.count_nonzero(parts[found] != parts[nodes[0]]))
            writer.append(found)
    with NpyWriter(folder / "x.npy", features.array.dtype, graph.num_features) as writer:
        for some in slices(len(nodes), graph.num_features):
            writer.append(features.array[nodes[some]])
    small = {"nodes": nodes, "indptr": indptr, "roles": roles, "loops": loops, "entries": entries[nodes]}
    for name, array in {**small, "labels": graph.labels[nodes]}.items():
        np.save(folder / f"{name}.npy", array)
    settle(folder)
    return int(indptr[-1]), cut

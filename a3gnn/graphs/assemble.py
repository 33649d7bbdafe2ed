"""Makes a graph of edges, features, labels and masks: checked, sorted, without duplicates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from a3gnn.errors import GraphError
from a3gnn.graphs import validate
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.labels import num_outputs, stored, target_of
from a3gnn.graphs.split import MASKS
from a3gnn.graphs.validate import check_labels
from a3gnn.units import count

#: Number of classes that a note lists. Guess.
_MAX_NAMED = 10


def assemble(
    name: str,
    edge_index: NDArray[Any],
    features: DenseFeatures | SparseFeatures,
    labels: NDArray[Any],
    masks: Mapping[str, NDArray[Any]],
    notes: tuple[str, ...] = (),
    source: str | None = None,
) -> GraphArrays:
    """Returns the graph of these arrays, after checking that it is valid.

    Args:
        name: Shown to users.
        edge_index: Integers, shape (2, E): an edge (s, t) makes s an in-neighbor of t.
        features: One row per node; its length is the number of nodes.
        labels: Of one of three kinds (`a3gnn.graphs.labels`), in any type of integers, booleans or floats.
        masks: `MASKS`, each bool of shape (N,).
        notes: Remarks for users on how the graph was read; notes on self loops and removed duplicates are added.
        source: Identity of the file that the graph was read from.

    Raises:
        GraphError: The graph is not valid.
    """
    check(name, edge_index, features, labels, masks)
    indptr, indices, notes_on_edges = in_neighbors(edge_index, features.shape[0])
    rows, notes_on_features = canonical(features)
    judged, outputs, notes_on_labels = judged_labels(labels, masks)
    train_ids, val_ids, test_ids = (np.flatnonzero(masks[mask]).astype(np.int32) for mask in MASKS)
    return GraphArrays(
        name=name,
        indptr=indptr,
        indices=indices,
        features=rows,
        labels=judged,
        train_ids=train_ids,
        val_ids=val_ids,
        test_ids=test_ids,
        num_classes=outputs,
        notes=(*notes, *notes_on_labels, *notes_on_edges, *notes_on_features),
        source=source,
    )


def assemble_unlabeled(
    name: str, edge_index: NDArray[Any], features: DenseFeatures | SparseFeatures, notes: tuple[str, ...]
) -> GraphArrays:
    """Returns a graph without labels and split, for prediction only; otherwise as `assemble`."""
    with naming_graph(name):
        validate.check_features(features)
        validate.check_edges(edge_index, features.shape[0])
    indptr, indices, notes_on_edges = in_neighbors(edge_index, features.shape[0])
    rows, notes_on_features = canonical(features)
    none = np.empty(0, dtype=np.int32)
    return GraphArrays(
        name=name,
        indptr=indptr,
        indices=indices,
        features=rows,
        labels=np.full(features.shape[0], -1, dtype=np.int64),
        train_ids=none,
        val_ids=none,
        test_ids=none,
        num_classes=0,
        notes=(*notes, *notes_on_edges, *notes_on_features),
    )


def check(
    name: str,
    edge_index: NDArray[Any],
    features: DenseFeatures | SparseFeatures,
    labels: NDArray[Any],
    masks: Mapping[str, NDArray[Any]],
) -> None:
    """Checks `assemble`'s arguments in pieces, so memory maps of any size cost tens of MiB.

    Raises:
        GraphError: The graph is not valid.
    """
    with naming_graph(name):
        validate.check_features(features)
        validate.check_edges(edge_index, features.shape[0])
        check_labels(labels, features.shape[0])
        validate.check_masks(masks, labels)


@contextmanager
def naming_graph(name: str) -> Iterator[None]:
    """Prefixes a GraphError with the name of the graph.

    Raises:
        GraphError: The body raises it.
    """
    try:
        yield
    except GraphError as error:
        raise GraphError(f"{name}: {error}") from None


def in_neighbors(
    edge_index: NDArray[Any], num_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], tuple[str, ...]]:
    """Returns the CSR by destination (int64 indptr, int32 indices ascending in each row), and notes on the edges.

    Duplicates are removed, because sampling without replacement would give them twice the weight; self loops stay.
    """
    source, target = edge_index[0].astype(np.int32), edge_index[1].astype(np.int32)
    loops = int(np.count_nonzero(source == target))
    matrix = coo_array((np.ones(len(source), dtype=np.int8), (target, source)), shape=(num_nodes, num_nodes)).tocsr()
    matrix.sum_duplicates()  # sorts too
    notes = edge_notes(len(source), loops, matrix.nnz)
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), notes


def edge_notes(given: int, loops: int, kept: int) -> tuple[str, ...]:
    """Returns notes on `given` edges, of which `loops` are self loops and `kept` are distinct."""
    notes = []
    if loops:
        notes.append(f"{loops:,} of {given:,} edges are self loops; they are kept")
    if given > kept:
        notes.append(f"{given - kept:,} of {given:,} edges were duplicates; they are removed")
    return tuple(notes)


def judged_labels(labels: NDArray[Any], masks: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], int, tuple[str, ...]]:
    """Returns checked labels as they are stored, a model's outputs per node, and notes on both.

    Classes after the last one that a mask selects, such as one for unknown, get no output; their nodes become
    unlabeled. Other classes without a mask keep their output, because later classes would be renumbered.
    """
    kept = stored(labels)
    if target_of(labels) == "values":
        note = "y holds floats, so the model predicts values, as in a regression; classes are integers"
        return kept, num_outputs(labels), (note,)
    if target_of(labels) == "labels":
        return kept, num_outputs(labels), ()
    there = np.unique(kept[kept >= 0])
    judged = np.unique(np.concatenate([kept[mask] for mask in masks.values()]))
    without, outputs = np.setdiff1d(there, judged), int(judged.max()) + 1
    notes = []
    for few, what in (
        (without[without >= outputs], "unlabeled"),
        (without[without < outputs], "not evaluated, although models can predict their class"),
    ):
        if len(few):
            found = int(np.count_nonzero(np.isin(kept, few)))
            nodes = f"{count(found, 'node')} {'is' if found == 1 else 'are'} {what}"
            more = f" and {len(few) - _MAX_NAMED:,} more" if len(few) > _MAX_NAMED else ""
            several = f"classes {', '.join(map(str, few[:_MAX_NAMED]))}{more} are in no mask; their"
            notes.append(f"{f'class {few[0]} is in no mask; its' if len(few) == 1 else several} {nodes}")
    return np.where(kept < outputs, kept, -1) if outputs <= int(there.max()) else kept, outputs, tuple(notes)


def feature_notes(repeated: int) -> tuple[str, ...]:
    """Returns notes on CSR features with `repeated` entries that were added to others."""
    return (f"{repeated:,} feature entries were stored more than once; they are added up",) if repeated else ()


def canonical(features: DenseFeatures | SparseFeatures) -> tuple[DenseFeatures | SparseFeatures, tuple[str, ...]]:
    """Returns the features in their stored form, CSR columns ascending and distinct, and notes."""
    if isinstance(features, DenseFeatures):
        return DenseFeatures(np.ascontiguousarray(features.array)), ()
    kept = features.data.dtype
    matrix = csr_array((features.data, features.indices, features.indptr), shape=features.shape)
    repeated = 0
    if not matrix.has_canonical_format:
        # scipy adds no halves; summing in float32 and rounding once is also more exact.
        matrix = csr_array((features.data.astype(np.float32), features.indices, features.indptr), shape=features.shape)
        matrix.sum_duplicates()
        repeated = len(features.data) - matrix.nnz
    data = np.ascontiguousarray(matrix.data, dtype=kept)
    rows = SparseFeatures(data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64), features.shape)
    return rows, feature_notes(repeated)

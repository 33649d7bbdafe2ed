"""Makes a graph of edges, features, labels and masks: checked, sorted, without duplicates."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from a3gnn.errors import GraphError
from a3gnn.graphs import validate
from a3gnn.graphs.arrays import GraphArrays
from a3gnn.graphs.edge_values import check_edge_values, placed
from a3gnn.graphs.features import DenseFeatures, SparseFeatures, dtype_notes, stored_dtype
from a3gnn.graphs.labels import distinct, num_outputs, stored, target_of
from a3gnn.graphs.split import MASKS, mask_ids
from a3gnn.graphs.validate import check_labels
from a3gnn.storage.npy import slices
from a3gnn.units import count, some_of

#: Below this share of edges with their reverse a note asks whether undirected edges are stored once, where chance
#: leaves a few pairs. Guess.
_FEW_REVERSED = 0.05
#: Edges that are examined for their reverse, evenly spaced: the share then has a standard error below 0.0014.
_EXAMINED = 1 << 17


def assemble(
    name: str,
    edge_index: NDArray[Any],
    features: DenseFeatures | SparseFeatures,
    labels: NDArray[Any],
    masks: Mapping[str, NDArray[Any]],
    notes: tuple[str, ...] = (),
    source: str | None = None,
    edge_values: Mapping[str, NDArray[Any]] = {},
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
        edge_values: Values of edges by name (`EDGE_VALUES`), a row per edge, in a readable form.

    Raises:
        GraphError: The graph is not valid.
    """
    check(name, edge_index, features, labels, masks, edge_values)
    judged, outputs, of_labels = judged_labels(labels, masks)
    parts = [mask_ids(masks[mask]) for mask in MASKS]
    return _canonical_graph(
        name, edge_index, features, judged, outputs, parts, (*notes, *of_labels), edge_values, source
    )


def assemble_unlabeled(
    name: str,
    edge_index: NDArray[Any],
    features: DenseFeatures | SparseFeatures,
    notes: tuple[str, ...],
    edge_values: Mapping[str, NDArray[Any]] = {},
) -> GraphArrays:
    """Returns a graph without labels and split, for prediction only; otherwise as `assemble`."""
    with naming_graph(name):
        validate.check_features(features)
        validate.check_edges(edge_index, features.shape[0])
        check_edge_values(edge_values, edge_index.shape[1] if edge_index.size else 0)
    if edge_index.size == 0:  # such as a new user without friends; np.empty((2, 0)) has floats
        edge_index = np.empty((2, 0), dtype=np.int64)
    labels, parts = np.full(features.shape[0], -1, dtype=np.int64), [np.empty(0, dtype=np.int32)] * len(MASKS)
    return _canonical_graph(name, edge_index, features, labels, 0, parts, notes, edge_values)


def _canonical_graph(
    name: str,
    edge_index: NDArray[Any],
    features: DenseFeatures | SparseFeatures,
    labels: NDArray[Any],
    outputs: int,
    parts: Sequence[NDArray[np.int32]],
    notes: tuple[str, ...],
    edge_values: Mapping[str, NDArray[Any]],
    source: str | None = None,
) -> GraphArrays:
    """Returns the graph of checked arguments; `parts` are its train, validation and test ids."""
    indptr, indices, of_edges = in_neighbors(edge_index, features.shape[0], edge_values)
    values = placed(edge_values, edge_index, indptr, indices)
    rows, of_features = canonical(features)
    train_ids, val_ids, test_ids = parts
    return GraphArrays(
        name=name,
        indptr=indptr,
        indices=indices,
        features=rows,
        labels=labels,
        train_ids=train_ids,
        val_ids=val_ids,
        test_ids=test_ids,
        num_classes=outputs,
        notes=(*notes, *of_edges, *direction_notes(indptr, indices), *of_features),
        source=source,
        edge_attr=values.get("edge_attr"),
        edge_weight=values.get("edge_weight"),
    )


def check(
    name: str,
    edge_index: NDArray[Any],
    features: DenseFeatures | SparseFeatures,
    labels: NDArray[Any],
    masks: Mapping[str, NDArray[Any]],
    edge_values: Mapping[str, NDArray[Any]] = {},
    contents: bool = True,
) -> None:
    """Checks `assemble`'s arguments in pieces, so memory maps of any size cost tens of MiB.

    Without `contents`, ids of edges and dense features are left to a reader that checks them piece by piece.

    Raises:
        GraphError: The graph is not valid.
    """
    with naming_graph(name):
        validate.check_features(features, contents)
        validate.check_edges(edge_index, features.shape[0], contents)
        if edge_index.size == 0:
            raise GraphError("a graph must have an edge, got none; without edges a GNN has nothing to aggregate")
        check_edge_values(edge_values, edge_index.shape[1])
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
    edge_index: NDArray[Any], num_nodes: int, edge_values: Collection[str] = ()
) -> tuple[NDArray[np.int64], NDArray[np.int32], tuple[str, ...]]:
    """Returns the CSR by destination (int64 indptr, int32 indices ascending in each row), and notes on the edges.

    Duplicates are removed, because sampling without replacement would give them twice the weight; self loops stay.
    `edge_values` are the names of the edges' values.
    """
    source, target = edge_index[0].astype(np.int32), edge_index[1].astype(np.int32)
    loops = int(np.count_nonzero(source == target))
    matrix = coo_array((np.ones(len(source), dtype=np.int8), (target, source)), shape=(num_nodes, num_nodes)).tocsr()
    matrix.sum_duplicates()  # sorts too
    notes = edge_notes(len(source), loops, matrix.nnz, edge_values)
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), notes


def reversed_share(indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> float:
    """Returns the share of edges, self loops left out, whose reverse is an edge, too; 1 without such edges.

    Of a large graph, `_EXAMINED` evenly spaced edges are examined.
    """
    edges = np.arange(0, len(indices), max(1, len(indices) // _EXAMINED))
    sources, targets = indices[edges].astype(np.int64), np.searchsorted(indptr, edges, side="right") - 1
    sources, targets = sources[sources != targets], targets[sources != targets]
    low, high = indptr[sources], indptr[sources + 1]  # a binary search for each target in the row of its source
    while (low < high).any():
        middle = np.minimum((low + high) // 2, len(indices) - 1)
        before = (low < high) & (indices[middle] < targets)
        low, high = np.where(before, middle + 1, low), np.where(before, high, np.minimum(middle, high))
    found = (low < indptr[sources + 1]) & (indices[np.minimum(low, len(indices) - 1)] == targets)
    return float(found.mean()) if len(found) else 1.0


def direction_notes(indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> tuple[str, ...]:
    """Returns a note if nearly no edge has its reverse, as in a list of undirected edges that stores each once."""
    share = reversed_share(indptr, indices)
    if share >= _FEW_REVERSED or len(indices) < 1 / _FEW_REVERSED:  # too few to have such a share
        return ()
    return (
        f"{share:.1%} of the edges have their reverse; if the graph is undirected, store both directions, or models "
        "miss half of the neighbors: np.hstack([edge_index, edge_index[::-1]]), or torch_geometric.utils.to_undirected",
    )


def edge_notes(given: int, loops: int, kept: int, edge_values: Collection[str] = ()) -> tuple[str, ...]:
    """Returns notes on `given` edges with `edge_values`; `loops` are self loops and `kept` are distinct."""
    notes = []
    if loops:
        notes.append(f"{loops:,} of {given:,} edges are self loops; they are kept")
    if given > kept:
        added = f", and their {' and '.join(edge_values)} added up, as by PyG's Data.coalesce" if edge_values else ""
        notes.append(f"{given - kept:,} of {given:,} edges were duplicates; they are removed{added}")
    return tuple(notes)


def judged_labels(
    labels: NDArray[Any], masks: Mapping[str, NDArray[Any]], name: str = "y", row: str = "node"
) -> tuple[NDArray[Any], int, tuple[str, ...]]:
    """Returns checked labels as they are stored, a model's outputs per node, and notes on both.

    Classes after the last one that a mask selects, such as one for unknown, get no output; their nodes become
    unlabeled. Other classes without a mask keep their output, because later classes would be renumbered.

    Args:
        labels: Of all nodes, or of all edges of a relation.
        masks: Which of them are in each part of the split.
        name: Name of the labels in notes.
        row: What a label is of, in notes.
    """
    outputs, notes = judged_outputs(labels, masks, name, row)
    return stored_below(labels, outputs), outputs, notes


def stored_below(labels: NDArray[Any], outputs: int) -> NDArray[Any]:
    """Returns checked labels as they are stored; classes from `outputs` on become unlabeled."""
    kept = stored(labels)
    return np.where(kept < outputs, kept, -1) if target_of(labels) == "classes" and kept.max() >= outputs else kept


def judged_outputs(
    labels: NDArray[Any], masks: Mapping[str, NDArray[Any]], name: str = "y", row: str = "node"
) -> tuple[int, tuple[str, ...]]:
    """Returns a model's outputs per node and notes on `labels`, as `judged_labels`, but reads labels in pieces."""
    if target_of(labels) == "values":
        note = f"{name} holds floats, so the model predicts values, as in a regression; classes are integers"
        return num_outputs(labels), (f"{note}{_whole(labels, name)}",)
    if target_of(labels) == "labels":
        return num_outputs(labels), ()
    there = distinct(labels).astype(np.int64)
    there = there[there >= 0]
    judged = reduce(np.union1d, [distinct(labels, mask) for mask in masks.values()]).astype(np.int64)
    without, outputs = np.setdiff1d(there, judged), int(judged.max()) + 1
    notes = [*_numbering(there, outputs)]
    for few, what in (
        (without[without >= outputs], "unlabeled"),
        (without[without < outputs], "not evaluated, although models can predict their class"),
    ):
        if len(few):
            found = sum(int(np.isin(labels[some], few).sum()) for some in slices(len(labels)))
            nodes = f"{count(found, row)} {'is' if found == 1 else 'are'} {what}"
            several = f"classes {some_of(few.tolist())} are in no mask; their"
            notes.append(f"{f'class {few[0]} is in no mask; its' if len(few) == 1 else several} {nodes}")
    return outputs, tuple(notes)


def _whole(labels: NDArray[Any], name: str) -> str:
    """Returns that values may be classes, with the remedy; "" unless they are few whole numbers from 0, or NaN."""
    known = 0
    for some in slices(len(labels)):
        piece = stored(labels[some])
        piece = piece[~np.isnan(piece)]
        known += len(piece)
        if len(piece) and not ((piece == np.round(piece)).all() and piece.min() >= -1 and piece.max() < len(labels)):
            return ""
    integers = f"{name}.astype(int) or, in torch, {name}.long()"
    if known < len(labels):
        integers = f"np.nan_to_num({name}, nan=-1).astype(int) or, in torch, {name}.nan_to_num(-1).long()"
    classes = np.unique(distinct(labels).astype(np.float32))
    number = int(np.count_nonzero(~np.isnan(classes)))
    return f". All values are whole: if they are {count(number, 'class', 'classes')}, give {integers}"


def _numbering(there: NDArray[np.int64], outputs: int) -> tuple[str, ...]:
    """Returns a note if no node has one of the classes below `outputs`; `there` are the classes of nodes, ascending."""
    lacking = outputs - int(np.count_nonzero(there < outputs))
    if not lacking:
        return ()
    if lacking == 1 and there[0] == 1:
        return ("class 0 has no node, but models have an output for it; y[y >= 0] -= 1 numbers the classes from 0",)
    return (
        f"{count(lacking, 'class', 'classes')} below {outputs} {'has' if lacking == 1 else 'have'} no node, but models "
        "have an output for each; y[y >= 0] = np.unique(y[y >= 0], return_inverse=True)[1] leaves no gaps",
    )


def feature_notes(repeated: int) -> tuple[str, ...]:
    """Returns notes on CSR features with `repeated` entries that were added to others."""
    return (f"{repeated:,} feature entries were stored more than once; they are added up",) if repeated else ()


def canonical(features: DenseFeatures | SparseFeatures) -> tuple[DenseFeatures | SparseFeatures, tuple[str, ...]]:
    """Returns the features in their stored form, CSR columns ascending and distinct, and notes."""
    if isinstance(features, DenseFeatures):
        given = features.array.dtype
        return DenseFeatures(np.ascontiguousarray(features.array, stored_dtype(given))), dtype_notes(given.name)
    kept = stored_dtype(features.data.dtype)
    matrix = csr_array((features.data, features.indices, features.indptr), shape=features.shape)
    repeated = 0
    if not matrix.has_canonical_format:
        # scipy adds no halves; summing in float32 and rounding once is also more exact.
        matrix = csr_array((features.data.astype(np.float32), features.indices, features.indptr), shape=features.shape)
        matrix.sum_duplicates()
        repeated = len(features.data) - matrix.nnz
    data = np.ascontiguousarray(matrix.data, dtype=kept)
    rows = SparseFeatures(data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64), features.shape)
    return rows, (*dtype_notes(features.data.dtype.name), *feature_notes(repeated))

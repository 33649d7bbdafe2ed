"""The rules of a valid graph: each function checks one; its `GraphError` contains the rule, the value and a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.arrays import MAX_NODES
from a3gnn.graphs.features import FLOATS, DenseFeatures, SparseFeatures
from a3gnn.graphs.labels import check_kind, is_labeled, unlabeled
from a3gnn.storage.npy import slices
from a3gnn.units import count


def check_edges(edge_index: NDArray[Any], num_nodes: int, contents: bool = True) -> None:
    """Checks that `edge_index` is of integers and shape (2, E), and that its `contents` are existing nodes."""
    check_edge_shape(edge_index)
    if not 0 < num_nodes <= MAX_NODES:
        raise GraphError(f"a graph must have 1 to {MAX_NODES:,} nodes, got {num_nodes:,}; ids are 32-bit")
    if edge_index.size == 0 or not contents:
        return
    check_ids(int(edge_index.min()), int(edge_index.max()), num_nodes)


def check_ids(low: int, high: int, num_nodes: int) -> None:
    """Checks that the ids of an edge_index, which go from `low` to `high`, are existing nodes."""
    if low < 0 or high >= num_nodes:
        remedy = "renumber the nodes from 0, or add the missing feature rows"
        if (low, high) == (1, num_nodes):
            remedy = "these ids begin at 1: edge_index - 1 begins at 0"
        raise GraphError(f"edge_index must be in [0, {num_nodes}) (the rows of x), got {low} to {high}; {remedy}")


def check_edge_shape(edge_index: NDArray[Any]) -> None:
    """Checks that `edge_index` is of integers and shape (2, E); one without edges may have any type and shape."""
    if edge_index.size == 0:
        return
    whole = ": edge_index.astype(np.int64)" if edge_index.dtype.kind == "f" else ""
    remedy = f"give sources and targets as two rows of int64{whole}"
    if edge_index.ndim == 2 and edge_index.shape[0] == edge_index.shape[1] > 2:
        remedy = "np.stack(np.nonzero(A)) makes edges of an adjacency matrix A"
    _check_array("edge_index", edge_index, "iu", 2, remedy)
    if edge_index.shape[0] != 2:
        turned = "edge_index.T has the right one" if edge_index.shape[1] == 2 else remedy
        raise GraphError(
            f"edge_index must have shape (2, E), got {edge_index.shape}; row 0 sources, row 1 targets; {turned}"
        )


def check_ends(relation: str, edge_index: NDArray[Any], ends: Iterable[tuple[str, int]]) -> None:
    """Checks that the sources and targets of a relation's edges are ids within their types.

    Args:
        relation: Its name.
        edge_index: Integers, shape (2, num_edges).
        ends: The name of the source type and its number of nodes, and those of the target type.
    """
    for side, ids, (kind, number) in zip(("sources", "targets"), edge_index, ends, strict=True):
        if ids.size and (ids.min() < 0 or ids.max() >= number):
            raise GraphError(
                f"{side} of {relation} must be in [0, {number}) for {kind}, got {ids.min()} to {ids.max()}; count the "
                "nodes of each type from 0"
            )


def num_rows(features: DenseFeatures | SparseFeatures) -> int:
    """Returns the number of rows, after a check of the type and shape of dense features."""
    if isinstance(features, DenseFeatures):
        _check_array("x", features.array, "biuf", 2, "give one row of numbers per node" + _turned(features.array))
    return features.shape[0]


def _turned(array: NDArray[Any]) -> str:
    """Returns the remedy for numbers of another number of dimensions than 2."""
    return "" if array.ndim == 2 else f", such as x.reshape({len(array) if array.ndim else 1}, -1)"


def check_features(features: DenseFeatures | SparseFeatures, contents: bool = True) -> None:
    """Checks types, shapes and, for CSR, the index structure; and finiteness, of dense features with `contents`."""
    if isinstance(features, DenseFeatures):
        num_rows(features)
        if contents:
            check_finite("x", features.array)
    else:
        _check_csr(features)
        check_finite("x_data", features.data)
    if features.shape[1] == 0:
        raise GraphError("x must have a column, got none; give a constant column if the nodes have no features")


def check_masks(masks: Mapping[str, NDArray[Any]], labels: NDArray[Any]) -> None:
    """Checks that the masks are bool, one value per node, not empty, disjoint, and only on labeled nodes."""
    unknown = ~is_labeled(labels)
    for name, mask in masks.items():
        _check_array(name, mask, "b", 1, f"give one bool per node, or name an array of node ids {name[:-4]}idx")
        if len(mask) != len(labels):
            raise GraphError(f"{name} must have one value per node, got {len(mask):,} for {count(len(labels), 'node')}")
        if not mask.any():
            raise GraphError(f"{name} must select a node, got none; every graph needs train, val and test nodes")
        missing = int(np.count_nonzero(mask & unknown))
        if missing:
            raise GraphError(
                f"{name} must select labeled nodes only, got {missing} with label {unlabeled(labels)}; drop them "
                "from it"
            )
    names = list(masks)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            shared = int(np.count_nonzero(masks[first] & masks[second]))
            if shared:
                raise GraphError(
                    f"{first} and {second} must not overlap, but share {shared} nodes; evaluation needs nodes "
                    "without training"
                )


def check_labels(labels: NDArray[Any], num_nodes: int) -> None:
    """Checks that `labels` are classes, rows of 0 and 1, or values, one per node, and that some nodes are labeled.

    Raises:
        GraphError: A rule is broken.
    """
    check_kind(labels)
    if len(labels) != num_nodes:
        without = f"{unlabeled(labels)} is unlabeled"
        if labels.ndim == 2 and labels.shape[1] == num_nodes:
            without = "y.T has a row per node, and y.reshape(-1) is the one row of y"
        raise GraphError(f"y must have one label per node, got {len(labels)} for {num_nodes}; {without}")
    if labels.ndim == 2:
        _check_rows(labels)
    elif labels.dtype.kind == "f":
        _check_label_values(labels)
    else:
        _check_classes(labels, num_nodes)


def check_in_float32(name: str, given: NDArray[Any], stored: NDArray[np.float32]) -> None:
    """Checks that every finite value of `given` is finite in `stored`, its copy in float32.

    Raises:
        GraphError: A value is beyond the range of float32.
    """
    lost = np.isinf(stored) & np.isfinite(given)
    if number := int(np.count_nonzero(lost)):
        raise GraphError(
            f"{name} must fit float32, up to {np.finfo(np.float32).max:.3g}, got {number:,} values beyond, such as "
            f"{given[lost][0]:g}; scale {name}"
        )


def _check_csr(features: SparseFeatures) -> None:
    data, indices, indptr = features.data, features.indices, features.indptr
    rows, columns = features.shape
    _check_array("x_data", data, "biuf", 1, "give the stored values as float32 or float16")
    _check_array("x_indices", indices, "iu", 1, "give each stored value's column as int32")
    _check_array("x_indptr", indptr, "iu", 1, "give each row's first position as int64")
    if rows < 0 or not 0 <= columns <= MAX_NODES:
        raise GraphError(f"x_shape must be two non-negative sizes below 2**31, got {features.shape}")
    if len(indptr) != rows + 1 or indptr[0] != 0 or indptr[-1] != len(data) or _falls(indptr):
        raise GraphError(
            f"x_indptr must rise from 0 to {len(data)} (the stored values) in {rows + 1} steps; "
            "the arrays of one scipy.sparse.csr_array fit"
        )
    if len(indices) != len(data):
        raise GraphError(f"x_indices and x_data must be equally long, got {len(indices)} and {len(data)}")
    if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= columns):
        raise GraphError(f"x_indices must be in [0, {columns}), got {int(indices.min())} to {int(indices.max())}")


def _falls(values: NDArray[Any]) -> bool:
    """Returns whether a value is below the one before it."""
    before, after = values[:-1], values[1:]
    return any((after[some] < before[some]).any() for some in slices(len(after)))


def _check_array(name: str, array: NDArray[Any], kinds: str, ndim: int, remedy: str) -> None:
    if array.dtype.kind not in kinds or array.ndim != ndim:
        wanted = {"iu": "integers", "biuf": "real numbers, such as float32,", "b": "bool"}[kinds]
        raise GraphError(
            f"{name} must be {wanted} of {ndim} dimension{'s' if ndim > 1 else ''}, "
            f"got {array.dtype} of shape {array.shape}; {remedy}"
        )


def check_finite(name: str, values: NDArray[Any]) -> None:
    """Checks that `values`, of one or two dimensions, are finite, also as float32.

    Raises:
        GraphError: A value is not.
    """
    check = Finite(name)
    for some in slices(len(values), values.shape[-1] if values.ndim == 2 else 1):
        check.add(values[some])
    check.end()


class Finite:
    """Checks that values are finite, also as float32, piece by piece.

    Args:
        name: Of the values, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name, self._bad = name, 0

    def add(self, piece: NDArray[Any]) -> None:
        """Counts the values of `piece` that are not finite.

        Raises:
            GraphError: A value is beyond the range of float32.
        """
        self._bad += int(np.count_nonzero(~np.isfinite(piece)))
        if piece.dtype not in FLOATS and piece.dtype.kind == "f":
            with np.errstate(over="ignore"):  # an overflow is reported as a GraphError
                check_in_float32(self._name, piece, piece.astype(np.float32))

    def end(self) -> None:
        """Checks that all values were finite.

        Raises:
            GraphError: They were not.
        """
        if self._bad:
            raise GraphError(
                f"{self._name} must be finite, got {self._bad} NaN or infinite values; replace them, for example by 0"
            )


def _check_classes(labels: NDArray[Any], num_nodes: int) -> None:
    low, high = int(labels.min()), int(labels.max())
    if low < -1 or high >= max(num_nodes, 1):
        raise GraphError(
            f"y must be in [-1, {num_nodes}), got {low} to {high}; number classes from 0, -1 is unlabeled: y = "
            "np.unique(y, return_inverse=True)[1]"
        )
    if high < 0:
        raise GraphError("a graph must have labeled nodes, got none (y is -1 throughout); label some to train on")


def _check_label_values(labels: NDArray[Any]) -> None:
    infinite = known = 0
    for some in slices(len(labels)):
        piece = labels[some]
        with np.errstate(over="ignore"):  # an overflow is reported as a GraphError
            check_in_float32("y", piece, piece.astype(np.float32))
        infinite += int(np.count_nonzero(np.isinf(piece)))
        known += len(piece) - int(np.count_nonzero(np.isnan(piece)))
    if infinite:
        raise GraphError(
            f"y must be finite in float32, or NaN if unlabeled, got {infinite} infinite values; scale them, or use NaN"
        )
    if not known:
        raise GraphError("a graph must have labeled nodes, got none (y is NaN throughout); label some to train on")


def _check_rows(labels: NDArray[Any]) -> None:
    ones_and_more = labeled = 0
    for some in slices(len(labels), labels.shape[1]):
        piece = labels[some]
        without = np.isnan(piece) | (piece == -1) if piece.dtype.kind == "f" else piece == -1
        if not (without | (piece == 0) | (piece == 1)).all():
            raise GraphError(
                f"2-dimensional y must hold 0 and 1, got {piece.min()} to {piece.max()}; give each label a column, "
                "or one number per node in 1 dimension"
            )
        if partly := int(np.count_nonzero(without.any(axis=1) != without.all(axis=1))):
            one = "np.nan_to_num(y[:, 0], nan=-1).astype(int)" if labels.dtype.kind == "f" else "y[:, 0]"
            raise GraphError(
                f"each row of y must be labeled or unlabeled as a whole, got {count(partly, 'row')} with unknown "
                "labels beside known ones, which the loss can't leave out. Make these rows -1 as a whole and take "
                f"their nodes out of the masks, or train on one label at a time: y = {one}"
            )
        known = ~without[:, 0]
        labeled += int(np.count_nonzero(known))
        ones_and_more += int(np.count_nonzero(piece[known].sum(axis=1) != 1))
    if not labeled:
        raise GraphError("a graph must have labeled nodes, got none (every row of y is unlabeled); label some")
    if not ones_and_more:
        raise GraphError(
            "2-dimensional y must have a row that is not one-hot, got one label in each. These are classes: give "
            "y.argmax(axis=1), and -1 for unlabeled nodes"
        )

"""Three kinds of labels, told apart by dtype and shape, and functions that treat all of them alike.

| target | array | unlabeled | a model's outputs per node |
|---|---|---|---|
| classes | int64, (num_nodes,), each below the number of classes | -1 | a logit per class |
| labels | int8, (num_nodes, num_labels), each 0 or 1 | a row of -1 | a logit per label |
| values | float32, (num_nodes,) | NaN | the value |
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.metric import LabelTarget, Target
from a3gnn.storage.npy import slices

#: The dtype and the number of dimensions of each kind.
KINDS: dict[Target, tuple[np.dtype[Any], int]] = {
    "classes": (np.dtype(np.int64), 1),
    "labels": (np.dtype(np.int8), 2),
    "values": (np.dtype(np.float32), 1),
}
#: Classes of equal size that values are sorted into if a caller needs classes: deciles.
_BINS = 10


def target_of(labels: NDArray[Any]) -> LabelTarget:
    """Returns which kind `labels` are."""
    if labels.ndim == 2:
        return "labels"
    return "values" if labels.dtype.kind == "f" else "classes"


def check_kind(labels: NDArray[Any]) -> None:
    """Checks type and dimensions of `labels`, not their values.

    Raises:
        GraphError: They fit no kind of labels.
    """
    kind = labels.dtype.kind
    if kind in "OSU":
        raise GraphError(
            f"y must hold numbers, got {labels.dtype} of shape {labels.shape}; number the classes: y = "
            "np.unique(y, return_inverse=True)[1], or pandas.factorize(y)[0]"
        )
    if labels.ndim not in (1, 2) or kind not in ("iuf" if labels.ndim == 1 else "iubf"):
        raise GraphError(
            "y must be 1-dimensional integers (classes), 2-dimensional 0 and 1 (several labels per node) or "
            f"1-dimensional floats (values), got {labels.dtype} of shape {labels.shape}; "
            + ("y.astype(int) makes classes" if kind == "b" else "give one per node")
        )
    if labels.ndim == 2 and labels.shape[1] < 2:
        raise GraphError(
            f"2-dimensional y must have 2 columns or more, one per label, got shape {labels.shape}; y.reshape(-1) "
            "turns one column into classes or values"
        )


def is_labeled(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns which nodes have a label, bool, shape (n,)."""
    match target_of(labels):
        case "labels":
            found = labels[:, 0] >= 0  # which NaN is not either
        case "values":
            found = ~np.isnan(labels)
        case "classes":
            found = labels >= 0
    return np.asarray(found)


def unlabeled(labels: NDArray[Any]) -> str:
    """Returns the marker of an unlabeled node in `labels`: -1 or NaN."""
    return "NaN" if labels.dtype.kind == "f" else "-1"


def stored(labels: NDArray[Any]) -> NDArray[Any]:
    """Returns checked labels (integers, booleans or floats) in the dtype of their kind."""
    kind = KINDS[target_of(labels)][0]
    if labels.ndim == 2 and labels.dtype.kind == "f":
        labels = np.where(np.isnan(labels), -1, labels)
    return np.ascontiguousarray(labels, dtype=kind)


def distinct(labels: NDArray[Any], among: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """Returns the distinct values of one-dimensional `labels`, ascending, of the nodes that `among` selects or of all.

    Labels are read in pieces, so memory is needed for the distinct values alone.
    """
    found = np.unique(labels[:0])
    for some in slices(len(labels)):
        found = np.union1d(found, labels[some] if among is None else labels[some][among[some]])
    return found


def judged_nodes(labels: NDArray[Any], masks: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
    """Returns which nodes have a label, and not one of a class that none of `masks` selects, such as one for unknown.

    All labels count if there are no masks of all nodes, or if these select no node.
    """
    known = is_labeled(labels)
    whole = [mask for mask in masks if mask.dtype == np.bool_ and mask.shape == labels.shape]
    if target_of(labels) != "classes" or not whole:
        return known
    judged = reduce(np.union1d, [distinct(labels, mask) for mask in whole])
    if len(judged):
        for some in slices(len(labels)):
            known[some] &= np.isin(labels[some], judged)
    return known


def num_outputs(labels: NDArray[Any]) -> int:
    """Returns a model's outputs per node: the number of classes, the number of labels, or 1."""
    match target_of(labels):
        case "labels":
            return int(labels.shape[1])
        case "values":
            return 1
        case "classes":
            return int(labels.max()) + 1


def describe_outputs(target: Target, outputs: int) -> str:
    """Returns a model's outputs per node as text: `7 classes`, `112 labels`, `values`."""
    return target if target == "values" else f"{outputs} {target}"


def label_spread(labels: NDArray[Any], train_ids: NDArray[np.int32]) -> float | None:
    """Returns the mean absolute deviation of the train nodes' values from their median; None without such values.

    It equals the mean absolute error on the train nodes of a predictor that always returns the median.
    """
    if target_of(labels) != "values" or not len(train_ids):
        return None
    values = labels[train_ids].astype(np.float64)
    return float(np.abs(values - np.median(values)).mean())


def as_classes(labels: NDArray[Any], outputs: int) -> tuple[NDArray[np.int64], int]:
    """Returns classes that stand for `labels`, int64, -1 for unlabeled, shape (num_nodes,), and their number.

    Classes are returned unchanged. A node with several labels gets its rarest one, and a node with none gets a class of
    its own. Values are sorted into tenths.

    Args:
        labels: Of all nodes.
        outputs: The result of `num_outputs`.
    """
    known = is_labeled(labels)
    match target_of(labels):
        case "classes":
            return labels, outputs
        case "labels":
            rarest_first = np.argsort((labels == 1).sum(axis=0), kind="stable")
            has = labels[:, rarest_first] == 1
            found = np.where(has.any(axis=1), has.argmax(axis=1), outputs)
            return np.where(known, found, -1).astype(np.int64), outputs + 1
        case "values":
            bounds = np.quantile(labels[known], np.arange(1, _BINS) / _BINS) if known.any() else np.empty(0)
            return np.where(known, np.searchsorted(bounds, labels), -1).astype(np.int64), _BINS

"""What makes labels valid, of each of their kinds (`a3gnn.graphs.labels`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import GraphError
from a3gnn.graphs.labels import unlabelled
from a3gnn.graphs.narrowed import check_in_float32

# Entries that are checked together, so that a memory map of any size costs tens of MiB. Guess.
_PIECE = 1 << 22


def check_labels(labels: NDArray[Any], num_nodes: int) -> None:
    """Checks that `labels` are classes, rows of 0 and 1, or values, one or one row per node, not all unlabelled.

    Raises:
        GraphError: They are not.
    """
    check_kind(labels)
    if len(labels) != num_nodes:
        without = unlabelled(labels)
        raise GraphError(f"y must have one label per node, got {len(labels)} for {num_nodes}; {without} is unlabelled")
    if labels.ndim == 2:
        _check_rows(labels)
    elif labels.dtype.kind == "f":
        _check_values(labels)
    else:
        _check_classes(labels, num_nodes)


def check_kind(labels: NDArray[Any]) -> None:
    """Checks type and dimensions of `labels`, not what they hold.

    Raises:
        GraphError: They are those of no kind of labels.
    """
    kind = labels.dtype.kind
    if labels.ndim not in (1, 2) or kind not in ("iuf" if labels.ndim == 1 else "iubf"):
        raise GraphError(
            "y must be integers of 1 dimension (classes), 0 and 1 of 2 dimensions (several labels per node) or floats "
            f"of 1 dimension (values), got {labels.dtype} of shape {labels.shape}; give one per node"
        )
    if labels.ndim == 2 and labels.shape[1] < 2:
        raise GraphError(
            f"y of 2 dimensions must have 2 columns or more, one per label, got shape {labels.shape}; "
            "y.reshape(-1) makes classes or values of one column"
        )


def _check_classes(labels: NDArray[Any], num_nodes: int) -> None:
    low, high = int(labels.min()), int(labels.max())
    if low < -1 or high >= max(num_nodes, 1):
        raise GraphError(
            f"y must be in [-1, {num_nodes}), got {low} to {high}; number classes from 0, -1 is unlabelled"
        )
    if high < 0:
        raise GraphError("a graph must have labelled nodes, got none (y is -1 throughout); label some to train on")


def _check_values(labels: NDArray[Any]) -> None:
    with np.errstate(over="ignore"):  # what does is the error
        check_in_float32("y", labels, labels.astype(np.float32))
    infinite = int(np.count_nonzero(np.isinf(labels)))
    if infinite:
        raise GraphError(
            f"y must be finite in float32, or NaN where unlabelled, got {infinite} infinite; scale them, or use NaN"
        )
    if np.isnan(labels).all():
        raise GraphError("a graph must have labelled nodes, got none (y is NaN throughout); label some to train on")


def _check_rows(labels: NDArray[Any]) -> None:
    step = max(1, _PIECE // labels.shape[1])
    ones_and_more = labelled = 0
    for start in range(0, len(labels), step):
        piece = labels[start : start + step]
        without = np.isnan(piece) if piece.dtype.kind == "f" else piece == -1
        if not (without | (piece == 0) | (piece == 1)).all():
            raise GraphError(
                f"y of 2 dimensions must hold 0 and 1, got {piece.min()} to {piece.max()}; give each label of a "
                "node a column; one number per node is of 1 dimension"
            )
        if (without.any(axis=1) != without.all(axis=1)).any():
            raise GraphError(
                "y must be known or unknown for a node as a whole, got rows that are unlabelled in part; fill in 0, or "
                "give whole rows of -1 (of NaN in floats)"
            )
        known = ~without[:, 0]
        labelled += int(np.count_nonzero(known))
        ones_and_more += int(np.count_nonzero(piece[known].sum(axis=1) != 1))
    if not labelled:
        raise GraphError("a graph must have labelled nodes, got none (every row of y is unlabelled); label some")
    if not ones_and_more:
        raise GraphError(
            "y of 2 dimensions must have a row that is not one-hot, got one label in each; these are classes: "
            "give y.argmax(axis=1), and -1 for unlabelled nodes"
        )

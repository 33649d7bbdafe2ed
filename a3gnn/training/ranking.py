"""How well scores rank positive nodes above negative ones, as scikit-learn defines it.

Not computed by scikit-learn: importing its metrics takes 46 MiB and 2.5 seconds of each process that trains, and a
trial measures what a process takes. The tests compare both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def roc_auc(positive: NDArray[np.bool_], scores: NDArray[np.float32]) -> float:
    """Returns the probability that a positive node scores higher than a negative one, ties counting half.

    Args:
        positive: Which nodes are, shape (n,); at least one is, and one is not.
        scores: Of each node, same shape.
    """
    order = np.argsort(scores, kind="stable")
    starts, sizes = _ties(scores[order])
    ranks = np.repeat(starts + (sizes + 1) / 2, sizes)  # from 1, the mean of those that are tied
    above = np.count_nonzero(positive)
    below = len(positive) - above
    return float((ranks[positive[order]].sum() - above * (above + 1) / 2) / (above * below))


def average_precision(positive: NDArray[np.bool_], scores: NDArray[np.float32]) -> float:
    """Returns the sum over thresholds of precision times the recall gained there, without interpolation.

    Args:
        positive: Which nodes are, shape (n,); at least one is.
        scores: Of each node, same shape.
    """
    order = np.argsort(-scores, kind="stable")
    starts, sizes = _ties(scores[order])
    ends = starts + sizes
    found = np.cumsum(positive[order])[ends - 1]
    return float((found / ends * np.diff(found, prepend=0)).sum() / found[-1])


def _ties(ordered: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns where each run of equal values begins in `ordered`, and how long it is, int64."""
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return starts, np.diff(starts, append=len(ordered))

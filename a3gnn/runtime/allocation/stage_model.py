"""`StageModel`: a stage's seconds per mini-batch as a function of its threads, fitted to measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from a3gnn.errors import UsageError

Stage = Literal["sampling", "gather", "training"]
STAGES: tuple[Stage, ...] = ("sampling", "gather", "training")

# Shorter times are below the clock's resolution: a caller that trains nothing still has a stage that takes some time.
_MIN_SECONDS = 1e-9


@dataclass(frozen=True, slots=True)
class StageModel:
    """`shared / threads + fixed` seconds per mini-batch (BGL, section 3.4: T / c, and a / c + d for the cache stage).

    Attributes:
        shared: Seconds of one thread's work that threads share, >= 0.
        fixed: Seconds that no thread takes off, >= 0.
        r2: Share of the measured times' variance that the model explains; 1 where they don't vary and it meets them.
        worst: Largest error of a predicted time, relative to the measured one.
    """

    shared: float
    fixed: float = 0.0
    r2: float = 1.0
    worst: float = 0.0

    def seconds(self, threads: int) -> float:
        """Returns the seconds of a mini-batch with `threads` threads."""
        return self.shared / threads + self.fixed


def fit(threads: Sequence[int], seconds: Sequence[float], *, fixed: bool) -> StageModel:
    """Returns the model whose errors, relative to the measured times, have the least sum of squares.

    Relative ones, since a time with many threads is short and yet as likely to be the pipeline's slowest stage as one
    with few.

    Args:
        threads: Of each measurement, >= 1.
        seconds: Of each measurement.
        fixed: Whether a part may be `fixed`; if not, time is proportional to 1 / threads.

    Raises:
        UsageError: There is no measurement, or the lengths differ.
    """
    if not len(threads) or len(threads) != len(seconds):
        raise UsageError(f"a fit needs a time for each thread count, got {len(threads)} counts, {len(seconds)} times")
    inverse = 1.0 / np.asarray(threads, dtype=np.float64)
    times = np.maximum(np.asarray(seconds, dtype=np.float64), _MIN_SECONDS)
    terms = np.column_stack([inverse, np.ones_like(inverse)]) if fixed else inverse[:, None]
    weights, _ = nnls(terms / times[:, None], np.ones_like(times))
    predicted = terms @ weights
    rest = float(weights[1]) if fixed else 0.0
    worst = float(np.abs(predicted / times - 1).max())
    return StageModel(float(weights[0]), rest, _explained(times, predicted), worst)


def _explained(times: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    """Returns the coefficient of determination."""
    missed = float(((times - predicted) ** 2).sum())
    spread = float(((times - times.mean()) ** 2).sum())
    if spread > 0:
        return 1 - missed / spread
    return 1.0 if np.allclose(times, predicted) else 0.0

"""`simplified`: a configuration without the knobs that gain nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.space import Rows, SearchSpace

#: Most that resetting knobs to their defaults may lose in total: in doublings of the score (2 %), and in the
#: probability of keeping the limits. Guesses: less than any trial could show.
WORTH = 0.03


class Judged(NamedTuple):
    """The scores of configurations, and the probabilities that they keep the limits, each float64, shape (n,)."""

    score: NDArray[np.float64]
    probability: NDArray[np.float64]


def simplified(row: Rows, space: SearchSpace, judge: Callable[[Rows], Judged]) -> Rows:
    """Returns `row` with those knobs reset to their defaults that are predicted to gain nothing.

    A simple configuration is easier to read, and shares its learning curve with more of the others. The knob whose
    default scores best is reset first.

    Args:
        row: Canonical, int64, shape (n_knobs,).
        space: The configurations.
        judge: Judges rows, int64, shape (n, n_knobs).
    """
    score, probability = (one[0] - WORTH for one in judge(row[None]))
    found = row
    while True:
        simpler = list(simpler_rows(found, space))
        if not simpler:
            return found
        rows = np.stack(simpler)
        scores, probable = judge(rows)
        scores = np.where(probable >= probability, scores, -np.inf)
        if scores.max() < score:
            return found
        found = rows[scores.argmax()]


def simpler_rows(row: Rows, space: SearchSpace) -> Iterator[Rows]:
    """Yields the canonical rows with one knob of `row` reset to its default, if the space contains that."""
    for j, knob in enumerate(space.knobs):
        if knob.default in knob.values:
            back = row.copy()
            back[j] = knob.values.index(knob.default)
            back = space.canonical(back[None])[0]
            if (back != row).any():
                yield back

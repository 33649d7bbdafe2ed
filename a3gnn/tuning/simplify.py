"""What is recommended with as few knobs turned as its prediction needs: others go back to the default."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from a3gnn.search.problem import Problem
from a3gnn.space import SearchSpace
from a3gnn.tuning.acquisition import Rows

#: What all knobs that go back to their defaults may lose together: of the score in doublings (2 %), and of the
#: probability of keeping the limits. Guesses: less than any trial could show.
WORTH = 0.03

#: Takes rows, int64, shape (n, n_knobs), to the probability of keeping the limits, shape (n,).
Probable = Callable[[Rows], np.ndarray[tuple[int, ...], np.dtype[np.float64]]]


def simplified(row: Rows, problem: Problem, probable: Probable, tried: set[bytes]) -> Rows:
    """Returns `row` with each knob at its default that is predicted to gain nothing here.

    A configuration that a person can read is worth more than one with knobs turned for nothing, and shares its learning
    curve with more of the others. The knob whose default scores best goes back first.

    Args:
        row: Canonical, int64, shape (n_knobs,).
        problem: What is searched, and for what.
        probable: Says how probable rows are to keep the limits.
        tried: Rows as bytes that are not to be returned.
    """

    def score(rows: Rows) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return problem.objectives.score(problem.predict(rows))

    least, least_probable = score(row[None])[0] - WORTH, probable(row[None])[0] - WORTH
    found = row
    while True:
        simpler = [one for one in _simpler(found, problem.space) if one.tobytes() not in tried]
        if not simpler:
            return found
        rows = np.stack(simpler)
        scores = np.where(probable(rows) >= least_probable, score(rows), -np.inf)
        if scores.max() < least:
            return found
        found = rows[scores.argmax()]


def _simpler(row: Rows, space: SearchSpace) -> Iterator[Rows]:
    """Yields the canonical rows with one knob of `row` back at its default, where the space has that."""
    for j, knob in enumerate(space.knobs):
        if knob.default in knob.values:
            back = row.copy()
            back[j] = knob.values.index(knob.default)
            back = space.canonical(back[None])[0]
            if (back != row).any():
                yield back

"""What a search returns."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn.prediction import Prediction
from a3gnn.search.searchable import Searchable


@dataclass(frozen=True)
class SearchResult:
    """What a search has found, and how good that is.

    Attributes:
        engine: Which searcher.
        seed: Its seed.
        feasible: Whether anything that it evaluated keeps the limits.
        rows: The feasible front of all that it evaluated, int64, shape (n, n_knobs), fastest first; all is as
            predicted. Where nothing is feasible: the least violating rows, the least first, and among equals by the
            priority's score.
        prediction: Of `rows`.
        costs: Of `rows`, float64, shape (n, 3), as `Objectives.costs` has them.
        violation: Of `rows`, float64, shape (n,); 0 everywhere if feasible.
        configurations: Those of the space that run differently.
        evaluations: Distinct configurations that it evaluated, those of training a policy included.
        seconds: Wall clock of the search. Predicting an enumerable space, which is done once before, is not in it.
        hypervolume: Of the front, by `NormalisedHypervolume`; 0 where nothing is feasible.
        hypervolume_ratio: That over the exhaustive front's; None without one (space too large, nothing feasible).
        random_hypervolume: What random search reaches with as many evaluations, on the same scale; None where it was
            not compared.
        random_ratio: That over the exhaustive front's; None without either.
    """

    engine: str
    seed: int
    feasible: bool
    rows: NDArray[np.int64]
    prediction: Prediction
    costs: NDArray[np.float64]
    violation: NDArray[np.float64]
    configurations: int
    evaluations: int
    seconds: float
    hypervolume: float
    hypervolume_ratio: float | None
    random_hypervolume: float | None
    random_ratio: float | None


class EvaluationCache:
    """A `Predict` that remembers: evaluates each canonical row once, and counts the distinct ones.

    Attributes:
        rows: Distinct rows so far, in the order of their first evaluation, int64, shape (n, n_knobs).
        prediction: Of `rows`.
    """

    def __init__(self, problem: Searchable) -> None:
        self._problem = problem
        self._position: dict[int, int] = {}
        self.rows = np.empty((0, len(problem.space.nvec)), dtype=np.int64)
        nothing = np.empty((0, len(problem.metrics)))
        self.prediction = Prediction(nothing, nothing, nothing, metrics=problem.metrics)

    def __len__(self) -> int:
        return len(self._position)

    def __call__(self, rows: NDArray[np.int64]) -> Prediction:
        """Returns the prediction of `rows`, which may repeat and need not be canonical."""
        rows = self._problem.space.canonical(rows)
        keys = self._problem.keys(rows).tolist()
        fresh: dict[int, int] = {}
        for at, key in enumerate(keys):
            if key not in self._position and key not in fresh:
                fresh[key] = at
        if fresh:
            self._append(rows[list(fresh.values())])
        return self.prediction.take(np.array([self._position[key] for key in keys], dtype=np.int64))

    def _append(self, rows: NDArray[np.int64]) -> None:
        old, new = self.prediction, self._problem.predict(rows)
        self.prediction = dataclasses.replace(
            new,
            mean=np.concatenate([old.mean, new.mean]),
            low=np.concatenate([old.low, new.low]),
            high=np.concatenate([old.high, new.high]),
        )
        for position, key in enumerate(self._problem.keys(rows).tolist(), start=len(self.rows)):
            self._position[key] = position
        self.rows = np.concatenate([self.rows, rows])

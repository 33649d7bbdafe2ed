"""`SearchResult`: the result of a search; `EvaluationCache`: its evaluated configurations."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn.prediction import Prediction
from a3gnn.search.searchable import Searchable


@dataclass(frozen=True)
class SearchResult:
    """The front that a search found, and its quality. All figures are predicted.

    Attributes:
        engine: Name of the search engine.
        seed: Its seed.
        feasible: Whether any evaluated configuration keeps the limits.
        rows: The feasible front of all evaluated configurations, int64, shape (n, n_knobs), fastest first. If none is
            feasible, the rows with the least violation, least first, and among equals by the priority's score.
        prediction: Prediction of `rows`.
        costs: Costs of `rows` by `Objectives.costs`, float64, shape (n, 3).
        violation: Violation of `rows`, float64, shape (n,); 0 everywhere if feasible.
        configurations: Number of distinct configurations in the space.
        evaluations: Number of distinct evaluated configurations, including those of training a policy.
        seconds: Wall-clock seconds of the search, without predicting an enumerable space once in advance.
        hypervolume: Hypervolume of the front by `NormalisedHypervolume`; 0 if nothing is feasible.
        hypervolume_ratio: `hypervolume` over the exhaustive front's; None without an exhaustive front (space too large,
            nothing feasible).
        random_hypervolume: Hypervolume of random search with as many evaluations, on the same scale; None if it was not
            run.
        random_ratio: `random_hypervolume` over the exhaustive front's; None without either.
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
    """A `Predict` that evaluates each canonical row once, stores the predictions, and counts the distinct rows.

    Attributes:
        rows: Distinct rows so far, in the order of their first evaluation, int64, shape (n, n_knobs).
        prediction: Prediction of `rows`.
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

"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn.prediction import Prediction


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

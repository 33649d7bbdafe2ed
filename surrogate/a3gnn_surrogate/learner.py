"""The learner of residuals: small boosted trees, as many as help on graphs that were held out."""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np
import xgboost
from numpy.typing import NDArray

from a3gnn_surrogate.volume import Array

Features = NDArray[np.float32]
#: Rows held out by turns: one boolean array of shape (n,) a fold.
Folds = list[NDArray[np.bool_]]

#: Numbers of trees to choose from.
_CHOICES = (0, 20, 40, 60, 80, 120, 160)
_PARAMETERS = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_depth": 3,
    "eta": 0.1,
    "subsample": 0.8,
    "colsample_bytree": 0.5,
    "min_child_weight": 4.0,
    "lambda": 4.0,
    "base_score": 0.0,
    # A few hundred rows have few distinct values, and leave a second thread nothing but waiting.
    "max_bin": 64,
    "nthread": 1,
}


class Learner(Protocol):
    """Learns a column of numbers; a baseline or boosted trees."""

    def tune(self, features: Features, target: Array, weights: Array, folds: Folds) -> Self:
        """Sets what is chosen by held-out folds, and returns itself."""
        ...

    def fit(self, features: Features, target: Array, weights: Array) -> Self:
        """Fits with what `tune` has set, and returns itself."""
        ...

    def predict(self, features: Features) -> Array:
        """Returns the predicted column, float64, shape (n,)."""
        ...


class BoostedTrees:
    """XGBoost with a fixed number of shallow trees; deterministic for a seed.

    Attributes:
        seed: Decides which rows and columns a tree sees.
        trees: Their number; 0 predicts 0. `tune` sets it.
        booster: The fitted model, or None.
    """

    def __init__(self, seed: int, trees: int = 0, booster: xgboost.Booster | None = None) -> None:
        self.seed = seed
        self.trees = trees
        self.booster = booster

    def tune(self, features: Features, target: Array, weights: Array, folds: Folds) -> Self:
        """Chooses the number of trees with the least squared error over `folds`; none is one of the choices.

        Early stopping on random rows would pick too many: rows of one graph resemble each other.
        """
        errors = np.zeros(len(_CHOICES))
        for held in folds:
            booster = self._train(features[~held], target[~held], weights[~held], _CHOICES[-1])
            matrix = xgboost.DMatrix(features[held], nthread=1)
            errors[0] += weights[held] @ target[held] ** 2
            for step, trees in enumerate(_CHOICES[1:], start=1):
                predicted = booster.predict(matrix, iteration_range=(0, trees))
                errors[step] += weights[held] @ (target[held] - predicted) ** 2
        self.trees = _CHOICES[int(errors.argmin())]
        return self

    def fit(self, features: Features, target: Array, weights: Array) -> Self:
        """Fits `trees` trees and returns itself."""
        self.booster = self._train(features, target, weights, self.trees) if self.trees else None
        return self

    def predict(self, features: Features) -> Array:
        """Returns the predicted column, float64, shape (n,)."""
        if self.booster is None:
            return np.zeros(len(features))
        return np.asarray(self.booster.inplace_predict(features), dtype=np.float64)

    def _train(self, features: Features, target: Array, weights: Array, trees: int) -> xgboost.Booster:
        matrix = xgboost.DMatrix(features, label=target, weight=weights, nthread=1)
        booster = xgboost.Booster(_PARAMETERS | {"seed": self.seed}, [matrix])
        for tree in range(trees):
            booster.update(matrix, tree)
        return booster


class NoLearner:
    """Learns nothing: the analytic model alone."""

    def tune(self, features: Features, target: Array, weights: Array, folds: Folds) -> Self:
        """Returns itself."""
        return self

    def fit(self, features: Features, target: Array, weights: Array) -> Self:
        """Returns itself."""
        return self

    def predict(self, features: Features) -> Array:
        """Returns zeros, float64, shape (n,)."""
        return np.zeros(len(features))

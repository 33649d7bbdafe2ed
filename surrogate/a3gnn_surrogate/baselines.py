"""The baselines that the paper names: linear regression and a decision tree, through the learner's interface."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from a3gnn_surrogate.learner import Features, Folds
from a3gnn_surrogate.volume import Array


class Baseline:
    """A regressor of scikit-learn; nothing is tuned.

    Attributes:
        regressor: The estimator, fitted in place.
        weight_name: The name under which it takes row weights.
    """

    def __init__(self, regressor: Any, weight_name: str) -> None:
        self.regressor = regressor
        self.weight_name = weight_name

    def tune(self, features: Features, target: Array, weights: Array, folds: Folds) -> Self:
        """Returns itself."""
        return self

    def fit(self, features: Features, target: Array, weights: Array) -> Self:
        """Fits the regressor and returns itself."""
        self.regressor.fit(features.astype(np.float64), target, **{self.weight_name: weights})
        return self

    def predict(self, features: Features) -> Array:
        """Returns the predicted column, float64, shape (n,)."""
        return np.asarray(self.regressor.predict(features.astype(np.float64)), dtype=np.float64)


def linear() -> Baseline:
    """Returns linear regression; the small penalty only decides between columns that are copies of each other."""
    return Baseline(make_pipeline(StandardScaler(), Ridge(alpha=1.0)), "ridge__sample_weight")


def decision_tree(seed: int) -> Baseline:
    """Returns one decision tree of a depth that a few hundred rows carry."""
    tree = DecisionTreeRegressor(max_depth=6, min_samples_leaf=4, random_state=seed)
    return Baseline(tree, "sample_weight")

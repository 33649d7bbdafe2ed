"""`knob_importance`: how much each knob moves the predictions of a study's trials, as mean |SHAP| values."""

from __future__ import annotations

import numpy as np
import xgboost
from numpy.typing import NDArray

from a3gnn.launch import QUICK
from a3gnn.objectives import Objectives
from a3gnn.prediction import Prediction
from a3gnn.space import Rows
from a3gnn.tuning.beliefs.expectations import predict
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.importance import Importance
from a3gnn_surrogate.residual import THREADS
from a3gnn_surrogate.surrogate import Surrogate

#: Random configurations that the trees learn from; they define the average from which SHAP values count. Guess.
_SAMPLE_SIZE = 50 if QUICK else 1000
#: Parameters and number of the trees. A tree of depth five has interactions of up to five knobs.
_PARAMETERS = {"max_depth": 5, "eta": 0.15, "tree_method": "hist", "max_bin": 64, **THREADS}
_NUM_TREES = 60
#: A range of costs below which they are equal but for rounding.
_ROUNDING = 1e-9


def knob_importance(history: History, surrogate: Surrogate) -> Importance | None:
    """Returns the importance of each knob for each objective; None without trials inside the space.

    The surrogate's own trees only correct the analytic model, so their SHAP values would leave out most of a knob's
    effect. Trees over the knobs alone are therefore fitted to the whole surrogate's predictions of random
    configurations. Their SHAP values divide each trial's predicted deviation from the average among the knobs.
    """
    found = (history.row(trial.measurement.config) for trial in history.trials)
    rows = [row for row in found if row is not None]
    if not rows:
        return None
    trials, space = np.unique(np.stack(rows), axis=0), history.space
    sample = space.sample(_SAMPLE_SIZE, history.study.request.seed)
    costs = _costs(history.objectives, predict(surrogate, history, space.columns(sample)))
    shares = [_mean_shap(sample, costs[:, j], trials) for j in range(costs.shape[1])]
    return Importance(
        knobs=space.names,
        speed=tuple(shares[0][0].tolist()),
        memory=tuple(shares[1][0].tolist()),
        accuracy=tuple((100 * shares[2][0]).tolist()),
        explained=tuple(explained for _, explained in shares),
        trials=len(trials),
    )


def _costs(objectives: Objectives, prediction: Prediction) -> NDArray[np.float64]:
    """Returns the predicted costs of `Objectives.costs`; infinite ones take the largest finite cost, or 0."""
    costs = objectives.costs(prediction)
    finite = np.isfinite(costs)
    largest = np.where(finite, costs, -np.inf).max(axis=0)
    return np.where(finite, costs, np.where(np.isfinite(largest), largest, 0.0))


def _mean_shap(sample: Rows, y: NDArray[np.float64], trials: Rows) -> tuple[NDArray[np.float64], float]:
    """Returns the mean |SHAP| of each knob over `trials`, float64, shape (n_knobs,), and the explained variance of `y`.

    Args:
        sample: Rows that the trees learn from, int64, shape (n, n_knobs).
        y: A cost of each of them, float64, shape (n,).
        trials: Rows to explain, int64, shape (m, n_knobs).
    """
    if np.ptp(y) < _ROUNDING:
        return np.zeros(sample.shape[1]), 1.0
    matrix = xgboost.DMatrix(sample, label=y, nthread=1)
    booster = xgboost.train({**_PARAMETERS, "base_score": float(y.mean())}, matrix, _NUM_TREES)
    values = booster.predict(xgboost.DMatrix(trials, nthread=1), pred_contribs=True)[:, :-1]  # the last is the average
    error = np.square(booster.predict(matrix) - y).mean()
    return np.abs(values).mean(axis=0, dtype=np.float64), float(1 - error / y.var())

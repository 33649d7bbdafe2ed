"""`believed`: which trials are the best, by what is predicted of them after all trials."""

from __future__ import annotations

import dataclasses

from a3gnn.figures import Figures
from a3gnn.prediction import Prediction
from a3gnn.tuning.expectations import predict
from a3gnn.tuning.history import History
from a3gnn.tuning.trial import JudgedTrial
from a3gnn_surrogate.surrogate import Surrogate


def believed(history: History, surrogate: Surrogate) -> list[JudgedTrial]:
    """Returns the trials of `History.ranked`, that first of which the best is predicted, with figures as predicted.

    Of many that were measured once, that which measured best was lucky as well. Throughput and memory are predicted;
    what was learnt is known, and counts at the predicted pace. Which are eligible, measurements say.

    Args:
        history: Of the tune so far.
        surrogate: Fitted to it: one that has not seen a trial knows nothing of how lucky it was.
    """
    judged = history.ranked()
    if not judged:
        return []
    prediction = predict(surrogate, history, [one.trial.measurement.config for one in judged])
    return history.by_score([_as_predicted(one, history, prediction, row) for row, one in enumerate(judged)])


def _as_predicted(one: JudgedTrial, history: History, prediction: Prediction, row: int) -> JudgedTrial:
    metrics = dataclasses.replace(
        one.metrics,
        throughput_epochs_per_s=float(prediction.column("throughput_epochs_per_s")[row]),
        throughput_replicates=(),
        peak_host_bytes=round(prediction.column("peak_host_bytes")[row]),
        peak_device_bytes=round(prediction.column("peak_device_bytes")[row]),
    )
    return one._replace(figures=Figures.of(metrics, history.curve(one.trial.measurement.config), history.reference))

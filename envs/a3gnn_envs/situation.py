"""`Situation`: a setting with its predictions; `Beliefs`: predictions in the units of their errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.measurement import METRICS
from a3gnn.prediction import Predict, Prediction, from_log_points
from a3gnn.setting import Setting
from a3gnn.space import Rows, SearchSpace
from a3gnn_envs.choices import NUM_KNOBS, Choices
from a3gnn_envs.observation import CORRECTIONS, Floats, setting_features

#: Random configurations by which a situation's limits and rewards are scaled, as in the training of the shipped policy.
POOL_SIZE = 256
#: Half-width of a normal 90 % interval in standard deviations.
_DEVIATIONS = 1.645
_SPEED, _DEVICE, _HOST, _ACCURACY, _EPOCHS = range(len(CORRECTIONS))


@dataclass(frozen=True)
class Situation:
    """A setting with its predictions.

    Attributes:
        setting: The task, the graph and the machine.
        predict: Returns the `Prediction` of rows of `space`; relative to a default whose accuracy is known or assumed
            (`Prediction.default_accuracy`).
        space: The configurations.
    """

    setting: Setting
    predict: Predict
    space: SearchSpace

    @cached_property
    def choices(self) -> Choices:
        """The legal choices in the space."""
        return Choices(self.setting, self.space)

    @cached_property
    def features(self) -> Floats:
        """The numbers of the setting, float64, shape (n_features,)."""
        return setting_features(self.setting)

    @cached_property
    def baseline(self) -> Beliefs:
        """The beliefs about the default configuration, or about the nearest one in the space."""
        slots = Choices.full(self.setting).slots(SearchSpace.of(self.setting).encode(TrainConfig())[None])[0]
        nearest = np.zeros((1, NUM_KNOBS), dtype=np.int64)
        for step in range(NUM_KNOBS):
            legal = np.flatnonzero(self.choices.legal(step, nearest, self.choices.mask)[0])
            nearest[0, step] = legal[np.abs(legal - slots[step]).argmin()]
        return self.believed(self.choices.rows(nearest))

    @cached_property
    def pool(self) -> Beliefs:
        """The beliefs about `POOL_SIZE` random configurations, always the same."""
        return self.believed(self.space.sample(POOL_SIZE, seed=0))

    def pool_metrics(self, known: Floats) -> Floats:
        """Returns the metrics of `pool` with each of the corrections `known` (n, 5), float64, shape (n, m, 5)."""
        return self.pool.metrics(known[None]).swapaxes(0, 1)

    def believed(self, rows: Rows) -> Beliefs:
        """Returns the beliefs about canonical `rows` of the space."""
        return Beliefs.of(self.predict(rows), self.setting)


@dataclass(frozen=True, slots=True)
class Beliefs:
    """A prediction in the units of the surrogate's errors.

    Attributes:
        center: Logarithms, and lost accuracy on the scale `log_points`; columns `CORRECTIONS`, the last one being
            epochs to the target up to a factor, float64, shape (n, 5).
        deviation: Standard deviations, same shape.
        accuracy: The default's accuracy.
        idle: Bytes of an idle process.
    """

    center: Floats
    deviation: Floats
    accuracy: float
    idle: float

    @classmethod
    def of(cls, prediction: Prediction, setting: Setting) -> Beliefs:
        """Returns the beliefs of `prediction`, whose default's accuracy must be known or assumed."""
        accuracy = prediction.default_accuracy
        if accuracy is None:
            raise UsageError("predictions must be relative to a default's accuracy, known or assumed, got none")
        idle = float(setting.hardware.profile.idle_host_bytes)
        bounds = [_outputs(prediction, name, idle) for name in ("mean", "low", "high")]
        deviation = np.abs(bounds[2] - bounds[1]) / (2 * _DEVIATIONS)
        # The error of the seconds combines the errors of epochs and speed, which are independent.
        squares = deviation[:, _EPOCHS] ** 2 - deviation[:, _SPEED] ** 2
        deviation[:, _EPOCHS] = np.sqrt(np.maximum(squares, 0.0))
        center = bounds[0].copy()
        center[:, _EPOCHS] += center[:, _SPEED]
        return cls(center, deviation, accuracy, idle)

    def metrics(self, error: Floats | float = 0.0) -> Floats:
        """Returns the metrics with `error` added in these units, columns `METRICS`, float64, the broadcast shape.

        Args:
            error: Shape (n or 1, 5); or (n or 1, m, 5), m for each of the n configurations.
        """
        center = self.center[:, None] if np.ndim(error) == 3 else self.center
        moved = center + error
        found = np.exp(moved)
        found[..., METRICS.index("peak_host_bytes")] += self.idle
        found[..., METRICS.index("val_accuracy")] = self.accuracy - from_log_points(moved[..., _ACCURACY])
        found[..., METRICS.index("seconds_to_accuracy")] = np.exp(moved[..., _EPOCHS] - moved[..., _SPEED])
        return found


def _outputs(prediction: Prediction, bound: str, idle: float) -> Floats:
    values = {name: prediction.column(name, bound) for name in METRICS}
    logs = [values["throughput_epochs_per_s"], values["peak_device_bytes"], values["peak_host_bytes"] - idle]
    lost = prediction.lost(values["val_accuracy"])
    columns = [*(np.log(np.maximum(one, 1e-12)) for one in logs), lost, np.log(values["seconds_to_accuracy"])]
    return np.stack(columns, axis=1)

"""The observation of a setting and a goal, as numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_FRACTIONS
from a3gnn.hardware import MachineProfile
from a3gnn.objectives import Objectives
from a3gnn.prediction import Prediction, log_points
from a3gnn.setting import Setting
from a3gnn.task import MODELS

#: Observed numbers are clipped to this many standard deviations, as in the training of the shipped policy.
BOUND = 4.0
#: Deviation below which a number counts as constant and is not observed.
_LEAST_DEVIATION = 1e-3
_GRAPH = (
    *("num_nodes", "num_edges", "mean_degree", "p95_degree", "max_degree", "num_features", "feature_bytes"),
    *("row_bytes", "num_classes", "num_train", "num_val", "num_components"),
)
_GRAPH_SHARES = ("degree_gini", "feature_density", "sparse_features", "label_rate", "homophily", "largest_component")
_TASK = ("hidden_channels", "learning_rate", "heads")
_HARDWARE = ("num_cores", "host_memory_bytes", "num_devices", "device_memory_bytes")
#: The corrections of a setting that are observed, in the surrogate's order.
CORRECTIONS: tuple[str, ...] = (
    *("throughput_epochs_per_s", "peak_device_bytes", "host_bytes_above_idle", "accuracy_drop", "epochs_to_accuracy"),
)
#: Numbers that describe a goal.
GOAL: tuple[str, ...] = (
    *("speed_weight", "memory_weight", "accuracy_weight", "by_time", "host_limited", "host_limit", "device_limited"),
    *("device_limit", "accuracy_limited", "accuracy_drop", "doubt", *(f"corrected_{name}" for name in CORRECTIONS)),
)
#: Limits below this multiple of the default's peak are alike, and so close to none that nothing keeps them.
_LEAST_RATIO = 0.05
#: Factor on corrections, whose deviations are about 0.15 for speed and memory.
_CORRECTION = 3.0
Floats = NDArray[np.float64]


class Levels(NamedTuple):
    """The predicted level of a setting: the default configuration's metrics, and the corrections by measurements.

    Attributes:
        baseline: Prediction of the default, of length 1.
        corrections: Corrections of the general model by the setting's measurements, in the surrogate's order and units
            (`CORRECTIONS`): the constant of its `LocalCorrection`. Zeros without measurements.
    """

    baseline: Prediction
    corrections: Sequence[float] | Floats = (0.0,) * len(CORRECTIONS)


@dataclass(frozen=True, slots=True)
class Scale:
    """Centers and scales the numbers of settings.

    Attributes:
        mean: float32, shape (n_features,).
        deviation: Same shape; infinite where a number was constant, so that it is not observed.
    """

    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]

    @classmethod
    def fit(cls, features: Floats) -> Self:
        """Returns the scale of `features`, (n_settings, n_features)."""
        deviation = features.std(axis=0)
        deviation[deviation < _LEAST_DEVIATION] = np.inf
        return cls(features.mean(axis=0).astype(np.float32), deviation.astype(np.float32))

    def scaled(self, features: Floats) -> NDArray[np.float32]:
        """Returns `features` centered, scaled and clipped to `BOUND`, float32, same shape."""
        return np.clip((features - self.mean) / self.deviation, -BOUND, BOUND).astype(np.float32)


def setting_features(setting: Setting) -> Floats:
    """Returns the numbers of a setting, float64, shape (`NUM_FEATURES`,): shares as they are, the others as logs."""
    graph, task, hardware = setting.graph, setting.task, setting.hardware
    fanouts = [fanout if fanout > 0 else graph.mean_degree for fanout in task.fanouts]
    values = [
        *(math.log1p(float(getattr(graph, name))) for name in _GRAPH),
        *(float(getattr(graph, name)) for name in _GRAPH_SHARES),
        *graph.cached_edge_mass,
        *(float(task.model == name) for name in MODELS),
        float(task.is_own),
        float(task.num_layers),
        task.dropout,
        *(math.log(float(getattr(task, name))) for name in _TASK),
        math.log(max(fanouts[0], 1.0)),
        math.log(max(math.prod(fanouts), 1.0)),
        *(math.log1p(float(getattr(hardware, name))) for name in _HARDWARE),
        *(_log(getattr(hardware.profile, field.name)) for field in dataclasses.fields(MachineProfile)),
    ]
    return np.array(values)


def _log(value: float) -> float:
    """Returns the logarithm of a constant of a machine; 0 where it has none."""
    return math.log(value) if value > 0 else 0.0


NUM_FEATURES = (
    len(_GRAPH) + len(_GRAPH_SHARES) + len(CACHE_FRACTIONS) + len(MODELS) + 3 + len(_TASK) + 2
    + len(_HARDWARE) + len(dataclasses.fields(MachineProfile))
)  # fmt: skip


def goal_features(
    weights: Floats,
    by_time: NDArray[np.bool_],
    host: Floats,
    device: Floats,
    drop: Floats,
    doubt: Floats,
    corrections: Floats,
) -> NDArray[np.float32]:
    """Returns the numbers `GOAL`, scaled to about [-2, 2] and clipped to `BOUND`, float32, shape (n, n_numbers).

    Args:
        weights: Weights of speed, memory and accuracy, shape (n, 3).
        by_time: Whether speed means seconds to accuracy, shape (n,).
        host: The limit on host memory over the default's predicted peak, both above an idle process; NaN without a
            limit, shape (n,).
        device: The limit on device memory over the default's predicted peak; NaN without one, shape (n,).
        drop: Accuracy that may be lost, a share of 1; NaN without a limit, shape (n,).
        doubt: Factor on the deviations of predictions, shape (n,).
        corrections: `Levels.corrections`, shape (n, 5).
    """
    columns: list[Any] = [*(4 * weights.T - 4 / 3), 2 * by_time - 1.0]
    logs = (*(2 * np.log2(np.maximum(limit, _LEAST_RATIO)) for limit in (host, device)), log_points(drop))
    for limit, scaled in zip((host, device, drop), logs, strict=True):
        limited = np.isfinite(limit)
        columns += [2 * limited - 1.0, np.where(limited, scaled, 0.0)]
    columns += [4 * doubt - 2, *(_CORRECTION * corrections.T)]
    return np.asarray(np.clip(np.stack(columns, axis=1), -BOUND, BOUND), dtype=np.float32)


def over(limit: Any, peak: Any, idle: Any) -> Any:
    """Returns a limit over a peak, both above `idle` bytes: a number, or an array of them; NaN for None."""
    return (math.nan if limit is None else limit - idle) / np.maximum(peak - idle, 1.0)


def goal_of(setting: Setting, objectives: Objectives, levels: Levels, doubt: float) -> NDArray[np.float32]:
    """Returns `goal_features` of one goal, float32, shape (n_numbers,)."""
    limits, priority = objectives.limits, objectives.priority
    found = levels.baseline
    idle = setting.hardware.profile.idle_host_bytes
    host = over(limits.host_bytes, float(found.column("peak_host_bytes")[0]), idle)
    device = over(limits.device_bytes, float(found.column("peak_device_bytes")[0]), 0.0)
    least = limits.least_accuracy
    drop = math.nan if least is None else float(found.column("val_accuracy")[0]) - least
    one = goal_features(
        priority.weights[None],
        np.array([priority.time]),
        host=np.array([host]),
        device=np.array([device]),
        drop=np.array([drop]),
        doubt=np.array([doubt]),
        corrections=np.asarray(levels.corrections, dtype=np.float64)[None],
    )
    return np.asarray(one[0])

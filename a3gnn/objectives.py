"""What people want: limits that must hold, and a priority among what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.breach import Breach
from a3gnn.errors import UsageError, nearest
from a3gnn.measurement import Metrics
from a3gnn.prediction import Prediction

#: Weights of throughput, memory and accuracy. Guesses.
_PRESETS = {
    "throughput": (0.9, 0.05, 0.05),
    "memory": (0.05, 0.9, 0.05),
    "accuracy": (0.05, 0.05, 0.9),
    "balanced": (1 / 3, 1 / 3, 1 / 3),
}
#: Points of accuracy that weigh as much as a doubling of throughput or a halving of memory, at equal weights. Guess.
_POINTS_PER_DOUBLING = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What a configuration must keep.

    Attributes:
        host_bytes: Largest `peak_host_bytes`, or None.
        device_bytes: Largest `peak_device_bytes`, or None.
        least_accuracy: Smallest `test_accuracy` in [0, 1], or None.
    """

    host_bytes: int | None = None
    device_bytes: int | None = None
    least_accuracy: float | None = None

    def __post_init__(self) -> None:
        for name in ("host_bytes", "device_bytes"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"{name} must be positive, got {value}; leave it out for no limit")

    def violation(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns by how much each configuration breaks its worst limit, relative, float64, shape (n_configs,).

        0 where all are kept. Memory is judged by the interval's upper bound, accuracy by the mean.
        """
        worst = np.zeros(len(prediction))
        for metric, limit in (("peak_host_bytes", self.host_bytes), ("peak_device_bytes", self.device_bytes)):
            if limit is not None:
                worst = np.maximum(worst, prediction.column(metric, "high") / limit - 1)
        if self.least_accuracy is not None:
            worst = np.maximum(worst, self.least_accuracy - prediction.column("test_accuracy"))
        return worst

    def broken_by(self, metrics: Metrics) -> tuple[Breach, ...]:
        """Returns the limits that measured `metrics` break, each with by how much; none where all are kept."""
        judged = (
            ("host_bytes", self.host_bytes, metrics.peak_host_bytes, 1),
            ("device_bytes", self.device_bytes, metrics.peak_device_bytes, 1),
            ("least_accuracy", self.least_accuracy, metrics.test_accuracy, -1),
        )
        return tuple(
            Breach(name, bound, found)
            for name, bound, found, sign in judged
            if bound is not None and sign * found > sign * bound
        )


@dataclass(frozen=True, slots=True)
class Priority:
    """Weights of throughput, memory and accuracy; they sum to one."""

    throughput: float
    memory: float
    accuracy: float

    def __post_init__(self) -> None:
        weights = (self.throughput, self.memory, self.accuracy)
        if not all(np.isfinite(weights)) or min(weights) < 0 or abs(sum(weights) - 1) > 1e-6:
            raise UsageError(f"a priority's weights must be >= 0 and sum to 1, got {weights}")

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights of throughput, memory, accuracy, float64, shape (3,)."""
        return np.array([self.throughput, self.memory, self.accuracy])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the priority of a preset's name or of three weights `T,M,A`, which are scaled to sum to one.

        Raises:
            UsageError: Neither; the message lists the presets.
        """
        if isinstance(text, str) and text in _PRESETS:
            return cls(*_PRESETS[text])
        try:
            weights = [float(part) for part in text.split(",")]
        except (ValueError, AttributeError):
            weights = []
        if len(weights) != 3 or min(weights) < 0 or not 0 < sum(weights) < float("inf"):
            raise UsageError(
                f"--priority must be one of {', '.join(_PRESETS)}, or three weights T,M,A that are >= 0 "
                f"and not all 0 such as 2,1,1; got {text!r}{nearest(text, _PRESETS)}"
            )
        return cls(*(weight / sum(weights) for weight in weights))

    def score(
        self, throughput: NDArray[np.float64], memory: NDArray[np.float64], accuracy: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Returns what is to be maximised: weighted doublings of throughput, halvings of memory, and accuracy.

        Two points of accuracy weigh as much as one doubling. Monotone in each, so its maximum is on the front.
        """
        gains = (np.log2(throughput), -np.log2(memory), accuracy * 100 / _POINTS_PER_DOUBLING)
        return np.asarray(sum(weight * gain for weight, gain in zip(self.weights, gains, strict=True)))


@dataclass(frozen=True, slots=True)
class Objectives:
    """What is wanted of a configuration: to keep the limits, then what the priority prefers.

    Attributes:
        limits: What a configuration must keep to be feasible.
        priority: What is wanted of the feasible ones.
        has_device: Whether memory means the device's.
    """

    limits: Limits
    priority: Priority
    has_device: bool

    @property
    def memory(self) -> str:
        """The metric that the memory objective and `--memory-limit` mean."""
        return memory_metric(self.has_device)

    @property
    def memory_limit_bytes(self) -> int | None:
        """The limit on that metric, or None."""
        return self.limits.device_bytes if self.has_device else self.limits.host_bytes

    def costs(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns what is minimised, as predicted, float64, shape (n_configs, 3), as `minimised` has it."""
        return minimised(prediction, self.has_device)

    def measured_costs(self, metrics: Sequence[Metrics]) -> NDArray[np.float64]:
        """Returns the same of measured `metrics`, float64, shape (n, 3)."""
        return minimised_metrics(metrics, self.has_device)

    def score(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns the priority's score of each configuration, float64, shape (n_configs,); larger is better."""
        return self.priority.score(
            prediction.column("throughput_epochs_per_s"),
            prediction.column(self.memory),
            prediction.column("test_accuracy"),
        )

    def order(self, prediction: Prediction) -> NDArray[np.int64]:
        """Returns the positions best first, int64, shape (n_configs,): the least violation, then the best score."""
        return np.lexsort((-self.score(prediction), self.limits.violation(prediction)))

    def best_index(self, metrics: Sequence[Metrics]) -> int:
        """Returns the index of that of `metrics` which the priority prefers, whatever the limits."""
        cost = self.measured_costs(metrics)
        return int(self.priority.score(2.0 ** -cost[:, 0], 2.0 ** cost[:, 1], -cost[:, 2]).argmax())


def memory_metric(has_device: bool) -> str:
    """Returns the metric that the memory objective and `--memory-limit` mean: the device's where there is one."""
    return "peak_device_bytes" if has_device else "peak_host_bytes"


def minimised(prediction: Prediction, has_device: bool) -> NDArray[np.float64]:
    """Returns the objectives as costs, float64, shape (n_configs, 3): the only place that flips their signs.

    Columns: -log2 throughput, log2 memory, -accuracy. Logarithms make a factor weigh the same everywhere.
    """
    return costs(
        prediction.column("throughput_epochs_per_s"),
        prediction.column(memory_metric(has_device)),
        prediction.column("test_accuracy"),
    )


def minimised_metrics(metrics: Sequence[Metrics], has_device: bool) -> NDArray[np.float64]:
    """Returns the costs of measured `metrics`, as `minimised` does, float64, shape (n, 3)."""
    memory = memory_metric(has_device)
    return costs(
        np.array([m.throughput_epochs_per_s for m in metrics]),
        np.array([getattr(m, memory) for m in metrics], dtype=np.float64),
        np.array([m.test_accuracy for m in metrics]),
    )


def costs(
    throughput: NDArray[np.float64], memory: NDArray[np.float64], accuracy: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns -log2 throughput, log2 memory and -accuracy side by side, float64, shape (n, 3)."""
    return np.stack([-np.log2(throughput), np.log2(memory), -accuracy], axis=1)

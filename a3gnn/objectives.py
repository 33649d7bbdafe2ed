"""`Objectives`: the limits, and the priority among configurations that keep them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError, nearest
from a3gnn.figures import Figures
from a3gnn.limits import Limits
from a3gnn.metric import Metric
from a3gnn.option_names import option
from a3gnn.prediction import Prediction

#: Weights of throughput, memory and accuracy: what each priority means.
PRESETS = {
    "time": (0.9, 0.05, 0.05),
    "throughput": (0.9, 0.05, 0.05),
    "memory": (0.05, 0.9, 0.05),
    "accuracy": (0.05, 0.05, 0.9),
    "balanced": (1 / 3, 1 / 3, 1 / 3),
}
#: Presets whose choice may reach the target later than the baseline.
MAY_BE_LATE = ("memory", "accuracy")
#: The priority of the final quality, at which models are searched, too, and its weights: a doubling of speed weighs a
#: hundredth of a point.
QUALITY, _QUALITY_WEIGHTS = "quality", (0.005, 0.005, 0.99)
#: Points of accuracy that weigh as much as a doubling of throughput or a halving of memory, at equal weights: what
#: a user means who names no weights.
_POINTS_PER_DOUBLING = 2.0
#: A figure with less weight decides nothing; accuracy is then only a limit. It lies between the
#: .05 of a preset for another figure and the third of `balanced`.
MIN_WEIGHT = 0.2
#: A smaller gain of the score, as a share, is none: no trial is made for it, and the baseline stays. Verification could
#: hardly show it, because its ranges are several percent wide.
MIN_GAIN = 0.01
#: Doublings per unit of each cost: the first two are logarithms to base 2, accuracy is a share of 1.
DOUBLINGS = np.array([1.0, 1.0, 100 / _POINTS_PER_DOUBLING])


@dataclass(frozen=True, slots=True)
class Priority:
    """Weights of speed, memory and accuracy; they sum to one.

    Attributes:
        throughput: Weight of speed.
        memory: Weight of memory.
        accuracy: Weight of validation accuracy at equal training time.
        time: Whether speed means seconds to accuracy; epochs per second otherwise.
    """

    throughput: float
    memory: float
    accuracy: float
    time: bool = False

    def __post_init__(self) -> None:
        weights = (self.throughput, self.memory, self.accuracy)
        if not all(np.isfinite(weights)) or min(weights) < 0 or abs(sum(weights) - 1) > 1e-6:
            raise UsageError(f"a priority's weights must be >= 0 and sum to 1, got {weights}")

    @property
    def name(self) -> str:
        """The preset's name; "" for other weights."""
        weights = (self.throughput, self.memory, self.accuracy)
        if self.final:
            return QUALITY
        named = (name for name, preset in PRESETS.items() if preset == weights and self.time == (name == "time"))
        return next(named, "")

    @property
    def final(self) -> bool:
        """Whether the validation quality at the end of each training decides, and not at equal training time."""
        return (self.throughput, self.memory, self.accuracy) == _QUALITY_WEIGHTS and not self.time

    @property
    def text(self) -> str:
        """The preset's name, or else the weights T,M,A; `parse` reads both."""
        return self.name or ",".join(f"{weight:g}" for weight in self.weights)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights of speed, memory, accuracy, float64, shape (3,)."""
        return np.array([self.throughput, self.memory, self.accuracy])

    @property
    def accuracy_counts(self) -> bool:
        """Whether accuracy above the limit counts; if not, trials end as soon as they reach the limit."""
        return bool(self.deciding[2])

    @property
    def mostly_accuracy(self) -> bool:
        """Whether accuracy weighs more than speed and more than memory, at equal training time or at the end."""
        return self.accuracy > max(self.throughput, self.memory)

    @property
    def to_target(self) -> bool:
        """Whether speed means seconds to accuracy and accuracy is only a limit, so that trials end at the target."""
        return self.time and not self.accuracy_counts

    @property
    def only_time(self) -> bool:
        """Whether nothing but the seconds to accuracy decides."""
        return self.time and self.deciding.tolist() == [True, False, False]

    @property
    def in_time(self) -> bool:
        """Whether nothing may be chosen that reaches the target later than the baseline.

        Only the presets memory and accuracy, and weights without speed, allow that.
        """
        return self.throughput > 0 and self.name not in (*MAY_BE_LATE, QUALITY)

    @property
    def deciding(self) -> NDArray[np.bool_]:
        """Which of speed, memory and accuracy have enough weight to decide a comparison, bool, shape (3,)."""
        return self.weights >= MIN_WEIGHT

    @property
    def speed(self) -> str:
        """The metric that speed means."""
        return "seconds_to_accuracy" if self.time else "throughput_epochs_per_s"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the priority for a preset's name or three weights `T,M,A`, which are scaled to sum to one.

        Raises:
            UsageError: `text` is neither; the message lists the presets.
        """
        if text == QUALITY:
            return cls(*_QUALITY_WEIGHTS)
        if isinstance(text, str) and text in PRESETS:
            return cls(*PRESETS[text], time=text == "time")
        try:
            weights = [float(part) for part in text.split(",")]
        except (ValueError, AttributeError):
            weights = []
        if len(weights) != 3 or min(weights) < 0 or not 0 < sum(weights) < float("inf"):
            raise UsageError(
                f"{option('priority')} must be one of {', '.join((*PRESETS, QUALITY))}, or three weights T,M,A that "
                f"are >= 0 and not all 0 such as 2,1,1; got {text!r}{nearest(text, (*PRESETS, QUALITY))}"
            )
        throughput, memory, accuracy = (weight / sum(weights) for weight in weights)
        return cls(throughput, memory, accuracy)

    def score(self, costs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the score to maximize: weighted doublings of speed, halvings of memory, and accuracy.

        Two points of accuracy weigh as much as one doubling. The score is monotone in each cost, so its maximum is on
        the front.

        Args:
            costs: Costs as `Objectives.costs` returns them, float64, shape (n_configs, 3).
        """
        return np.asarray(-(costs * self.weights * DOUBLINGS).sum(axis=1))


@dataclass(frozen=True, slots=True)
class Objectives:
    """The goal of a tune: keep the limits, then maximize the priority's score."""

    limits: Limits  # limits that a feasible configuration keeps
    priority: Priority  # ranks the feasible configurations
    has_device: bool  # whether memory means the device's

    @property
    def memory(self) -> str:
        """Name of the metric of the memory objective and of `--memory-limit`."""
        return memory_metric(self.has_device)

    @property
    def memory_limit_bytes(self) -> int | None:
        """The limit on that memory, or None."""
        return self.limits.device_bytes if self.has_device else self.limits.host_bytes

    @property
    def metric(self) -> Metric:
        """The metric that models are judged by."""
        return self.limits.metric

    @property
    def speed(self) -> str:
        """The metric that the speed objective means: epochs per second, or seconds to accuracy."""
        return self.priority.speed

    def costs(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns the predicted costs, smaller is better, float64, shape (n_configs, 3).

        Columns: -log2 of epochs per second or log2 of seconds to accuracy, log2 of memory, -accuracy. No other code
        flips signs. Logarithms give a factor the same weight everywhere.
        """
        return self._minimized(
            prediction.column(self.speed), prediction.column(self.memory), prediction.column("val_accuracy")
        )

    def measured_costs(self, figures: Sequence[Figures]) -> NDArray[np.float64]:
        """Returns the costs of measured `figures`, float64, shape (n, 3); infinite if the target is not reached."""
        speed = [getattr(one, self.speed) for one in figures]
        return self._minimized(
            np.array([np.inf if value is None else value for value in speed], dtype=np.float64),
            np.array([getattr(one, self.memory) for one in figures], dtype=np.float64),
            np.array([one.val_accuracy or 0.0 for one in figures], dtype=np.float64),
        )

    def score(self, prediction: Prediction) -> NDArray[np.float64]:
        """Returns the priority's score of each configuration, float64, shape (n_configs,); larger is better.

        If accuracy is only a limit, accuracy above it adds nothing, because trials end there.
        """
        return self._score(self.costs(prediction))

    def measured_score(self, figures: Sequence[Figures]) -> NDArray[np.float64]:
        """Returns the score of measured `figures`, float64, shape (n,); minus infinity if the target is missed."""
        return self._score(self.measured_costs(figures))

    def score_spread(self, prediction: Prediction, best_accuracy: float | None = None) -> NDArray[np.float64]:
        """Returns the standard deviation of each score, float64, shape (n_configs,).

        The score is linear in the costs, whose errors are assumed to be independent.

        Args:
            prediction: The prediction.
            best_accuracy: Accuracy in [0, 1] that a gain has to reach. Errors of accuracy take the slope of the chord
                to it. By default, they take the slope at the mean.
        """
        logs = [prediction.spread(metric) / np.log(2) for metric in (self.speed, self.memory)]
        accuracy = prediction.spread("val_accuracy", best_accuracy) * self.priority.accuracy_counts
        costs = np.stack([*logs, accuracy], axis=1)
        return np.asarray(np.linalg.norm(costs * self.priority.weights * DOUBLINGS, axis=1))

    def best_index(self, figures: Sequence[Figures]) -> int:
        """Returns the index of the best of `figures` by those that decide (`Priority.deciding`), of equals by all.

        So nothing has less memory than the best by memory. The limits do not count.
        """
        costs = self.measured_costs(figures)
        decided = self.priority.score(costs * self.priority.deciding)
        return int(np.lexsort((-self._score(costs), -decided))[0])

    def _score(self, costs: NDArray[np.float64]) -> NDArray[np.float64]:
        least = self.limits.least_accuracy
        if not self.priority.accuracy_counts and least is not None:
            costs = np.column_stack([costs[:, :2], np.maximum(costs[:, 2], -least)])
        return self.priority.score(costs)

    def _minimized(
        self, speed: NDArray[np.float64], memory: NDArray[np.float64], accuracy: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        sign = 1 if self.priority.time else -1
        return np.stack([sign * np.log2(speed), np.log2(memory), -accuracy], axis=1)


def memory_metric(has_device: bool) -> str:
    """Returns the metric of the memory objective and `--memory-limit`: the device's peak if there is a device."""
    return "peak_device_bytes" if has_device else "peak_host_bytes"

"""Goals of episodes: limits and priorities, drawn or given, and the rewards by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.measurement import METRICS
from a3gnn.objectives import DOUBLINGS, MIN_WEIGHT, PRESETS, Objectives, memory_metric
from a3gnn_envs.observation import CORRECTIONS, Floats, goal_features, over
from a3gnn_envs.situation import Situation

#: Share of the variance of an unmeasured setting's errors that all of its configurations share, by `CORRECTIONS`: about
#: as the surrogate of the shipped profiles estimates it (`VarianceComponents`).
LEVEL_SHARES = np.array([0.5, 0.7, 0.4, 0.3, 0.35])
#: Which corrections the default has: against itself it loses nothing, and needs as many epochs.
_OF_DEFAULT = np.array([1.0, 1.0, 1.0, 0.0, 0.0])
# The distribution of goals with which the shipped policy was trained.
#: The least gain in doublings that counts as 1, and the allowed drops in points.
_LEAST_SCALE = 0.2
_DROPS = (0.0, 0.5, 1.0, 1.0, 1.0, 2.0, 5.0, float("nan"))
#: Concentration of the Dirichlet distribution of weights that are not a preset's, and the share of presets.
_CONCENTRATION, _PRESET_SHARE = 0.7, 0.6
#: Shares of episodes: measured settings, predictions that count as certain; without a memory limit, with the default's
#: peak as the limit, and with a limit on the host's memory beside the device's.
_MEASURED, _CERTAIN, _UNLIMITED, _AS_DEFAULT, _BOTH = 0.5, 0.4, 0.3, 0.3, 0.25
#: Limits on memory are drawn peaks times this factor, as `--memory-limit default` allows.
_TOLERANCE = 1.05


@dataclass
class Goals:
    """The goals of episodes, and the true levels of their settings; each array has one entry per episode.

    Attributes:
        weights: Weights of speed, memory and accuracy, float64, shape (n, 3).
        by_time: Whether speed means seconds to accuracy.
        has_device: Whether memory means the device's.
        host: Limits on host memory in bytes; NaN for none.
        device: Limits on device memory in bytes; NaN for none.
        least: The least accuracy; NaN for none.
        doubt: Factors on the deviations of predictions.
        scale: Gains in doublings that count as 1.
        idle: Bytes of an idle process.
        corrections: The observed part of `level`, float64, shape (n, 5).
        level: The errors that all configurations share, columns `CORRECTIONS`, float64, shape (n, 5).
        predicted: The default's metrics as predicted, float64, shape (n, 5).
        default: The default's true metrics, same shape.
    """

    weights: Floats
    by_time: NDArray[np.bool_]
    has_device: NDArray[np.bool_]
    host: Floats
    device: Floats
    least: Floats
    doubt: Floats
    scale: Floats
    idle: Floats
    corrections: Floats
    level: Floats
    predicted: Floats
    default: Floats

    @classmethod
    def none(cls, count: int) -> Self:
        """Returns goals without limits, to be filled in."""
        nan = np.full(count, np.nan)
        return cls(
            weights=np.zeros((count, 3)),
            by_time=np.zeros(count, dtype=np.bool_),
            has_device=np.zeros(count, dtype=np.bool_),
            **{name: nan.copy() for name in ("host", "device", "least")},
            doubt=np.zeros(count),
            scale=np.ones(count),
            idle=np.zeros(count),
            **{name: np.ones((count, 5)) for name in ("corrections", "level", "predicted", "default")},
        )

    @classmethod
    def drawn(
        cls,
        situation: Situation,
        count: int,
        random: np.random.Generator,
        objectives: Objectives | None,
        doubt: float | None,
        corrections: Sequence[float] | None,
    ) -> Self:
        """Returns the goals of `count` episodes in `situation`; arguments that are None are drawn."""
        goals, baseline = cls.none(count), situation.baseline
        goals.has_device[:], goals.idle[:] = situation.setting.hardware.has_device, baseline.idle
        certain = random.random(count) < _CERTAIN
        goals.doubt = np.where(certain, 0.0, random.random(count) ** 2) if doubt is None else np.full(count, doubt)
        goals.level = random.standard_normal((count, len(CORRECTIONS))) * baseline.deviation * np.sqrt(LEVEL_SHARES)
        if corrections is None:
            measured = (random.random(count) < _MEASURED)[:, None]
            goals.level *= np.where(measured, 1.0, goals.doubt[:, None])
            goals.corrections = known = np.where(measured, goals.level, 0.0)
        else:  # the predictions have them
            goals.level *= goals.doubt[:, None]
            goals.corrections[:], known = corrections, np.zeros_like(goals.level)
        goals.predicted = baseline.metrics(known * _OF_DEFAULT)
        goals.default = baseline.metrics(goals.level * _OF_DEFAULT)
        pool = situation.pool_metrics(known)
        if objectives is None:
            goals.draw_priorities(random)
            goals.draw_limits(pool, random)
        else:
            goals.set(objectives)
        goals.scale = np.maximum(goals.best_gain(pool), _LEAST_SCALE)
        return goals

    def set(self, objectives: Objectives) -> None:
        """Gives all episodes the limits and the priority of `objectives`."""
        limits, priority = objectives.limits, objectives.priority
        self.weights[:], self.by_time[:] = priority.weights, priority.time
        for own, limit in ((self.host, limits.host_bytes), (self.device, limits.device_bytes)):
            own[:] = np.nan if limit is None else limit
        self.least[:] = np.nan if limits.least_accuracy is None else limits.least_accuracy

    def take(self, at: NDArray[np.int64]) -> Self:
        """Returns the goals of the episodes `at`."""
        return type(self)(**{name: values[at] for name, values in vars(self).items()})

    def put(self, at: NDArray[np.int64], goals: Goals) -> None:
        """Replaces the goals of the episodes `at` by `goals`."""
        for name, values in vars(goals).items():
            getattr(self, name)[at] = values

    def features(self) -> NDArray[np.float32]:
        """Returns the observed numbers, float32, shape (n, n_numbers)."""
        host, device = (METRICS.index(f"peak_{name}_bytes") for name in ("host", "device"))
        return goal_features(
            self.weights,
            self.by_time,
            over(self.host, self.predicted[:, host], self.idle),
            over(self.device, self.predicted[:, device], 0.0),
            self.predicted[:, METRICS.index("val_accuracy")] - self.least,
            self.doubt,
            self.corrections,
        )

    def draw_priorities(self, random: np.random.Generator) -> None:
        """Draws weights and the kind of speed: a preset's, or any."""
        count, names = len(self.weights), list(PRESETS)
        preset = random.integers(len(names), size=count)
        named = random.random(count) < _PRESET_SHARE
        self.by_time[:] = np.where(named, preset == names.index("time"), random.random(count) < 0.5)
        drawn = random.dirichlet(np.full(3, _CONCENTRATION), size=count)
        self.weights[:] = np.where(named[:, None], np.array([*PRESETS.values()])[preset], drawn)

    def draw_limits(self, found: Floats, random: np.random.Generator) -> None:
        """Draws limits among the peaks of the metrics `found` (n, m, 5), and the accuracy that may be lost."""
        count = len(self.weights)
        for limit, metric in ((self.host, "peak_host_bytes"), (self.device, "peak_device_bytes")):
            column = METRICS.index(metric)
            sorted_peaks = np.sort(found[:, :, column], axis=1)
            peaks = sorted_peaks[np.arange(count), random.integers(found.shape[1], size=count)]
            kind = random.random(count)
            as_default = np.where(kind < _UNLIMITED + _AS_DEFAULT, self.predicted[:, column], peaks)
            limit[:] = np.where(kind < _UNLIMITED, np.nan, as_default) * _TOLERANCE
        self.host[self.has_device & (random.random(count) >= _BOTH)] = np.nan
        self.device[~self.has_device] = np.nan
        drop = np.array(_DROPS)[random.integers(len(_DROPS), size=count)] / 100
        self.least[:] = self.predicted[:, METRICS.index("val_accuracy")] - drop

    def scores(self, metrics: Floats) -> Floats:
        """Returns the scores of `metrics` by each episode's priority, as `Objectives.score` has them.

        Args:
            metrics: Columns `METRICS`, shape (n, 5), one row per episode; or (n or 1, m, 5), m rows per episode.
        """
        one = {name: metrics[..., place] for place, name in enumerate(METRICS)}
        least, weights = self._along(self.least, metrics), self._along(self.weights, metrics, columns=1)
        log_speed = np.where(
            self._along(self.by_time, metrics),
            -np.log2(one["seconds_to_accuracy"]),
            np.log2(one["throughput_epochs_per_s"]),
        )
        of_device = np.maximum(one[memory_metric(True)], 1.0)
        memory = np.where(self._along(self.has_device, metrics), of_device, one[memory_metric(False)])
        capped = (weights[..., 2] < MIN_WEIGHT) & np.isfinite(least)
        accuracy = np.where(capped, np.fmin(one["val_accuracy"], least), one["val_accuracy"])
        gains = np.stack([log_speed, -np.log2(memory), accuracy], axis=-1)
        return np.asarray((gains * weights * DOUBLINGS).sum(axis=-1))

    def violation(self, metrics: Floats) -> Floats:
        """Returns by how much `metrics` break each episode's limits, as `Limits.violation` has it; as in `scores`."""
        host, device, least = (self._along(one, metrics) for one in (self.host, self.device, self.least))
        excess = [
            metrics[..., METRICS.index("peak_host_bytes")] / host - 1,
            metrics[..., METRICS.index("peak_device_bytes")] / device - 1,
            least - metrics[..., METRICS.index("val_accuracy")],
        ]
        return np.asarray(np.fmax(np.fmax.reduce(excess, axis=0), 0.0))

    def best_gain(self, metrics: Floats) -> Floats:
        """Returns the largest gain over the predicted default of `metrics` (n, m, 5) that keep an episode's limits.

        It is at least 0, shape (n,).
        """
        gains = self.scores(metrics) - self.scores(self.predicted)[:, None]
        return np.asarray(np.where(self.violation(metrics) <= 0, gains, 0.0).max(axis=1))

    def _along(self, values: NDArray[Any], metrics: Floats, columns: int = 0) -> NDArray[Any]:
        """Returns `values`, one per episode, in a shape that broadcasts with `metrics` without their last axis."""
        shape = values.shape[1:] if columns else ()
        return values.reshape(len(values), *(1,) * (metrics.ndim - 2), *shape)

    def rewards(self, metrics: Floats) -> NDArray[np.float32]:
        """Returns the rewards of `metrics` (n, m, 5), m per episode, float32, shape (n, m)."""
        gain = (self.scores(metrics) - self.scores(self.default)[:, None]) / self.scale[:, None]
        kept = np.where(gain < 0, gain / (1 + np.abs(gain)), np.where(gain > 1, 1 + np.log(np.maximum(gain, 1)), gain))
        violation = self.violation(metrics)
        return np.where(violation > 0, -1 - np.minimum(violation, 1), kept).astype(np.float32)

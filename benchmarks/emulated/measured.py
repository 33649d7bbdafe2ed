"""A measured setting as its baseline judges it, and the costs of its configurations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from statistics import median

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import LearningKey, TrainConfig
from a3gnn.figures import Figures, Reference
from a3gnn.learning_curve import LearningCurve
from a3gnn.measurement import Measurement, Metrics, keep_longest
from a3gnn_surrogate.known_curves import KnownDefault
from a3gnn_surrogate.physics.memory import training_peak

Floats = NDArray[np.float64]

#: The costs of a configuration, all to be minimized: -log2 of epochs per second; log2 of peak bytes; -validation
#: accuracy within the baseline's budget; log2 of the epochs to the target less log2 of that budget's seconds. So
#: SPEED + WORK is log2 of the share of the baseline's budget after which the target is reached.
SPEED, MEMORY, ACCURACY, WORK = range(4)
NUM_COSTS = 4
#: Accuracy that may be lost, as a share of 1, in the documented results; a tune allows half of it by default.
MAX_DROP = 0.01


class MeasuredDefault:
    """The default configuration of a setting, and what its trials say of all.

    Args:
        rows: The setting's measurements, with at least one of the default that has a curve.

    Attributes:
        rows: The setting's, failed ones too.
        metrics: Of the default's first row.
        reference: What that comes to.
    """

    def __init__(self, rows: Sequence[Measurement]) -> None:
        default = next(row for row in rows if row.config == TrainConfig().canonical() and row.metrics is not None)
        assert default.metrics is not None
        assert default.metrics.curve is not None, "corpora have curves"
        self.rows = list(rows)
        self.metrics = default.metrics
        reference = Reference.of(self.metrics, default.metrics.curve, MAX_DROP)
        assert reference is not None, "a default has points"
        self.reference = reference

    @property
    def known(self) -> KnownDefault:
        """What the surrogate is told of it."""
        curve = self.metrics.curve
        reached = None if curve is None else curve.first_reaching(self.reference.target)
        return KnownDefault.of(self.reference, None if reached is None else self.metrics.pace.seconds(reached))

    @cached_property
    def by_config(self) -> dict[TrainConfig, list[Measurement]]:
        """The rows of each configuration, those of the default first."""
        groups: dict[TrainConfig, list[Measurement]] = {TrainConfig().canonical(): []}
        for row in self.rows:
            groups.setdefault(row.config, []).append(row)
        return groups

    @cached_property
    def curves(self) -> dict[LearningKey, LearningCurve]:
        """The longest curve of each learning key."""
        curves: dict[LearningKey, LearningCurve] = {}
        for row in self.rows:
            keep_longest(curves, row)
        return curves

    @property
    def trial_seconds(self) -> tuple[float, float]:
        """Seconds of a trial without its curve, the median, and of a whole curve with its evaluation."""
        done = [(row.seconds, row.metrics) for row in self.rows if row.metrics is not None]
        start = median(seconds - one.curve_train_seconds - one.curve_eval_seconds for seconds, one in done)
        trained = sum(one.curve_train_seconds for _, one in done)
        share = sum(one.curve_eval_seconds for _, one in done) / trained if trained else 0.0
        return start, self.reference.budget_s * (1 + share)


def by_setting(measurements: Sequence[Measurement]) -> list[MeasuredDefault]:
    """Returns the settings of `measurements`, one each."""
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    for row in measurements:
        groups.setdefault(row.setting.key(), []).append(row)
    return [MeasuredDefault(rows) for rows in groups.values()]


#: A curve that misses the target within the budget counts as so many budgets, as in `a3gnn_surrogate.known_curves`.
_LONGER = 1.5


def median_costs(default: MeasuredDefault, rows: Sequence[Measurement]) -> NDArray[np.float64] | None:
    """Returns the median costs of a configuration's trials, float64, (4,); None if all failed.

    Args:
        default: The setting's default.
        rows: The configuration's.
    """
    found = [row.metrics for row in rows if row.metrics is not None]
    curve = default.curves.get(rows[0].config.learning_key())
    return np.median([_costs(default, one, curve) for one in found], axis=0) if found else None


def _costs(default: MeasuredDefault, metrics: Metrics, curve: LearningCurve | None) -> list[float]:
    """Returns the costs of one trial by the longest `curve` of what it learns."""
    figures = Figures.of(metrics, curve, default.reference)
    hardware = default.rows[0].setting.hardware
    memory = metrics.peak_device_bytes if hardware.has_device else training_peak(metrics, hardware)
    speed, budget_s = -float(np.log2(metrics.throughput_epochs_per_s)), default.reference.budget_s
    seconds = _LONGER * budget_s if figures.seconds_to_accuracy is None else figures.seconds_to_accuracy
    return [speed, float(np.log2(memory)), -(figures.val_accuracy or 0.0), float(np.log2(seconds / budget_s)) - speed]

"""`ReplayWorlds`: worlds made of a setting's stored measurements, of which a replay draws one replicate each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.figures import Figures
from a3gnn.learning_curve import LearningCurve
from a3gnn.measurement import Measurement, Metrics
from a3gnn.objectives import Priority
from a3gnn_envs.acquisition.prior import Outcomes, Prior
from a3gnn_envs.acquisition.simulated import draw_limits, draw_priority, draw_trials
from a3gnn_envs.acquisition.world import ACCURACY, World
from a3gnn_surrogate.memory import training_peak
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.acquisition.priors import MeasuredDefault, by_setting, early_accuracy, prior_of

#: What a whole budget did not bring to the target is taken to need so many budgets, as the surrogate takes it
#: (`a3gnn_surrogate.known_curves`).
_LONGER = 1.5


@dataclass(frozen=True, slots=True)
class Grid:
    """Measured configurations of a setting, the default first, and what was believed of them before.

    Attributes:
        configs: The configurations.
        prior: By a surrogate that saw no row of the graph.
        replicates: The costs of each one's trials, float64, shape (4, n_replicates) each; none where all failed.
        early: As in `World`, float64, shape (N,).
        rise: As in `World`.
    """

    configs: tuple[TrainConfig, ...]
    prior: Prior
    replicates: tuple[NDArray[np.float64], ...]
    early: NDArray[np.float64]
    rise: float

    @classmethod
    def of(cls, default: MeasuredDefault, settings: Sequence[MeasuredDefault], surrogate: Surrogate) -> Self:
        """Returns the grid of the rows of `default`; `surrogate` was fitted to other graphs than its."""
        replicates, early = [], []
        for config, rows in default.by_config.items():
            curve = default.curves.get(config.learning_key())
            found = [row.metrics for row in rows if row.metrics is not None]
            replicates.append(np.array([_costs(default, one, curve) for one in found]).reshape(-1, 4).T)
            accuracies = [early_accuracy(one, default.reference) for one in found[:1]]
            early.append(np.nan if accuracies in ([], [None]) else -float(accuracies[0] or 0.0))
        configs = list(default.by_config)
        prior = prior_of(surrogate, settings, default, configs)
        return cls(tuple(configs), prior, tuple(replicates), np.array(early), default.rise(default.metrics))

    def world(
        self,
        chosen: NDArray[np.int64],
        priority: Priority,
        random: np.random.Generator,
        trials: float | None = None,
    ) -> World:
        """Returns the world of the `chosen` configurations; `random` draws the replicates and the limits.

        Args:
            chosen: Positions, the default's first, int64, shape (K,).
            priority: What is wanted.
            random: Decides it.
            trials: Whole trials that the budget is worth; drawn where there is none.
        """
        crashes = np.array([not self.replicates[i].shape[1] for i in chosen])
        truth, measured, play_off = (self.prior.mean[:, chosen].copy() for _ in range(3))  # of what failed, anything
        for place in np.flatnonzero(~crashes):
            found = self.replicates[chosen[place]]
            first, again = random.permutation(found.shape[1])[[0, -1]]
            truth[:, place] = np.median(found, axis=1)
            measured[:, place], play_off[:, place] = found[:, first], found[:, again]
        early = np.maximum(self.early[chosen], measured[ACCURACY])  # a longer curve may be another trial's
        outcomes = Outcomes(truth, measured, play_off, early, self.rise, crashes)
        limits = draw_limits(truth, random)
        return self.prior.world(chosen, outcomes, priority, limits, draw_trials(random) if trials is None else trials)


class ReplayWorlds:
    """Draws worlds of measured grids: what is true is the median of a configuration's replicates.

    Args:
        grids: One is drawn for each world.
        num_candidates: Of a world at most; of a larger grid, so many are drawn.
        priority: Of all worlds; drawn where there is none.

    Raises:
        UsageError: There are no grids.
    """

    def __init__(self, grids: Sequence[Grid], num_candidates: int, priority: Priority | None = None) -> None:
        if not grids:
            raise UsageError("a replay must have at least one grid, got none; give measurements of a setting")
        self._grids, self._num_candidates, self._priority = list(grids), num_candidates, priority

    def draw(self, random: np.random.Generator) -> World:
        """Returns a world, decided by `random`."""
        grid = self._grids[int(random.integers(len(self._grids)))]
        priority = draw_priority(random) if self._priority is None else self._priority
        others = 1 + random.permutation(len(grid.replicates) - 1)[: self._num_candidates - 1]
        return grid.world(np.concatenate([[0], others]), priority, random)


def held_out_grids(measurements: Sequence[Measurement], corpus: Sequence[Measurement] | None = None) -> list[Grid]:
    """Returns the grid of each setting of `measurements`, believed by a surrogate that saw no row of its graph.

    Args:
        measurements: Of the grids.
        corpus: To what surrogates are fitted; by default `measurements`.
    """
    corpus, grids = measurements if corpus is None else corpus, []
    known = by_setting(corpus)
    for default in by_setting(measurements):
        held = default.rows[0].setting.graph.fingerprint
        others = [row for row in corpus if row.setting.graph.fingerprint != held]
        rest = [one for one in known if one.rows[0].setting.graph.fingerprint != held]
        grids.append(Grid.of(default, rest or [default], Surrogate(seed=0).fit(others, held)))
    return grids


def median_costs(default: MeasuredDefault, rows: Sequence[Measurement]) -> NDArray[np.float64] | None:
    """Returns the medians of the costs of a configuration's trials, as in `World`, float64, (4,); None if all failed.

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

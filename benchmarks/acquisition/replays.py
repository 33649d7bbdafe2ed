"""What surrogates believe of stored measurements, and worlds that replay them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import KNOBS, LearningKey, TrainConfig
from a3gnn.errors import UsageError
from a3gnn.figures import Figures, Reference
from a3gnn.knobs import NEVER
from a3gnn.learning_curve import LearningCurve
from a3gnn.measurement import Measurement, Metrics, keep_longest
from a3gnn.objectives import Priority, memory_metric
from a3gnn.prediction import Prediction
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn_envs.acquisition.simulated import RISE_OFFSET, Outcomes, Prior, draw_limits, draw_priority, draw_trials
from a3gnn_envs.acquisition.studies import QUARTER, SHARES
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, NUM_COSTS, SPEED, World
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.known_curves import learning_columns
from a3gnn_surrogate.known_default import KnownDefault
from a3gnn_surrogate.memory import training_peak
from a3gnn_surrogate.points import knob_points
from a3gnn_surrogate.posterior import VarianceComponents, rbf_kernel
from a3gnn_surrogate.surrogate import Surrogate
from a3gnn_surrogate.training_rows import OUTPUTS

#: Accuracy that may be lost, as a share of 1: what a tune allows by default.
MAX_DROP = 0.01
#: Draws of what does not change the learning per draw of what does: as in the corpus's grids.
SETTINGS_PER_KEY = 6
#: Accuracy of one configuration differs by so much as its pace does, as a variance. Guess.
_PACE_VARIANCE = 1e-6


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

    def rise(self, metrics: Metrics) -> float:
        """Returns by how much accuracy rose after a quarter of the default's budget; NaN without a point there."""
        early = early_accuracy(metrics, self.reference)
        best = (
            None if metrics.curve is None else metrics.curve.best_within(metrics.pace.batches(self.reference.budget_s))
        )
        return float("nan") if early is None or best is None else best - early

    @property
    def trial_seconds(self) -> tuple[float, float]:
        """Seconds of a trial without its curve, the median, and of a whole curve with its evaluation."""
        done = [(row.seconds, row.metrics) for row in self.rows if row.metrics is not None]
        start = median(seconds - one.curve_train_seconds - one.curve_eval_seconds for seconds, one in done)
        trained = sum(one.curve_train_seconds for _, one in done)
        share = sum(one.curve_eval_seconds for _, one in done) / trained if trained else 0.0
        return start, self.reference.budget_s * (1 + share)


def early_accuracy(metrics: Metrics, reference: Reference) -> float | None:
    """Returns the best validation accuracy within a quarter of the default's budget, or None before any point."""
    return (
        None
        if metrics.curve is None
        else metrics.curve.best_within(metrics.pace.batches(SHARES[QUARTER] * reference.budget_s))
    )


def by_setting(measurements: Sequence[Measurement]) -> list[MeasuredDefault]:
    """Returns the settings of `measurements`, one each."""
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    for row in measurements:
        groups.setdefault(row.setting.key(), []).append(row)
    return [MeasuredDefault(rows) for rows in groups.values()]


def simulated_priors(measurements: Sequence[Measurement], count: int = 2_000) -> list[Prior]:
    """Returns what a surrogate that is fitted to all `measurements` believes of `count` configurations per setting."""
    surrogate, settings = Surrogate(seed=0).fit(measurements), by_setting(measurements)
    priors = []
    for number, default in enumerate(settings):
        rows = _design(SearchSpace.of(default.rows[0].setting), count, seed=number)
        priors.append(prior_of(surrogate, settings, default, [TrainConfig(), *rows]))
    return priors


def _design(space: SearchSpace, count: int, seed: int) -> list[TrainConfig]:
    """Returns about `count` configurations without the default, of which many share a learning key, as neighbors do.

    Draws of all knobs, each with others of the knobs that do not change what is learned.
    """
    drawn = space.sample(count, seed)
    keys = np.arange(count) // SETTINGS_PER_KEY * SETTINGS_PER_KEY
    learning = [place for place, knob in enumerate(space.knobs) if knob.learns != NEVER]
    drawn[:, learning] = drawn[keys][:, learning]
    configs = [space.decode(row).canonical() for row in np.unique(space.canonical(drawn), axis=0)]
    return [config for config in dict.fromkeys(configs) if config != TrainConfig().canonical()]


def prior_of(
    surrogate: Surrogate, settings: Sequence[MeasuredDefault], default: MeasuredDefault, configs: Sequence[TrainConfig]
) -> Prior:
    """Returns what `surrogate` believes of `configs`, the default first, in the setting of `default`.

    Args:
        surrogate: Fitted.
        settings: What curves rise by is taken from these.
        default: The setting's default.
        configs: Of that setting.
    """
    setting = default.rows[0].setting
    found = surrogate.predict(configs, setting, default.known)
    speed = -np.log2(found.column("throughput_epochs_per_s"))
    memory = np.log2(found.column(memory_metric(setting.hardware.has_device)))
    work = np.log2(found.column("seconds_to_accuracy") / default.reference.budget_s) - speed
    own = [one.rise(one.metrics) for one in settings]
    off = [
        np.log((one.rise(row.metrics) + RISE_OFFSET) / (rise + RISE_OFFSET))
        for one, rise in zip(settings, own, strict=True)
        for row in one.rows
        if row.metrics is not None and row.config != TrainConfig().canonical()
    ]
    start_s, curve_s = default.trial_seconds
    return Prior(
        mean=np.stack([speed, memory, -found.column("val_accuracy"), work]),
        points=knob_points(as_columns(configs), setting),
        learning_points=_learning_points(configs, setting),
        kernel=rbf_kernel,
        rises=np.array([rise for rise in own if np.isfinite(rise)]),
        rise_spread=float(np.nanstd(off)),
        late_share=float(np.mean(np.isnan(off))),
        start_s=start_s,
        curve_s=curve_s,
        **_variances(surrogate, setting, found),
    )


def _variances(surrogate: Surrogate, setting: Setting, found: Prediction) -> dict[str, NDArray[np.float64]]:
    """Returns the surrogate's variance components of each cost by their names in `Prior`, float64, shape (4,) each.

    Of the host's peak what exceeds an idle trial's varies, the median share of it in the peaks `found`.
    """
    has_device = setting.hardware.has_device
    memory = "peak_device_bytes" if has_device else "host_bytes_above_idle"
    names = ("throughput_epochs_per_s", memory, "accuracy_drop", "epochs_to_accuracy")
    idle = 0 if has_device else setting.hardware.profile.idle_host_bytes
    models: list[VarianceComponents] = [surrogate.residual_models_[OUTPUTS.index(name)].variances for name in names]
    units = np.full(NUM_COSTS, 1 / np.log(2) ** 2)  # doublings
    units[ACCURACY] = 1e-4  # a share, whose losses scatter as points where few are lost
    units[MEMORY] *= np.median(1 - idle / found.column(memory_metric(has_device))) ** 2
    between = np.array([model.between_settings for model in models]) * units
    within = np.array([model.within_setting for model in models]) * units
    noise = np.array([model.noise for model in models]) * units
    noise[SPEED] = surrogate.noise(setting.hardware) ** 2 * units[SPEED]
    noise[ACCURACY:] = _PACE_VARIANCE  # a learning key decides bit for bit
    return {"between": between, "within": within, "noise": noise}


def _learning_points(configs: Sequence[TrainConfig], setting: Setting) -> NDArray[np.float64]:
    """Returns `knob_points` of what decides the learning, all else as the default has it, (n_configs, n_points)."""
    learning = [knob.name for knob in KNOBS if knob.learns != NEVER]
    columns = as_columns(configs)
    default = as_columns([TrainConfig()] * len(configs))
    return knob_points({**default, **dict(zip(learning, learning_columns(columns), strict=True))}, setting)


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

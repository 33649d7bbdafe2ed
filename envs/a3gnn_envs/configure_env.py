"""The environment in which a policy learns to configure: one knob after the other, with a reward at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.measurement import METRICS
from a3gnn.objectives import DOUBLINGS, MIN_WEIGHT, PRESETS, Objectives, memory_metric
from a3gnn.prediction import Predict
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn_envs.choices import MOST_SLOTS, NUM_KNOBS, NUM_SLOTS, STARTS, WIDTHS
from a3gnn_envs.episodes import Episodes, SingleEnv
from a3gnn_envs.observation import BOUND, CORRECTIONS, GOAL, Floats, Scale, goal_features, over
from a3gnn_envs.situation import Situation

#: Posterior samples that a reward averages: their mean is the same, and their noise less.
_SAMPLES = 8
#: Share of episodes in restricted spaces, share of the knobs that these restrict, and of these the share that they fix.
#: The shipped policy was trained with them.
_RESTRICTED, _NARROWED, _FIXED = 0.5, 0.3, 0.5


class ConfigureEpisodes(Episodes):
    """Episodes of `ConfigureEnv`, batched: all begin and end together, and neighboring ones share a situation.

    Args:
        situations: Each episode is in one of them.
        num_envs: Number of episodes.
        scale: Scales the numbers of settings.
        objectives: The goal of all episodes, in the whole space; None draws limits, priorities and restrictions.
        num_active: Number of situations at a time.
        doubt: Factor on the deviations of predictions; None draws it.
        corrections: Known corrections of the setting; None draws them.

    Attributes:
        masks: The slots that each episode may choose from, bool, shape (num_envs, n_slots).
        chosen: The slots that are chosen so far, int64, shape (num_envs, n_knobs).
    """

    action_space: spaces.Discrete

    def __init__(
        self,
        situations: Sequence[Situation],
        num_envs: int,
        scale: Scale,
        objectives: Objectives | None = None,
        num_active: int = 1,
        doubt: float | None = None,
        corrections: Sequence[float] | None = None,
    ) -> None:
        super().__init__(num_envs)
        self.situations = list(situations)
        self._scaled = [scale.scaled(one.features) for one in self.situations]
        self._objectives, self._doubt, self._corrections = objectives, doubt, corrections
        self._groups = np.array_split(np.arange(num_envs), min(num_active, num_envs))
        self._own = np.zeros(len(self._groups), dtype=np.int64)
        self._step = 0
        self._size = len(self._scaled[0]) + len(GOAL)
        bound = np.concatenate([np.full(self._size, BOUND), np.ones(2 * NUM_SLOTS + NUM_KNOBS + MOST_SLOTS)])
        low = np.concatenate([np.full(self._size, -BOUND), np.zeros(len(bound) - self._size)])
        self.observation_space = spaces.Box(low.astype(np.float32), bound.astype(np.float32))
        self.action_space = spaces.Discrete(MOST_SLOTS)
        self.masks = np.zeros((num_envs, NUM_SLOTS), dtype=np.bool_)
        self.chosen = np.zeros((num_envs, NUM_KNOBS), dtype=np.int64)
        self._observed = np.zeros((num_envs, self.observation_space.shape[0]), dtype=np.float32)
        self._goals = Goals.none(num_envs)

    @property
    def groups(self) -> list[tuple[Situation, NDArray[np.int64]]]:
        """The situations at present, and which episodes are in each."""
        return [(self.situations[own], at) for own, at in zip(self._own, self._groups, strict=True)]

    def reset(self, where: NDArray[np.bool_]) -> None:
        """Starts new episodes, which is possible only for all together."""
        if not where.all():
            raise UsageError("episodes of one length begin together: reset all of them, or none")
        random, count = self.np_random, len(self.situations)
        self._own = random.choice(count, size=len(self._groups), replace=count < len(self._groups))
        self._step = 0
        self.chosen[:] = 0
        self._goals = Goals.none(self.num_envs)
        for situation, at in self.groups:
            mask = situation.choices.mask
            self.masks[at] = mask if self._objectives is not None else _restricted(mask, len(at), random)
            drawn = Goals.drawn(situation, len(at), random, self._objectives, self._doubt, self._corrections)
            self._goals.put(at, drawn)
        self._observed[:] = 0
        for own, at in zip(self._own, self._groups, strict=True):
            self._observed[at, : len(self._scaled[own])] = self._scaled[own]
        self._observed[:, self._size - len(GOAL) : self._size] = self._goals.features()
        self._observed[:, self._size : self._size + NUM_SLOTS] = self.masks
        self._show_next()

    def observe(self) -> NDArray[np.float32]:
        """Returns the observations, float32, shape (num_envs, n)."""
        return self._observed.copy()

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns which actions are allowed, bool, shape (num_envs, n_actions)."""
        return self._observed[:, -MOST_SLOTS:] > 0

    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Sets the next knob of each episode, and returns the rewards and whether all episodes are over.

        A forbidden action is replaced by the first allowed one.
        """
        legal, everyone = self.action_masks(), np.arange(self.num_envs)
        actions = np.where(legal[everyone, actions], actions, legal.argmax(axis=1))
        self.chosen[:, self._step] = actions
        self._observed[everyone, self._size + NUM_SLOTS + STARTS[self._step] + actions] = 1
        self._step += 1
        over = self._step == NUM_KNOBS
        rewards = self._rewards() if over else np.zeros(self.num_envs, dtype=np.float32)
        self._show_next()
        return rewards, np.full(self.num_envs, over)

    def _show_next(self) -> None:
        """Observes the next knob and its allowed values; at the end, no knob and the first action."""
        start = self._size + 2 * NUM_SLOTS
        self._observed[:, start:] = 0
        if self._step == NUM_KNOBS:
            self._observed[:, -MOST_SLOTS] = 1
            return
        self._observed[:, start + self._step] = 1
        for situation, at in self.groups:
            legal = situation.choices.legal(self._step, self.chosen[at], self.masks[at])
            self._observed[at, -MOST_SLOTS:] = legal

    def _rewards(self) -> NDArray[np.float32]:
        rewards = np.zeros(self.num_envs, dtype=np.float32)
        for situation, at in self.groups:
            beliefs = situation.believed(situation.choices.rows(self.chosen[at], self.np_random))
            goals = self._goals.take(at)
            spread = goals.doubt[:, None] * beliefs.deviation * np.sqrt(1 - LEVEL_SHARES)
            errors = self.np_random.standard_normal((len(at), _SAMPLES, len(CORRECTIONS)))
            drawn = beliefs.metrics(goals.level[:, None] + spread[:, None] * errors)
            rewards[at] = goals.rewards(drawn).mean(axis=1)
        return rewards


class ConfigureEnv(SingleEnv):
    """Choose a configuration for a setting and a goal, one knob after the other.

    ## Observation: `Box`, float32, in this order

    | numbers     | meaning                                                                     | range   |
    |-------------|-----------------------------------------------------------------------------|---------|
    | 55          | graph, task, machine: logarithms and shares, z-scored over settings         | [-4, 4] |
    | 3, 1        | weights of speed, memory, accuracy; whether speed means seconds to accuracy | [-4, 4] |
    | 2, 2        | host memory, device memory: whether limited; 2 log2(limit / default's peak) | [-4, 4] |
    | 2           | accuracy: whether limited; allowed drop, asinh(points)                      | [-4, 4] |
    | 1           | doubt: factor on the deviations of predictions; 0 means that they are true  | [-2, 2] |
    | 5           | corrections of the setting, in logarithms; 0 where nothing is measured      | [-4, 4] |
    | 70          | which values of all knobs the space has                                     | {0, 1}  |
    | 70          | which values are chosen so far                                              | {0, 1}  |
    | 21          | which knob is next                                                          | {0, 1}  |
    | 9           | which actions are allowed                                                   | {0, 1}  |

    Weights w are observed as 4 w - 4 / 3, flags as -1 and 1, doubt d as 4 d - 2, corrections times 3. The default's
    peak is the predicted one; on the host, it and the limit count above an idle process. The knobs are in the order
    `a3gnn_envs.choices.ORDER`: as in `KNOBS`, but each after the knobs that decide whether it is idle.

    ## Action: `Discrete(9)`
    The position of the next knob's value among its values in the full space. Allowed are the values of the space that
    can run: of an idle knob only the first. A forbidden action is replaced by the first allowed one. `action_masks()`
    and `info["action_mask"]` hold the allowed actions, as sb3-contrib expects.

    ## Reward
    0 until the last knob, then the mean over 8 posterior samples of the predicted metrics. If a sample breaks a limit,
    it counts `-1 - min(violation, 1)` (`Limits.violation`). Otherwise it counts the gain over the default in doublings
    of the priority's score (`Objectives.score`), divided by the best gain among 256 random configurations that keep the
    limits, or by 0.2 if that is less. So the default has 0, and the best of many random ones 1. A larger gain g counts
    as 1 + ln(g), and a loss g < 0 as g / (1 - g), which is above -1.

    A sample is the predicted mean plus errors: per episode and metric one that all configurations and samples share,
    and an independent one. Their deviations are the intervals' times doubt. Half of the episodes observe the shared
    error as the setting's corrections.

    ## Start
    Unless `objectives` fixes them, a new episode draws: weights (60 % presets, else Dirichlet(0.7)); memory limits
    (30 % none, 30 % the default's peak, else a quantile of random configurations' peaks, all plus 5 %); the drop; and
    the space (half are whole, in the others 30 % of the knobs are fixed or lose values). Unless `doubt` is given, it is
    0 in 40 % of the episodes, else the square of a uniform number.

    ## End
    Every episode terminates after 21 steps, one per knob. None is truncated. Meant for a discount factor of 1.

    ## Arguments
    `setting`; `predict`: returns the `Prediction` of rows of `space`; `space`: any, by default the setting's;
    `objectives`: a goal, or None; `scale`: of settings, by default the shipped policy's; `doubt`: or None;
    `corrections`: of the setting, which `predict` contains, or None to draw them.

    ## Version
    v0: first.
    """

    episodes: ConfigureEpisodes

    def __init__(
        self,
        setting: Setting,
        predict: Predict,
        space: SearchSpace | None = None,
        objectives: Objectives | None = None,
        scale: Scale | None = None,
        doubt: float | None = None,
        corrections: Sequence[float] | None = None,
        render_mode: None = None,
    ) -> None:
        if scale is None:
            from a3gnn_envs.policy import Policy

            scale = Policy.load().scale
        situation = Situation(setting, predict, SearchSpace.of(setting) if space is None else space)
        episodes = ConfigureEpisodes([situation], 1, scale, objectives, doubt=doubt, corrections=corrections)
        super().__init__(episodes, render_mode)

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns which actions are allowed, bool, shape (n_actions,)."""
        return np.asarray(self.episodes.action_masks()[0])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Returns the first observation of a new episode, and the allowed actions as `action_mask`."""
        observation, info = super().reset(seed=seed, options=options)
        return observation, info | {"action_mask": self.action_masks()}

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Returns observation, reward, terminated, truncated (never), and the allowed actions as `action_mask`."""
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, info | {"action_mask": self.action_masks()}


def _restricted(mask: NDArray[np.bool_], count: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Returns `mask` for `count` episodes, some with knobs that are fixed or lose values, (count, n_slots)."""
    masks = np.tile(mask, (count, 1))
    some = random.random(count) < _RESTRICTED
    for start, width in zip(STARTS, WIDTHS, strict=False):
        own = masks[:, start : start + width]
        order = np.where(own, random.random(own.shape), 2.0)
        narrowed = some & (random.random(count) < _NARROWED)
        kept = np.where(random.random(count) < _FIXED, 1, random.integers(1, width + 1, size=count))
        rank = order.argsort(axis=1).argsort(axis=1)
        own[narrowed] &= (rank < kept[:, None])[narrowed]
    return masks


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
    """The goals of episodes, and the true levels of their settings; each array has one entry per episode."""

    weights: Floats  # weights of speed, memory and accuracy, float64, shape (n, 3)
    by_time: NDArray[np.bool_]  # whether speed means seconds to accuracy
    has_device: NDArray[np.bool_]  # whether memory means the device's
    host: Floats  # limits on host memory in bytes; NaN for none
    device: Floats  # limits on device memory in bytes; NaN for none
    least: Floats  # the least accuracy; NaN for none
    doubt: Floats  # factors on the deviations of predictions
    scale: Floats  # gains in doublings that count as 1
    idle: Floats  # bytes of an idle process
    corrections: Floats  # the observed part of `level`, float64, shape (n, 5)
    level: Floats  # the errors that all configurations share, columns `CORRECTIONS`, float64, shape (n, 5)
    predicted: Floats  # the default's metrics as predicted, float64, shape (n, 5)
    default: Floats  # the default's true metrics, same shape

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

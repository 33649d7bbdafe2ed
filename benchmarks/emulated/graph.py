"""A measured graph on which any configuration can be tried (`EmulatedGraph`), and tunes on it (`EmulatedTune`)."""

from __future__ import annotations

import copy
import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from a3gnn.config import LearningKey, TrainConfig
from a3gnn.learning_curve import CurveEnd, LearningCurve, next_point
from a3gnn.measurement import (
    MEASUREMENT_VERSION,
    METRICS,
    Failure,
    FailureKind,
    Measurement,
    Metrics,
    StageSeconds,
)
from a3gnn.objectives import MIN_GAIN, Priority
from a3gnn.prediction import Prediction, from_log_points, log_points
from a3gnn.profiling.replay import as_asked
from a3gnn.profiling.request import TrialPlan, TrialRequest
from a3gnn.seeding import generator
from a3gnn.space import Rows
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.expectations import fit_surrogate, learning_differently, predict
from a3gnn.tuning.engines.engine import Engine
from a3gnn.tuning.engines.improvement import STARTS, maximize
from a3gnn.tuning.run.blocks import CONTENDERS
from a3gnn.tuning.run.plans import trial_plan
from a3gnn.tuning.study.budget import VERIFICATION_SHARE
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.study import DEFAULT_PEAK, Study, TuneRequest
from a3gnn.tuning.study.trial import Proposal, Trial, predicted_row
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.curve_ends import CurveEnds
from a3gnn_surrogate.features import LEARNING_POINTS, knob_points
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.emulated.measured import ACCURACY, MEMORY, NUM_COSTS, SPEED, WORK, Floats, MeasuredDefault, median_costs

#: Relative standard deviations: of what a trial takes above an idle process, as docs/design/surrogate.md ("Memory") has
#: it; of a window's throughput around its trial's, a guess.
_MEMORY_NOISE, _WINDOW_NOISE = 0.06, 0.01
#: Points of a curve within the default's seconds, and for how many times these it is made. Guesses.
_POINTS, _LONGER = 40, 4.0
#: Share of the grid that each seed knows. Guess.
_PART = 0.75


class EmulatedGraph:
    """What is true of configurations of a measured graph, and what trials of them find, with noise.

    True is the mean of Gaussian processes over the knobs that were fitted to the grid alone: neither what is believed
    of the graph nor the analytic model has a part in it, so that no rule is right because it believes what is true by
    construction. Far from the grid they return to its mean. Each seed knows three quarters of the grid, and has noise
    of its own.

    Args:
        default: The rows of the graph's grid.
        surrogate: Of this no row of the graph is asked; it says what the machine's noise is.
        seed: Decides which part, and the noise.

    Attributes:
        default: As given.
        setting: The grid's.
    """

    def __init__(self, default: MeasuredDefault, surrogate: Surrogate, seed: int) -> None:
        self.default, self.setting = default, default.rows[0].setting
        self._noise, self._seed = surrogate.noise(self.setting.hardware), seed
        self._curves, self._trials = dict[LearningKey, LearningCurve](), 0
        costs = {config: median_costs(default, rows) for config, rows in default.by_config.items()}
        configs = [config for config, found in costs.items() if found is not None]
        others = generator(seed, "emulated", "part").permutation(len(configs) - 1)[: round(_PART * (len(configs) - 1))]
        part = [configs[place] for place in (0, *(others + 1))]
        points = self._points(part)
        truth = np.array([costs[config] for config in part])
        truth[:, ACCURACY] = log_points(default.reference.val_accuracy + truth[:, ACCURACY])
        self._varied = points.std(axis=0) > 0
        self._processes = [
            _process(points[:, self._inputs(cost)], truth[:, cost], seed) for cost in (SPEED, MEMORY, ACCURACY, WORK)
        ]

    def anew(self) -> Self:
        """Returns the graph before any trial, with the same truth and noise."""
        other = copy.copy(self)
        other._curves, other._trials = {}, 0
        return other

    def true(self, configs: Sequence[TrainConfig] | Mapping[str, NDArray[Any]]) -> Prediction:
        """Returns what is true of configurations, or of the columns that a space gives."""
        points, default = self._points(configs), self.default
        costs = [self._processes[cost].predict(points[:, self._inputs(cost)]) for cost in range(NUM_COSTS)]
        idle = self.setting.hardware.profile.idle_host_bytes
        columns = {
            "throughput_epochs_per_s": np.exp2(-costs[SPEED]),
            "peak_device_bytes": np.zeros(len(points)),
            "peak_host_bytes": np.maximum(np.exp2(costs[MEMORY]), idle + 1.0),
            "val_accuracy": np.clip(default.reference.val_accuracy - from_log_points(costs[ACCURACY]), 0.0, 1.0),
            "seconds_to_accuracy": default.reference.budget_s * np.exp2(costs[WORK] + costs[SPEED]),
        }
        mean = np.stack([columns[name] for name in METRICS], axis=1)
        return Prediction(mean, mean, mean)

    def judged(self, configs: Sequence[TrainConfig]) -> Prediction:
        """Returns what is true of configurations, seconds to accuracy as their curves' points have them.

        What truly misses the target has those of `true`.
        """
        found = self.true(configs)
        mean = found.mean.copy()
        for place, config in enumerate(configs):
            batches = math.ceil(self.setting.graph.num_train / config.batch_size)
            pace = float(found.column("throughput_epochs_per_s")[place]) * batches
            curve = self._curve(config, found.take(np.array([place])), pace)
            reached = curve.first_reaching(self.default.reference.target)
            if reached is not None:
                mean[place, METRICS.index("seconds_to_accuracy")] = reached / pace
        return Prediction(mean, mean, mean)

    def _points(self, configs: Sequence[TrainConfig] | Mapping[str, NDArray[Any]]) -> Floats:
        return knob_points(as_columns(configs), self.setting)

    def _inputs(self, cost: int) -> NDArray[np.bool_]:
        """Returns the points on which a cost depends: what is learned does not depend on how mini-batches are made."""
        return np.asarray(self._varied & LEARNING_POINTS if cost in (ACCURACY, WORK) else self._varied)

    def measure(self, config: TrainConfig, plan: TrialPlan, known: LearningCurve | None) -> Measurement:
        """Returns what a trial of `config` finds, with the seconds that it takes.

        Args:
            config: Canonical.
            plan: How it is measured, with its limits.
            known: What is known of what it learns.
        """
        self._trials += 1
        found, seconds = self._metrics(config), self.default.trial_seconds[0]
        limit = plan.host_limit_bytes
        outcome: Metrics | Failure
        if limit is not None and found.peak_host_bytes > limit:
            outcome = Failure(FailureKind.OUT_OF_MEMORY, "passed the limit", limit, float(limit))
        else:
            outcome = as_asked(found, TrialRequest(config, self.setting, "", plan, known_curve=known))
            outcome = self._with_seconds(outcome, 0 if known is None else known.trained)
            seconds += outcome.curve_train_seconds + outcome.curve_eval_seconds
        return Measurement(
            config=config,
            setting=self.setting,
            outcome=outcome,
            accuracy_budget=0,
            seconds=seconds,
            version=MEASUREMENT_VERSION,
            created="",
            id=f"emulated {self._seed} {self._trials}",
        )

    def _with_seconds(self, metrics: Metrics, known: int) -> Metrics:
        """Returns `metrics` with the seconds of what its curve trained beyond the `known` mini-batches."""
        trained = 0 if metrics.curve is None else max(metrics.curve.trained - known, 0)
        train_s = trained / metrics.pace.batches_per_s
        evaluated = self.default.trial_seconds[1] / self.default.reference.budget_s - 1
        return dataclasses.replace(metrics, curve_train_seconds=train_s, curve_eval_seconds=evaluated * train_s)

    def _metrics(self, config: TrainConfig) -> Metrics:
        """Returns what a trial without limits finds that trains far beyond the default's budget."""
        base, hardware, true = self.default.metrics, self.setting.hardware, self.true([config])
        random = generator(self._seed, "emulated", "trial", self._trials)
        speed = float(true.column("throughput_epochs_per_s")[0])
        trial = speed * math.exp(self._noise * random.standard_normal())
        windows = trial * np.exp(_WINDOW_NOISE * random.standard_normal(3))
        idle, peak = hardware.profile.idle_host_bytes, float(true.column("peak_host_bytes")[0])
        batches = math.ceil(self.setting.graph.num_train / config.batch_size)
        slower = base.pace.batches_per_s / (speed * batches)
        stages = {name: seconds * slower for name, seconds in dataclasses.asdict(base.stage_seconds).items()}
        return dataclasses.replace(
            base,
            throughput_epochs_per_s=float(np.median(windows)),
            throughput_replicates=tuple(windows.tolist()),
            peak_host_bytes=round(idle + (peak - idle) * math.exp(_MEMORY_NOISE * random.standard_normal())),
            batches_per_epoch=batches,
            epoch_overhead_s=0.0,
            setup_seconds=0.0,  # seconds to accuracy include it
            stage_seconds=StageSeconds(**stages),
            curve=self._curve(config, true, speed * batches),
        )

    def _curve(self, config: TrainConfig, true: Prediction, batches_per_s: float) -> LearningCurve:
        """Returns the curve of what `config` learns: the default's, stretched to reach the target when it truly does.

        It rises as the accuracy does that the default kept, because a target counts from where it is kept. What truly
        misses the target rises no further than to its accuracy. The configuration of a learning key that is tried first
        decides.
        """
        key, reference, own = config.curve_key(self.setting.task), self.default.reference, self.default.metrics
        if key not in self._curves:
            assert own.curve is not None, "a default has one"
            accuracy, seconds = (float(true.column(name)[0]) for name in ("val_accuracy", "seconds_to_accuracy"))
            reached = accuracy >= reference.target
            seconds = min(seconds, reference.budget_s) if reached else seconds
            default_s = self.default.known.seconds or reference.budget_s
            stretch = default_s * own.pace.batches_per_s / (seconds * batches_per_s)
            within = reference.budget_s * batches_per_s
            first, counts = max(1, round(within / _POINTS)), [0]
            while counts[-1] < _LONGER * within:
                counts.append(next_point(counts[-1], first))
            kept = np.maximum.accumulate(own.curve.held())
            values = np.interp(np.array(counts[1:]) * stretch, [0, *own.curve.batches], [0.0, *kept])
            values = values if reached else np.minimum(values, accuracy)
            self._curves[key] = LearningCurve(tuple(counts[1:]), tuple(values.tolist()), CurveEnd.BUDGET)
        return self._curves[key]


def _process(points: Floats, values: Floats, seed: int) -> GaussianProcessRegressor:
    """Returns a process with a length scale per input, fitted to `values` (n,) at `points` (n, d)."""
    scales = RBF(np.full(points.shape[1], 2.0), length_scale_bounds=(0.3, 50.0))
    kernel = ConstantKernel() * scales + WhiteKernel(0.01, noise_level_bounds=(1e-5, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # inputs that don't matter have no length scale
        return GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed).fit(points, values)


#: Rows with the best true scores whose curves are judged, because a curve's points are later than the target.
_BEST_ROWS = 64


class EmulatedTune(NamedTuple):
    """The course of a tune on an emulated graph; scores are true ones, in doublings, less the baseline's.

    Attributes:
        chosen: After each trial: the seconds so far, in whole trials' worth, and the score that verification of the
            contenders would choose.
        best: The best score of the trials, and of a search on the true metrics.
        broken: Share of the seconds in trials that failed or broke a limit.
        repeated: Share of the seconds in trials that kept the limits and repeated a learning key.
        trials: Number of trials.
        keys: Number of distinct learning keys among them.
    """

    chosen: tuple[tuple[float, float], ...]
    best: float
    broken: float
    repeated: float
    trials: int
    keys: int

    def after(self, whole_trials: float) -> float:
        """Returns the score of the choice after so many whole trials' worth of seconds."""
        return [score for spent, score in self.chosen if spent <= whole_trials][-1]

    @classmethod
    def run(
        cls,
        graph: EmulatedGraph,
        corpus: Sequence[Measurement],
        ends: CurveEnds | None,
        priority: Priority,
        engine: Engine,
        whole_trials: float,
        seed: int,
    ) -> Self:
        """Returns the course of a tune by `engine` until `whole_trials` of seconds are spent, or it proposes none.

        The baseline's first row is its trial, and its peak the limit on memory, as `--memory-limit baseline` has it.

        Args:
            graph: The graph.
            corpus: Rows that the surrogate is fitted to beside the trials.
            ends: Predicts how curves end; None predicts nothing.
            priority: The priority.
            engine: Chooses the trials.
            whole_trials: The budget, in trials that train a whole curve.
            seed: The tune's.
        """
        whole_s, spent_s, broken_s, repeated_s = sum(graph.default.trial_seconds), 0.0, 0.0, 0.0
        history = _begun(graph, corpus, priority, whole_trials * whole_s, seed)
        surrogate = fit_surrogate(history)
        beliefs = Beliefs(history, surrogate)
        chosen = [(0.0, _chosen(graph, beliefs))]
        keys = {TrainConfig().learning_key()}
        while spent_s < whole_trials * whole_s:
            left_s = whole_trials * whole_s - spent_s
            proposal = next(iter(engine.propose(beliefs, 1, left_s)), None)
            if proposal is None:
                break
            trial = _trial(graph, proposal, beliefs, surrogate, ends)
            history, seconds = history.with_trial(trial), trial.measurement.seconds
            spent_s += seconds
            figures, key = history.figures(trial), trial.measurement.config.learning_key()
            if figures is None or history.objectives.limits.broken_by(figures):
                broken_s += seconds
            elif key in keys:
                repeated_s += seconds
            keys.add(key)
            surrogate = fit_surrogate(history, surrogate)
            beliefs = Beliefs(history, surrogate)
            chosen.append((spent_s / whole_s, _chosen(graph, beliefs)))
        default = _kept(graph, history, [])
        return cls(
            chosen=tuple((spent, score - default) for spent, score in chosen),
            best=_best(graph, history) - default,
            broken=broken_s / max(spent_s, 1e-9),
            repeated=repeated_s / max(spent_s, 1e-9),
            trials=len(history.trials) - 1,
            keys=len(keys) - 1,
        )


def _begun(
    graph: EmulatedGraph, corpus: Sequence[Measurement], priority: Priority, trials_s: float, seed: int
) -> History:
    """Returns the history of a tune that has measured the baseline, and whose budget leaves trials `trials_s`."""
    default = next(row for row in graph.default.by_config[TrainConfig().canonical()] if row.metrics is not None)
    budget = (default.seconds + trials_s) / (1 - VERIFICATION_SHARE)
    request = TuneRequest("", graph.setting.task, priority, DEFAULT_PEAK, None, 1.0, budget, "ei", seed=seed)
    study = dataclasses.replace(Study.of(request, graph.setting), corpus=tuple(corpus))
    return History(study, (Trial("default", {}, default),))


def _trial(
    graph: EmulatedGraph, proposal: Proposal, beliefs: Beliefs, surrogate: Surrogate, ends: CurveEnds | None
) -> Trial:
    history, config = beliefs.history, proposal.config.canonical()
    slowest = beliefs.slowest(config) if proposal.for_priority else None
    plan = trial_plan(proposal, history, slowest, ends=ends)
    measured = graph.measure(config, plan, history.curve(config))
    return Trial(proposal.reason, predicted_row(predict(surrogate, history, [config]), 0), measured)


def eligible(history: History, found: Prediction) -> NDArray[np.bool_]:
    """Returns which configurations may be chosen, by their true metrics `found`, bool, shape (n,).

    They keep the limits, and reach the target by `History.latest_s` if later ones may not be chosen.
    """
    latest_s = math.inf if history.latest_s is None else history.latest_s
    kept = history.objectives.limits.violation(found) <= 0
    return np.asarray(kept & (found.column("seconds_to_accuracy") <= latest_s))


def _kept(graph: EmulatedGraph, history: History, configs: Sequence[TrainConfig]) -> float:
    """Returns the best true score of the baseline and of those of `configs` that may truly be chosen."""
    found = graph.judged([TrainConfig().canonical(), *(config.canonical() for config in configs)])
    may = eligible(history, found)
    may[0] = True
    return float(history.objectives.score(found)[may].max())


def _chosen(graph: EmulatedGraph, beliefs: Beliefs) -> float:
    """Returns the true score that verification would choose among the contenders and the baseline."""
    contenders = learning_differently(beliefs.ranked, lambda one: one.trial.measurement.config, CONTENDERS)
    return _kept(graph, beliefs.history, [one.trial.measurement.config for one in contenders])


def gaining_keys(
    graph: EmulatedGraph, corpus: Sequence[Measurement], priority: Priority, whole_trials: float
) -> tuple[int, int]:
    """Returns how many learning keys of the grid have a configuration that gains `MIN_GAIN`, and how many it has.

    Such a configuration was measured, and may truly be chosen. Arguments are those of `EmulatedTune.run`.
    """
    configs = list(graph.default.by_config)
    history = _begun(graph, corpus, priority, whole_trials * sum(graph.default.trial_seconds), 0)
    found = graph.judged(configs)
    gains = history.objectives.score(found) - _kept(graph, history, []) >= math.log2(1 + MIN_GAIN)
    may = eligible(history, found) & gains
    gaining = {config.learning_key() for config, does in zip(configs, may, strict=True) if does}
    return len(gaining), len({config.learning_key() for config in configs})


def _best(graph: EmulatedGraph, history: History) -> float:
    """Returns the best true score of the trials and of a local search on the true metrics."""
    space, objectives = history.space, history.objectives

    def value(rows: Rows) -> Floats:
        true = graph.true(space.columns(rows))
        return np.where(eligible(history, true), objectives.score(true), -np.inf)

    rows, values = maximize(space, value, space.sample(4 * STARTS, 0))
    tried = [trial.measurement.config for trial in history.trials]
    kept = rows[np.isfinite(values)][:_BEST_ROWS]
    return _kept(graph, history, [*tried, *map(space.decode, kept)])

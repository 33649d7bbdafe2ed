"""`Beliefs`: what a tune believes of any configuration after its trials so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.measurement import METRICS
from a3gnn.objectives import DOUBLINGS, Objectives, Priority
from a3gnn.pareto import non_dominated
from a3gnn.prediction import Prediction
from a3gnn.space import Rows, SearchSpace
from a3gnn.tuning.beliefs.expectations import believed, expected_trials_s, predict, tried_rows
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import JudgedTrial
from a3gnn_surrogate.surrogate import Surrogate

Floats = NDArray[np.float64]

#: A trial is given up if it beats the best one with less than this probability.
UNLIKELY = 0.05
#: Least seconds of a trial: a replay of stored ones takes none.
_LEAST_S = 1e-3


class Belief(NamedTuple):
    """Beliefs about configurations, each float64, shape (n,).

    Attributes:
        mean: Mean of the true score, in doublings.
        deviation: Standard deviation of the true score, without the noise of a measurement.
        probability: Probability of keeping all limits.
        seconds: Expected seconds of a trial.
    """

    mean: Floats
    deviation: Floats
    probability: Floats
    seconds: Floats


class Beliefs:
    """The surrogate's beliefs about the configurations of a tune, by its priority and limits.

    Attributes:
        history: As given.
        surrogate: As given.
        evaluations: Number of configurations that were predicted.
    """

    def __init__(self, history: History, surrogate: Surrogate) -> None:
        self.history, self.surrogate = history, surrogate
        self.evaluations = 0
        self._seen: list[tuple[Rows, Prediction]] = []

    @property
    def space(self) -> SearchSpace:
        """The configurations to choose from."""
        return self.history.space

    @property
    def objectives(self) -> Objectives:
        """The limits and the priority."""
        return self.history.objectives

    @cached_property
    def ranked(self) -> list[JudgedTrial]:
        """The eligible trials by their believed scores, best first (`believed`)."""
        return believed(self.history, self.surrogate)

    @cached_property
    def _best_accuracy(self) -> float | None:
        """The best measured accuracy; None without a search.

        Values of a search can cost tens of points. Knobs alone cost a few, and twelve emulated tunes gained nothing by
        it (docs/design/surrogate.md).
        """
        if not self.space.searched:
            return None
        known = (one.figures.val_accuracy for one in self.history.eligible())
        return max((accuracy for accuracy in known if accuracy is not None), default=None)

    @cached_property
    def tried(self) -> set[bytes]:
        """The rows of all trials, as bytes."""
        return tried_rows(self.history)

    def predict(self, rows: Rows) -> Prediction:
        """Returns the prediction of `rows`, int64, shape (n, n_knobs).

        The target must be reached within the baseline's seconds, or by `History.latest_s` if later configurations may
        not be chosen.
        """
        found = predict(self.surrogate, self.history, self.space.columns(rows))
        if found.budget_s is not None and self.history.latest_s is not None:
            found = dataclasses.replace(found, budget_s=self.history.latest_s)
        self.evaluations += len(rows)
        self._seen.append((rows, found))
        return found

    def predict_configs(self, configs: Sequence[TrainConfig]) -> Prediction:
        """Returns the prediction of canonical `configs`, which may lie outside the space, as for a measurement."""
        return predict(self.surrogate, self.history, configs)

    def of(self, rows: Rows, priority: Priority | None = None) -> Belief:
        """Returns the beliefs about `rows`, int64, shape (n, n_knobs), by `priority` or the tune's own.

        Predicted intervals are for measurements, so the noise of a trial's speed is removed from the deviation.
        Otherwise noise would promise improvements, and known configurations would be measured again.

        If only seconds to accuracy decide and are predicted, whatever is better than an eligible trial reaches the
        target in time. So its probability would count twice, and is left out.
        """
        objectives, prediction = self._objectives(priority), self.predict(rows)
        limits = objectives.limits
        if objectives.priority.only_time and prediction.budget_s is not None and self.ranked:
            limits = dataclasses.replace(limits, least_accuracy=None)
        noise = self._noise * objectives.priority.throughput
        spread = objectives.score_spread(prediction, self._best_accuracy)
        known = self.surrogate.knows_curve(self.space.columns(rows), self.history.study.setting)
        return Belief(
            mean=objectives.score(prediction),
            deviation=np.sqrt(np.maximum(spread**2 - noise**2, 0.0)),
            probability=limits.feasibility(prediction),
            seconds=np.maximum(expected_trials_s(self.history, known, prediction, self.history.drift), _LEAST_S),
        )

    def best(self, priority: Priority | None = None) -> float | None:
        """Returns the best believed score of an eligible trial; None before one has a measured score.

        Scores are predicted after all trials, because the best of many single measurements was also lucky.
        """
        judged, objectives = self.history.ranked(), self._objectives(priority)
        if not judged:
            return None
        scored = np.isfinite(objectives.measured_score([one.figures for one in judged]))  # others missed the target
        rows = [self.history.row(one.trial.measurement.config) for one, has in zip(judged, scored, strict=True) if has]
        inside = [row for row in rows if row is not None]
        return float(objectives.score(self.predict(np.stack(inside))).max()) if inside else None

    def slowest(self, config: TrainConfig) -> float | None:
        """Returns the speed at which `config` would beat the best trial with the probability `UNLIKELY`.

        It is in epochs per second, or in seconds to accuracy if these count. Memory and accuracy are as believed, and
        speed is measured with the noise of a trial. None if speed does not count, nothing is to be beaten, or speed is
        only predicted as a ratio.
        """
        priority, best = self.objectives.priority, self.best()
        prediction = self.predict_configs([config])
        if best is None or not priority.deciding[0] or (priority.time and prediction.budget_s is None):
            return None
        weights = priority.weights * DOUBLINGS
        costs = self.objectives.costs(prediction)[0]
        others = self.objectives.score(prediction)[0] + weights[0] * costs[0]
        spreads = np.array(
            [
                self._noise,
                prediction.spread(self.objectives.memory)[0] / np.log(2),
                prediction.spread("val_accuracy", self._best_accuracy)[0] * priority.accuracy_counts,
            ]
        )
        slack = NormalDist().inv_cdf(1 - UNLIKELY) * float(np.linalg.norm(weights * spreads))
        cost = (others + slack - best) / weights[0]  # log2 of seconds, or -log2 of epochs per second
        return float(np.exp2(cost if priority.time else -cost))

    def predicted_front(self) -> Prediction:
        """Returns the predictions of the front of all configurations predicted so far that probably keep the limits."""
        if not self._seen:
            nothing = np.empty((0, len(METRICS)))
            return Prediction(nothing, nothing, nothing)
        rows = np.concatenate([rows for rows, _ in self._seen])
        first = np.unique(rows, axis=0, return_index=True)[1]
        mean, low, high = (
            np.concatenate([getattr(found, name) for _, found in self._seen])[first] for name in ("mean", "low", "high")
        )
        every = dataclasses.replace(self._seen[-1][1], mean=mean, low=low, high=high)
        kept = every.take(np.flatnonzero(self.objectives.limits.violation(every) == 0))
        front = kept.take(np.flatnonzero(non_dominated(self.objectives.costs(kept))))
        return front.take(np.lexsort(self.objectives.costs(front).T[::-1]))

    def learning_rows(self, rows: Rows) -> Rows:
        """Returns `rows` with -1 for each knob that decides nothing about learning, int64, same shape.

        Equal results share one learning curve (`TrainConfig.curve_key`).
        """
        own = self.history.study.setting.task.own
        if own is not None and not own.repeats:
            return rows
        columns, found = self.space.columns(rows), rows.copy()
        for j, knob in enumerate(self.space.knobs):
            found[~np.broadcast_to(knob.learns.holds(columns), len(rows)), j] = -1
        return found

    def learns_anew(self, rows: Rows) -> NDArray[np.bool_]:
        """Returns which of `rows` have a learning key that no trial has, bool, shape (n,)."""
        return self._keys_not_in(rows, self._tried_keys)

    def learns_as_best(self, rows: Rows) -> NDArray[np.bool_]:
        """Returns which of `rows` are untried and have the learning key of the best trial, bool, shape (n,).

        Before a trial is eligible, these are all untried rows: a key whose trial failed may do in less memory.
        """
        new = np.array([row.tobytes() not in self.tried for row in rows], dtype=np.bool_)
        best = self._learning_keys([one.trial.measurement.config for one in self.ranked[:1]])
        return new & ~self._keys_not_in(rows, best) if best else new

    @cached_property
    def _tried_keys(self) -> set[bytes]:
        counted = (one for one in self.history.trials if not self.history.outgrown(one))
        return self._learning_keys([one.measurement.config for one in counted])

    def _keys_not_in(self, rows: Rows, keys: set[bytes]) -> NDArray[np.bool_]:
        return np.array([row.tobytes() not in keys for row in self.learning_rows(rows)], dtype=np.bool_)

    def _learning_keys(self, configs: Sequence[TrainConfig]) -> set[bytes]:
        rows = [row for row in map(self.history.row, configs) if row is not None]
        return {row.tobytes() for row in self.learning_rows(np.stack(rows))} if rows else set()

    def _objectives(self, priority: Priority | None) -> Objectives:
        return self.objectives if priority is None else dataclasses.replace(self.objectives, priority=priority)

    @property
    def _noise(self) -> float:
        """Standard deviation of a trial's measured speed, in doublings."""
        return float(self.surrogate.noise(self.history.study.setting.hardware) / np.log(2))

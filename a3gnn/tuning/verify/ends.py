"""`Ends`: the last trainings: the choice and the baseline to their ends, and the baseline with the choice's rate."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures, Reference
from a3gnn.limits import Breach
from a3gnn.measurement import Failure, Metrics
from a3gnn.tuning.run.blocks import BlockCost
from a3gnn.tuning.run.runner import Runner
from a3gnn.tuning.study.choice import Final, RateAlone
from a3gnn.tuning.study.comparison import best_accuracy
from a3gnn.tuning.study.history import History
from a3gnn.tuning.verify.judged import Contender


class Ends:
    """The longest trainings of the baseline and of contenders with the task's seed.

    Args:
        history: Of the tune.
        runner: Runs the trainings, and knows the remaining budget.
        cost: The expected cost of trainings.
        baseline: The baseline's configuration; None without one.

    Attributes:
        of_baseline: The baseline's training.
    """

    def __init__(self, history: History, runner: Runner, cost: BlockCost, baseline: TrainConfig | None) -> None:
        self.of_baseline = None if baseline is None else history.reference_metrics
        self._history, self._runner, self._cost, self._baseline = history, runner, cost, baseline
        self._longer: dict[str, Metrics] = {}
        self._rates: dict[float, Metrics] = {}
        self._tried: set[str] = set()

    def is_due(self, one: Contender) -> bool:
        """Whether `one` was trained whole, and `train` was not called for it."""
        return one.whole is not None and one.key not in self._tried

    def train(self, one: Contender, beside: Sequence[TrainConfig]) -> None:
        """Trains the baseline with the learning rate of `one`, then `beside` and `one` on until they stop improving.

        It ends when one can't within the budget. It trains nothing if the request says how far the baseline trains: a
        number of epochs, or to a target.
        """
        self._tried.add(one.key)
        self._train_rate_alone(one)
        request = self._history.study.request
        if request.default_epochs is not None or request.target_accuracy is not None:
            return
        for config in dict.fromkeys([*beside, one.config]):
            if has_stopped(self._end(config, one)):
                continue
            most_s = self._most_seconds(config, one)
            outcome = None if most_s is None else self._runner.train_on(config, self._history, most_s).outcome
            if outcome is None or isinstance(outcome, Failure):
                return
            self._longer[config.key()] = outcome
            if not has_stopped(outcome):
                return

    def _train_rate_alone(self, one: Contender) -> None:
        """Trains the baseline with the learning rate of `one` to the target, if seconds count and the budget covers it.

        No stored row and no trial changes the rate alone, so a gain does not say by itself what the rate gave.
        """
        scale, baseline, history = one.config.learning_rate_scale, self._baseline, self._history
        if baseline is None or scale in (baseline.learning_rate_scale, *self._rates):
            return
        if not history.study.request.priority.time:
            return
        config = dataclasses.replace(baseline, learning_rate_scale=scale)
        if config == one.config and one.whole is not None:
            self._rates[scale] = one.whole
        elif self._runner.budget.left_s >= self._cost.run_s(1, history.reference_figures):
            outcome = self._runner.train_whole(config, history, history.study.setting.task.seed + 1).outcome
            if isinstance(outcome, Metrics):
                self._rates[scale] = outcome

    def rate_alone(self, one: Contender, reference: Reference | None) -> RateAlone | None:
        """Returns what the learning rate of `one` alone gives the baseline, as far as it was trained.

        Args:
            one: A contender.
            reference: The reference, at the machine's speed in the verification.
        """
        trained = self._rates.get(one.config.learning_rate_scale)
        if trained is None:
            return None
        figures = Figures.of(trained, trained.curve, reference)
        return RateAlone(one.config.learning_rate_scale, figures.seconds_to_accuracy)

    def breach(self, one: Contender) -> Breach | None:
        """Returns by how much `one` exceeds the allowed drop where it and the baseline stop improving, if it does."""
        request = self._history.study.request
        if self._baseline is None or one.config == self._baseline or request.target_accuracy is not None:
            return None
        own, default = (self._end(config, one) for config in (one.config, self._baseline))
        if own is None or default is None or default.curve is None or not (has_stopped(own) and has_stopped(default)):
            return None
        least, found = default.curve.best_held() - request.max_drop, best_accuracy(own)
        return None if found >= least else Breach("least_accuracy", least, found, self._history.objectives.metric)

    def finals(self, one: Contender, paces: Mapping[TrainConfig, Metrics]) -> dict[str, Final]:
        """Returns the end of the baseline as `default` and of `one` as `other`, unless that is the baseline.

        Nothing if the baseline has not stopped improving, or has no pace.
        """
        named = {"default": self._baseline, "other": None if one.config == self._baseline else one.config}
        ends = {
            name: Final.of(self._end(config, one), paces[config].pace)
            for name, config in named.items()
            if config is not None and config in paces
        }
        found = {name: end for name, end in ends.items() if end is not None}
        return found if "default" in found and found["default"].stopped else {}

    def _end(self, config: TrainConfig, one: Contender) -> Metrics | None:
        """Returns the longest training of `config`, which is the baseline's or that of `one`; None if not trained."""
        trained = self.of_baseline if config == self._baseline else one.whole
        return self._longer.get(config.key(), trained)

    def _most_seconds(self, config: TrainConfig, one: Contender) -> float | None:
        """Returns the seconds of training that the budget affords; None if it can't stop improving within them."""
        known, trained = self._end(config, one), self._history.curve(config)
        if known is None or known.curve is None:
            return None
        kept_s = known.pace.seconds(0 if trained is None else trained.trained)  # it goes on from the trial's state
        most_s = kept_s + self._cost.training_within(self._runner.budget.left_s)
        most_s = min(most_s, self._history.study.longest_s)
        return most_s if known.pace.seconds(known.curve.soonest_stop()) <= most_s else None


def has_stopped(trained: Metrics | None) -> bool:
    """Whether the validation accuracy of `trained` had stopped improving."""
    return trained is not None and trained.curve is not None and trained.curve.has_stopped_improving()

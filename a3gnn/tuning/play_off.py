"""The play-off: what is chosen is measured again beside the default, interleaved, before anything is promised of it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from statistics import fmean, median

from a3gnn.breach import Breach
from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.measurement import Failure, Metrics
from a3gnn.report.text import describe_breaches, describe_config
from a3gnn.spread import Spread
from a3gnn.tuning.choice import Choice
from a3gnn.tuning.comparison import Comparison, Pair, accuracy_differences, best_accuracy
from a3gnn.tuning.history import History
from a3gnn.tuning.infeasible import nothing_fits
from a3gnn.tuning.lines import describe_failure
from a3gnn.tuning.remeasured import expected_seconds, judged_over, with_timing
from a3gnn.tuning.runner import Runner
from a3gnn.tuning.trial import JudgedTrial
from a3gnn.units import count

#: Finalists beside the default, rounds in which they are compared, alternations of the choice and the default that
#: what is printed stands on, and seeds beside the task's that both train with.
FINALISTS, ROUNDS, ALTERNATIONS, SEEDS = 3, 2, 5, 2


def play_off(history: History, runner: Runner) -> Choice:
    """Returns the finalist that wins when all are measured again, and keeps the limits over its whole training.

    First rounds of timed trials, the finalists and the default in an order that rotates, decide by their medians. The
    winner trains its whole curve under the limits, and so does the default; further seeds of both follow where there
    is time. One that breaks a limit, the one on accuracy judged on the mean difference over the seeds, hands over to
    the next. Choice and default are then timed in alternation.

    Raises:
        InfeasibleError: Nothing keeps the limits.
    """
    return _PlayOff(history, runner).choice()


class _PlayOff:
    def __init__(self, history: History, runner: Runner) -> None:
        self._history, self._runner = history, runner
        self._finalists = history.ranked()[:FINALISTS]
        self._default = _default(history)
        self._left_out: list[str] = []
        self._notes: dict[str, str] = {}
        self._refused: dict[str, Failure | tuple[Breach, ...]] = {}
        self._figures: dict[str, Figures] = {}
        self._timing_s, self._whole_s = expected_seconds(history)

    def choice(self) -> Choice:
        for finalist in self._ordered():
            trained = self._train(finalist)
            choice = None if trained is None else self._compared(finalist, *trained)
            if choice is not None:
                return choice
        raise nothing_fits(self._history, self._refused)

    def _affords(self, seconds: float, alternations: int = ALTERNATIONS) -> bool:
        """Whether so many seconds are left beside what so many alternations will take."""
        return self._runner.budget.left_s >= seconds + 2 * alternations * self._timing_s

    def _ordered(self) -> list[JudgedTrial]:
        """Returns the finalists, best first, as the rounds find them."""
        configs = [one.trial.measurement.config for one in self._finalists]
        if len(configs) < 2:
            return self._finalists
        turns = configs if self._default is None or self._default in configs else [*configs, self._default]
        fitting = (n for n in range(ROUNDS, 0, -1) if self._affords(self._whole_s + n * len(turns) * self._timing_s, 1))
        rounds = next(fitting, 0)
        if rounds < ROUNDS:
            self._left_out.append(f"{count(ROUNDS - rounds, 'round')} among {len(configs)} finalists")
        if not rounds:
            return self._finalists
        self._say(f"play-off {count(len(configs), 'finalist')}, {count(rounds, 'round')}")
        found = self._timed(turns, rounds)
        judged = [self._rejudged(one, found[one.trial.measurement.config.key()]) for one in self._finalists]
        self._figures |= {one.trial.measurement.config.key(): one.figures for one in judged}
        judged = [one for one in judged if one.trial.measurement.config.key() not in self._notes]
        for one in judged:
            throughput = Spread.of(m.throughput_epochs_per_s for m in found[one.trial.measurement.config.key()])
            assert throughput is not None
            self._say(f"    {throughput.describe('.3g')} epochs/s  {describe_config(one.trial.measurement.config)}")
        judged = self._history.by_score(judged)
        for one in judged[1:]:
            self._notes.setdefault(one.trial.measurement.config.key(), "not the best when measured again")
        return judged

    def _timed(self, configs: Sequence[TrainConfig], rounds: int) -> dict[str, list[Metrics]]:
        """Returns what timing `configs` in an order that rotates finds, by their keys.

        One that fails, or breaks a limit on memory, is refused.
        """
        found: dict[str, list[Metrics]] = {config.key(): [] for config in configs}
        seconds: list[float] = []
        for first in range(rounds):
            for offset in range(len(configs)):
                config = configs[(first + offset) % len(configs)]
                begin = time.monotonic()
                outcome = self._runner.time(config, self._history)
                seconds.append(time.monotonic() - begin)
                if isinstance(outcome, Metrics):
                    found[config.key()].append(outcome)
                self._check(config, outcome)
        self._timing_s = median(seconds)
        return found

    def _rejudged(self, one: JudgedTrial, timed: Sequence[Metrics]) -> JudgedTrial:
        """Returns `one` with the throughput and the peaks of `timed` as well."""
        if not timed:
            return one
        metrics = with_timing(one.metrics, timed)
        curve = self._history.curve(one.trial.measurement.config)
        return JudgedTrial(one.trial, metrics, Figures.of(metrics, curve, self._history.reference))

    def _train(self, finalist: JudgedTrial) -> tuple[Metrics, list[Pair]] | None:
        """Returns the finalist's whole training, and those of it and the default per seed; None where it is refused.

        There are no pairs without a default to compare with, where the finalist is the default, and where there is no
        time for the default's.
        """
        config, task_seed = finalist.trial.measurement.config, self._history.study.setting.task.seed
        self._say(f"verify   {describe_config(config)}")
        first = self._whole(config, task_seed)
        if first is None:
            return None
        if config == self._default or self._default is None:
            return first, []
        pairs: list[Pair] = []
        for number in range(1 + SEEDS):
            trainings = 2 if number else 1  # with the task's own seed, only the default's is left
            if not self._affords(trainings * self._whole_s):
                if not number:
                    self._left_out.append("the default's test accuracy")
                self._left_out.append(count(min(SEEDS, SEEDS + 1 - number), "further seed"))
                break
            own = self._whole(config, task_seed + number) if number else first
            default = self._whole(self._default, task_seed + number)
            if own is None:
                return None
            if default is not None:
                pairs.append(Pair(own, default))
        return (first, pairs) if self._keeps_accuracy(config, first, pairs) else None

    def _whole(self, config: TrainConfig, seed: int) -> Metrics | None:
        """Returns what a whole training of `config` finds, or None where that breaks a limit on memory, or fails."""
        history = self._history
        task_seed = history.study.setting.task.seed
        outcome = self._runner.train_whole(config, history, None if seed == task_seed else seed).outcome
        self._check(config, outcome)
        return None if isinstance(outcome, Failure) or config.key() in self._refused else outcome

    def _check(self, config: TrainConfig, outcome: Metrics | Failure) -> None:
        """Refuses `config` where a trial of it failed, or took more memory than is allowed."""
        if isinstance(outcome, Failure):
            self._refuse(config, outcome)
            return
        # Accuracy is judged over all seeds, once they are trained.
        limits = dataclasses.replace(self._history.objectives.limits, least_accuracy=None)
        if breaches := limits.broken_by(Figures.of(outcome, None, None)):
            self._refuse(config, breaches)

    def _keeps_accuracy(self, config: TrainConfig, first: Metrics, pairs: Sequence[Pair]) -> bool:
        """Whether `config` keeps the limit on accuracy in the mean over the seeds."""
        request, reference = self._history.study.request, self._history.reference
        least = self._history.objectives.limits.least_accuracy
        if least is None or reference is None:
            return True
        found = fmean([best_accuracy(pair.choice) for pair in pairs] or [best_accuracy(first)])
        if pairs and request.target is None:  # what may be lost is counted from the default with the same seeds
            found = reference.val_accuracy + fmean(accuracy_differences(pairs)) / 100
        if found < least:
            self._refuse(
                config,
                (Breach("least_accuracy", least, found),),
                f" in the mean of {count(len(pairs), 'seed')}" if pairs else "",
            )
        return found >= least

    def _refuse(self, config: TrainConfig, why: Failure | tuple[Breach, ...], where: str = "") -> None:
        text = (describe_failure(why) if isinstance(why, Failure) else describe_breaches(why)) + where
        if config.key() not in self._refused:
            self._say(f"    rejected: {text}")
        self._notes[config.key()] = f"rejected in the play-off: {text}"
        self._refused[config.key()] = why

    def _compared(self, finalist: JudgedTrial, whole: Metrics, trained: Sequence[Pair]) -> Choice | None:
        """Returns the choice of `finalist`, or None where it breaks a limit in its alternations with the default."""
        config, history = finalist.trial.measurement.config, self._history
        alternations = [] if config == self._default else self._alternate(config)
        if config.key() in self._refused:
            return None
        self._notes.pop(config.key(), None)
        seen = [finalist.metrics, *(pair.choice for pair in trained)]
        choice = judged_over(whole, [pair.choice for pair in alternations], seen, history)
        default, against = None, None
        if alternations:
            base = trained[0].default if trained else _reference_metrics(history)
            seen = [pair.default for pair in trained]
            default = judged_over(base, [pair.default for pair in alternations], seen, history)
            target = history.objectives.limits.least_accuracy or 0.0
            against = Comparison.of(
                alternations,
                trained or [Pair(whole, base)],
                target,
                history.objectives.memory,
                by_time=history.study.request.priority.time,
            )
            assert self._default is not None, "it took part in the alternations"
            self._figures[self._default.key()] = default.figures
        self._figures[config.key()] = choice.figures
        found = Choice(finalist.trial, choice, default, against, self._figures, self._notes, tuple(self._left_out))
        return self._or_default(found)

    def _or_default(self, choice: Choice) -> Choice:
        """Returns the default instead of a `choice` that its alternations with it found no better by the priority."""
        kept = {one.trial.measurement.config: one.trial for one in self._history.eligible()}
        trial = None if self._default is None else kept.get(self._default)
        if trial is None or choice.default is None or choice.against is None:
            return choice
        own, other = self._history.objectives.measured_score([choice.judged.figures, choice.default.figures])
        if own > other:
            return choice
        why = f"no better than the default: {choice.against.throughput.describe()} x its throughput"
        self._say(f"    {why}; the default is chosen")
        self._notes[choice.trial.measurement.config.key()] = why
        return dataclasses.replace(choice, trial=trial, judged=choice.default, default=None, against=None)

    def _alternate(self, config: TrainConfig) -> list[Pair]:
        """Returns timed trials of `config` and the default, which of the two is first alternating."""
        if self._default is None:
            return []
        self._say("    alternating with the default")
        pairs: list[Pair] = []
        for number in range(ALTERNATIONS):
            if number and self._runner.budget.left_s < 2 * self._timing_s:
                self._left_out.append(f"{ALTERNATIONS - number} of {ALTERNATIONS} alternations with the default")
                break
            both = [config, self._default]
            found = self._timed(both if number % 2 == 0 else both[::-1], 1)
            pairs += [Pair(*pair) for pair in zip(*(found[one.key()] for one in both), strict=False)]
        return pairs

    def _say(self, line: str) -> None:
        self._runner.notify(line)


def _default(history: History) -> TrainConfig | None:
    """Returns the configuration that stands for the default: the one that the reference was measured with."""
    reference = history.reference_trial
    return reference.measurement.config if reference and history.has_default_reference else None


def _reference_metrics(history: History) -> Metrics:
    reference = history.reference_trial
    metrics = None if reference is None else reference.measurement.metrics
    assert metrics is not None, "a reference was measured"
    return metrics

"""The play-off: measures finalists and the default again, interleaved, before the tune promises anything."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean, median

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures, Spread
from a3gnn.limits import Breach
from a3gnn.measurement import Failure, Metrics
from a3gnn.notify import Message, detail
from a3gnn.report.front import NO_GAIN
from a3gnn.report.rows import REJECTED
from a3gnn.report.text import describe_breaches, describe_config
from a3gnn.tuning.beliefs.expectations import learning_differently
from a3gnn.tuning.run.plans import (
    FINALISTS,
    MARGIN,
    MOST_ALTERNATIONS,
    MOST_REPEATED,
    MOST_SEEDS,
    ROUNDS,
    SEEDS,
    PlayOffCost,
)
from a3gnn.tuning.run.runner import Runner
from a3gnn.tuning.study.choice import Choice, Judged, NoGain
from a3gnn.tuning.study.comparison import ALTERNATIONS, Comparison, Pair, accuracy_differences, best_accuracy
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.limits import memory_limits, nothing_fits
from a3gnn.tuning.study.measured_front import LATE
from a3gnn.tuning.study.trial import JudgedTrial
from a3gnn.tuning.tell.events import BeganEvent
from a3gnn.tuning.verify.remeasured import enough_undisturbed, judged_in_turns, judged_over, parted, with_timing
from a3gnn.units import count


def play_off(history: History, runner: Runner, ranked: Sequence[JudgedTrial] | None = None) -> Choice:
    """Measures the finalists again, and returns the winner that keeps the limits over its whole training.

    First, rounds of timed trials of the finalists and the default, in rotating order, rank the finalists by their
    medians. The winner is then measured against the default (`AgainstDefault`). If it breaks a limit, the next finalist
    follows, and after the last one the default.

    Args:
        history: Of the tune.
        runner: Runs the trials.
        ranked: The trials of `History.ranked` in the order in which finalists are taken, as returned by `believed`.
            By default they are ordered by their single measurements.

    Raises:
        InfeasibleError: Nothing keeps the limits.
    """
    return _PlayOff(history, PlayOffTrials(history, runner), ranked).choice()


class _PlayOff:
    def __init__(self, history: History, trials: PlayOffTrials, ranked: Sequence[JudgedTrial] | None) -> None:
        self._history, self._trials = history, trials
        # Finalists learn differently: if one misses the least accuracy, all that learn the same miss it too.
        measured = {one.trial.measurement.config: one for one in history.ranked()}
        order = [*measured] if ranked is None else [one.trial.measurement.config for one in ranked]
        finalists = learning_differently(order, lambda config: config, FINALISTS)
        self._finalists = [measured[config] for config in finalists]
        self._default = _default(history)
        self._left_out: list[str] = []
        self._figures: dict[str, Figures] = {}

    def choice(self) -> Choice:
        late: Choice | None = None
        for finalist in self._in_turn():
            against = AgainstDefault(finalist, self._default, self._history, self._trials)
            if late is not None and (against.is_default or not self._trials.affords(2 * ALTERNATIONS, whole=1)):
                break
            if not against.keeps_limits():
                continue
            choice = against.choice()
            if choice.against is None or not (choice.against.late and self._history.reference_is_alternative):
                return self._or_default(self._completed(choice))
            self._trials.say(f"    rejected: {LATE}")
            self._trials.notes[choice.trial.measurement.config.key()] = LATE
            self._figures |= choice.figures
            late = late or choice
        if late is not None:
            return self._or_default(self._completed(late))
        raise nothing_fits(self._history, self._trials.refused)

    def _in_turn(self) -> Iterator[JudgedTrial]:
        """Yields the finalists, best first, then the default, if it keeps the limits and is not a finalist.

        If the play-off refused the default, trials that reach the target later than it may be chosen after all.
        """
        yield from self._ordered()
        finalists = {one.trial.measurement.config for one in self._finalists}
        for one in self._history.eligible():
            config = one.trial.measurement.config
            if config == self._default and config not in finalists and config.key() not in self._trials.refused:
                yield one
        if self._default is not None and self._default.key() in self._trials.refused:
            yield from self._history.late()

    def _ordered(self) -> list[JudgedTrial]:
        """Runs the rounds, and returns the finalists by their results, best first."""
        trials, configs = self._trials, [one.trial.measurement.config for one in self._finalists]
        if len(configs) < 2:
            return self._finalists
        turns = configs if self._default is None or self._default in configs else [*configs, self._default]
        # The winner's whole training and the alternations have precedence: fewer alternations prove no gain.
        fitting = (
            rounds
            for rounds in range(ROUNDS, 0, -1)
            if trials.affords(rounds * len(turns) + 2 * ALTERNATIONS, whole=1, margin=MARGIN)
        )
        rounds = next(fitting, 0)
        if rounds < ROUNDS:
            self._left_out.append(f"{count(ROUNDS - rounds, 'round')} among {len(configs)} finalists")
        if not rounds:
            return self._finalists
        trials.say(f"comparing {count(len(configs), 'finalist')} in {count(rounds, 'round')}")
        return self._ranked(trials.timed(turns, rounds))

    def _ranked(self, found: dict[str, list[Metrics]]) -> list[JudgedTrial]:
        """Returns the finalists that kept the limits in the rounds, best first, by the metrics `found` there."""
        judged = [self._rejudged(one, found[one.trial.measurement.config.key()]) for one in self._finalists]
        keyed = ((one.trial.measurement.config.key(), one.figures) for one in judged)
        self._figures |= {key: figures for key, figures in keyed if found[key]}
        judged = [one for one in judged if one.trial.measurement.config.key() not in self._trials.refused]
        for one in judged:
            throughput = Spread.of(m.throughput_epochs_per_s for m in found[one.trial.measurement.config.key()])
            assert throughput is not None
            self._trials.say(
                detail(f"    {throughput.describe('.3g')} epochs/s  {describe_config(one.trial.measurement.config)}")
            )
        judged = self._history.by_score(judged)
        for config in (one.trial.measurement.config for one in judged[1:]):
            if config != self._default:  # which nobody expects to be the best
                self._trials.notes.setdefault(config.key(), "not the best when measured again")
        return judged

    def _rejudged(self, one: JudgedTrial, timed: Sequence[Metrics]) -> JudgedTrial:
        """Returns `one` with the throughput of `timed`, and the largest peaks of its trial and `timed`."""
        if not timed:
            return one
        metrics = with_timing(one.metrics, timed)
        curve = self._history.curve(one.trial.measurement.config)
        return JudgedTrial(one.trial, metrics, Figures.of(metrics, curve, self._trials.reference))

    def _completed(self, choice: Choice) -> Choice:
        """Returns `choice` with the figures, notes and skipped measurements of the whole play-off."""
        choice = dataclasses.replace(choice, reference=self._trials.reference)
        key = choice.trial.measurement.config.key()
        notes = {other: note for other, note in self._trials.notes.items() if other != key}
        figures, left_out = {**self._figures, **choice.figures}, (*self._left_out, *choice.left_out)
        return dataclasses.replace(choice, figures=figures, notes=notes, left_out=left_out)

    def _or_default(self, choice: Choice) -> Choice:
        """Returns `choice`, or the default if the choice has no measurable gain over it (`Comparison.differs`)."""
        refused = self._trials.refused
        kept = {one.trial.measurement.config: one.trial for one in self._history.eligible()}
        trial = None if self._default is None or self._default.key() in refused else kept.get(self._default)
        if trial is None or choice.default is None or choice.against is None or choice.against.differs:
            return choice
        config = choice.trial.measurement.config
        notes = {**choice.notes, config.key(): LATE if choice.against.late else NO_GAIN}
        return dataclasses.replace(
            choice,
            trial=trial,
            judged=choice.default,
            default=None,
            against=None,
            no_gain=NoGain(config, choice.against),
            notes=notes,
        )


def _default(history: History) -> TrainConfig | None:
    """Returns the configuration that the reference was measured with, if it stands for the default."""
    reference = history.reference_trial
    return reference.measurement.config if reference and history.has_default_reference else None


class AgainstDefault:
    """Measures one finalist beside the default.

    The default drops out if it breaks a limit on memory itself, or if it is the finalist. The finalist is then trained
    once and timed alone.

    Args:
        finalist: The finalist, as judged before the play-off.
        default: The configuration that stands for the default; None if none could be measured.
        history: The trials before the play-off.
        trials: Runs the trials.
    """

    def __init__(
        self, finalist: JudgedTrial, default: TrainConfig | None, history: History, trials: PlayOffTrials
    ) -> None:
        self._finalist, self._history, self._trials = finalist, history, trials
        self._config = finalist.trial.measurement.config
        self._default = None if default == self._config else default
        self._whole: Metrics | None = None
        self._seeds: list[Pair] = []
        self._alternations: list[Pair] = []
        self._timed_alone: list[Metrics] = []

    @property
    def is_default(self) -> bool:
        """Whether the finalist is the default, or no default could be measured."""
        return self._default is None

    def keeps_limits(self) -> bool:
        """Measures the finalist, and returns whether it kept every limit.

        Finalist and default train their whole curves. Both train further seeds if the alternations still fit in the
        budget, and are timed in alternation. Remaining seconds go to skipped measurements first, then to more
        alternations, also to replace disturbed ones, and then to more seeds.
        """
        what = describe_config(self._config)
        self._trials.say(Message(f"verifying {what}", event=BeganEvent("verifying", what)))
        self._whole = self._trials.whole(self._config, self._task_seed)
        if self._whole is None:
            return False
        for step in self._steps():
            step()
            if self._refused:
                return False
        return True

    def choice(self) -> Choice:
        """Returns a `Choice` of the finalist, with the figures of both and the skipped measurements."""
        assert self._whole is not None, "it was measured"
        if self._alternations and self._default is not None:
            judged, default, against = self._in_turns(self._whole)
            figures = {self._config.key(): judged.figures, self._default.key(): default.figures}
        else:
            judged = judged_over(self._whole, self._timed_alone, [self._finalist.metrics], self._trials.reference)
            default, against, figures = None, None, {self._config.key(): judged.figures}
        return Choice(self._finalist.trial, judged, default, against, figures, left_out=tuple(self._left_out()))

    @property
    def _task_seed(self) -> int:
        return self._history.study.setting.task.seed

    @property
    def _reference_metrics(self) -> Metrics:
        metrics = self._history.reference_metrics
        assert metrics is not None, "a reference was measured"
        return metrics

    @property
    def _alone(self) -> bool:
        return self._default is None or self._default.key() in self._trials.refused

    @property
    def _refused(self) -> bool:
        return self._config.key() in self._trials.refused

    @property
    def _to_target(self) -> bool:
        return self._history.study.request.priority.to_target

    @property
    def _tested(self) -> bool:
        """Whether the default was trained with the task's seed for its test accuracy."""
        return bool(self._seeds) and self._seeds[0].default.test_accuracy is not None

    @property
    def _num_timed(self) -> int:
        return len(self._alternations) + len(self._timed_alone)

    def _steps(self) -> Iterator[Callable[[], None]]:
        """Yields the measurements after the finalist's whole training; each one may refuse the finalist.

        Seeds come first, as long as all alternations still fit in the budget. If speed does not decide, one
        alternation is enough.
        """
        speed_decides = bool(self._history.study.request.priority.deciding[0])
        yield partial(self._train_seeds, SEEDS, timed=2 * (ALTERNATIONS if speed_decides else 1))
        yield partial(self._alternate, ALTERNATIONS)
        if self._trials.in_seconds and not self._alone:
            yield partial(self._train_seeds, SEEDS)
            yield partial(self._alternate, MOST_ALTERNATIONS)
            yield self._alternate_until_undisturbed
        yield self._test_default
        if self._trials.in_seconds and not self._alone:
            yield partial(self._train_seeds, MOST_SEEDS)

    def _train_seeds(self, most: int, timed: int = 0) -> None:
        """Trains both with up to `most` seeds beside the task's, while so many `timed` trials still fit in the budget.

        A seed after the alternations may refuse the finalist, so it needs enough budget to train and time the next one.
        """
        assert self._whole is not None, "it was trained with the task's seed"
        if not self._seeds and self._to_target and not self._alone:  # the default's own trial trained to the target
            self._seeds.append(Pair(self._whole, self._reference_metrics))
        while len(self._seeds) <= most and not self._alone and self._default is not None:
            number = len(self._seeds)
            wholes = 0 if number else 1  # with the task's own seed, only the default's is left
            if self._alternations and number:
                wholes, timed = 1, 2
            if not self._trials.affords(timed, wholes, seeds=1 if number else 0):
                break
            own = self._trials.whole(self._config, self._task_seed + number) if number else self._whole
            default = None if own is None else self._trials.whole(self._default, self._task_seed + number)
            if own is None or default is None:
                break
            self._seeds.append(Pair(own, default))
        if self._default is not None and not self._refused:
            self._check_accuracy()

    def _test_default(self) -> None:
        """Trains the default's whole curve with the task's seed, if its first trial stands in and the budget allows."""
        if self._default is None or self._alone or self._tested:
            return
        if self._seeds and self._trials.affords(0, 1):
            default = self._trials.whole(self._default, self._task_seed)
            if default is not None:
                self._seeds[0] = Pair(self._seeds[0].choice, default)

    def _check_accuracy(self) -> None:
        """Refuses the finalist if its mean accuracy over the seeds breaks the limit."""
        assert self._whole is not None, "it was trained"
        request, reference = self._history.study.request, self._history.reference
        least = self._history.objectives.limits.least_accuracy
        if least is None or reference is None:
            return
        pairs = self._seeds
        if self._to_target and pairs:
            self._check_reached(pairs, least)
            return
        found = fmean([best_accuracy(pair.choice) for pair in pairs] or [best_accuracy(self._whole)])
        if pairs and request.target_accuracy is None:  # the allowed loss is relative to the default, seed by seed
            found = reference.val_accuracy + fmean(accuracy_differences(pairs)) / 100
        if found < least:
            where = f" in the mean of {count(len(pairs), 'seed')}" if pairs else ""
            self._trials.refuse(self._config, (self._missed(least, found),), where)

    def _check_reached(self, pairs: Sequence[Pair], least: float) -> None:
        """Refuses the finalist if it reaches the `least` accuracy with fewer seeds than the default."""
        own, default = ([best_accuracy(one) for one in both] for both in zip(*pairs, strict=True))
        kept, of_default = (sum(found >= least for found in both) for both in (own, default))
        if kept < of_default:
            where = f" with {kept} of {count(len(pairs), 'seed')}, the baseline with {of_default}"
            self._trials.refuse(self._config, (self._missed(least, min(own)),), where)

    def _missed(self, least: float, found: float) -> Breach:
        return Breach("least_accuracy", least, found, self._history.objectives.metric)

    def _alternate(self, most: int) -> None:
        """Times the finalist up to `most` times, in turns with the default; the two take turns at going first."""
        if not self._num_timed and not self._alone:
            self._trials.say(detail("    in turns with the baseline"))
        while self._num_timed < most and not self._refused:
            both = [self._config] if self._alone or self._default is None else [self._config, self._default]
            if self._num_timed and not self._trials.affords(len(both)):
                break
            found = self._trials.timed(both if self._num_timed % 2 == 0 else both[::-1], 1)
            own, *default = (found[one.key()] for one in both)
            pairs = [Pair(*pair) for pair in zip(own, *default, strict=False) if default]
            self._alternations += pairs
            self._timed_alone += own[len(pairs) :]

    def _alternate_until_undisturbed(self) -> None:
        """Continues to alternate, up to `MOST_REPEATED` times, until enough alternations are undisturbed."""
        for _ in range(MOST_REPEATED):
            before = self._num_timed
            if self._alone or enough_undisturbed(self._alternations):
                break
            self._alternate(before + 1)
            if self._num_timed == before or self._refused:
                break

    def _in_turns(self, whole: Metrics) -> tuple[Judged, Judged, Comparison]:
        """Returns the judged finalist and default, and their comparison, all from the same pairs.

        Args:
            whole: The finalist's training with the task's seed.
        """
        objectives = self._history.objectives
        seeds = self._seeds or [Pair(whole, self._reference_metrics)]
        counted, left_out = parted(self._alternations)
        target = objectives.limits.least_accuracy or 0.0
        judged = judged_in_turns(seeds, counted, left_out, target, self._trials.reference)
        return *judged, Comparison.of(counted, seeds, target, objectives.memory, objectives.priority, left_out)

    def _left_out(self) -> Iterator[str]:
        """Yields the measurements that the budget was too small for."""
        if self._alone:
            return
        trained, turns = len(self._seeds), len(self._alternations)
        if not self._tested:
            yield f"the baseline's test {self._history.objectives.metric.label}"
        if trained <= SEEDS:
            yield count(min(SEEDS, SEEDS + 1 - trained), "further seed")
        if turns < ALTERNATIONS:
            yield f"{ALTERNATIONS - turns} of {ALTERNATIONS} alternations with the baseline"


class PlayOffTrials:
    """The trials of one play-off.

    Args:
        history: The trials before the play-off.
        runner: Runs the trials, and knows the remaining budget.

    Attributes:
        refused: Refused configurations by key, each with the reason: its failure, or the limits that it broke.
        notes: Why a configuration is not chosen, by its key.
        cost: Expected cost of the trials, updated by each measured one.
        reference: The reference that trials are judged by, at the machine's speed when the play-off began; or None.
    """

    def __init__(self, history: History, runner: Runner) -> None:
        self._history, self._runner = history, runner
        self.refused: dict[str, Failure | tuple[Breach, ...]] = {}
        self.notes: dict[str, str] = {}
        self.cost = PlayOffCost.expected(history, history.drift)
        self.reference = None if history.reference is None else history.reference.at(history.drift)
        self._wholes: dict[tuple[str, int], Metrics] = {}

    @property
    def in_seconds(self) -> bool:
        """Whether the budget is in seconds, so that some may be left over, and not in trials."""
        return math.isfinite(self._runner.budget.left_s)

    def affords(self, timed: int, whole: int = 0, seeds: int = 0, margin: float = 1.0) -> bool:
        """Whether the budget covers so many timed trials, whole trainings and seeds, at `margin` times their cost."""
        cost = self.cost
        needed_s = timed * cost.timing_s + whole * cost.whole_s + seeds * cost.seed_s
        return self._runner.budget.left_s >= margin * needed_s

    def timed(self, configs: Sequence[TrainConfig], rounds: int) -> dict[str, list[Metrics]]:
        """Times `configs` for so many `rounds`, rotating their order, and returns the metrics by configuration key.

        Refuses a configuration that fails or breaks a limit on memory.
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
        self.cost = self.cost._replace(timing_s=median(seconds))
        return found

    def whole(self, config: TrainConfig, seed: int) -> Metrics | None:
        """Trains `config` and returns its metrics; None if that fails or breaks a limit on memory.

        With the task's seed it trains the whole curve, with other seeds as far as `seed_plan` says. A configuration
        trains once per seed, so every finalist is compared with the same trainings of the default.
        """
        if config.key() not in self.refused and (known := self._wholes.get((config.key(), seed))):
            return known
        task_seed, begin = self._history.study.setting.task.seed, time.monotonic()
        outcome = self._runner.train_whole(config, self._history, None if seed == task_seed else seed).outcome
        self._check(config, outcome)
        if isinstance(outcome, Failure) or config.key() in self.refused:
            return None
        took_s = time.monotonic() - begin
        if self.cost.default_whole:  # with every seed as long
            self.cost = self.cost._replace(whole_s=took_s, seed_s=2 * took_s)
        elif seed == task_seed:
            self.cost = self.cost._replace(whole_s=took_s)
        self._wholes[config.key(), seed] = outcome
        return outcome

    def refuse(self, config: TrainConfig, why: Failure | tuple[Breach, ...], where: str = "") -> None:
        """Records that `config` may not be chosen, and prints the reason the first time."""
        text = (why.describe() if isinstance(why, Failure) else describe_breaches(why)) + where
        if config.key() not in self.refused:
            self.say(f"    rejected: {text}")
        self.notes[config.key()] = f"{REJECTED}: {text}"
        self.refused[config.key()] = why

    def say(self, line: str) -> None:
        """Prints `line`."""
        self._runner.notify(line)

    def _check(self, config: TrainConfig, outcome: Metrics | Failure) -> None:
        """Refuses `config` if its trial failed, or took more memory than the limits allow."""
        if isinstance(outcome, Failure):
            self.refuse(config, outcome)
            return
        # Accuracy is judged over all seeds, once they are trained.
        if breaches := memory_limits(self._history, config).broken_by(Figures.of(outcome, None, None)):
            self.refuse(config, breaches)

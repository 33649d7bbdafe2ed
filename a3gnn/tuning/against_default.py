"""`AgainstDefault`: a finalist against the default: whole trainings of both per seed, and timed trials in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean

from a3gnn.breach import Breach
from a3gnn.config import TrainConfig
from a3gnn.measurement import Metrics
from a3gnn.report.text import describe_config
from a3gnn.tuning.choice import Choice, Judged
from a3gnn.tuning.comparison import Comparison, Pair, accuracy_differences, best_accuracy
from a3gnn.tuning.disturbed import enough_undisturbed, parted
from a3gnn.tuning.history import History
from a3gnn.tuning.play_off_plan import ALTERNATIONS, MOST_ALTERNATIONS, MOST_REPEATED, MOST_SEEDS, SEEDS
from a3gnn.tuning.play_off_trials import PlayOffTrials
from a3gnn.tuning.remeasured import judged_in_turns, judged_over
from a3gnn.tuning.trial import JudgedTrial
from a3gnn.units import count


class AgainstDefault:
    """One finalist, and what is measured of it beside the default.

    The default drops out where it breaks a limit on memory itself, or is the finalist: then the finalist is trained
    once and timed alone.

    Args:
        finalist: As it was judged so far.
        default: The configuration that stands for the default; None where none could be measured.
        history: What was measured before.
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
        """Whether the finalist is the default, or there is none beside it."""
        return self._default is None

    def keeps_limits(self) -> bool:
        """Measures the finalist, and returns whether it keeps every limit meanwhile.

        It trains its whole curve, and the default does; both train further seeds where the alternations still fit
        beside them, and are timed in alternation. What is left of a budget in seconds is used for what was left out,
        then for more alternations, also in place of those that other work disturbed, then for more seeds.
        """
        self._trials.say(f"verify   {describe_config(self._config)}")
        self._whole = self._trials.whole(self._config, self._task_seed)
        if self._whole is None:
            return False
        for step in self._steps():
            step()
            if self._refused:
                return False
        return True

    def choice(self) -> Choice:
        """Returns the choice of the finalist, with the figures of both and what was left out."""
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
        """Yields what is measured after the finalist's whole training; each step may refuse the finalist.

        Seeds come before the alternations that fit beside them; where speed does not decide, before all but one.
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
        """Trains both with up to `most` seeds beside the task's, while so many `timed` trials fit as well.

        A seed after the alternations may refuse the finalist: then the next one's training and timing must still fit.
        """
        assert self._whole is not None, "it was trained with the task's seed"
        if not self._seeds and self._to_target and not self._alone:  # it was trained that far in its own trial
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
        """Trains the default's whole curve with the task's seed, where its trial's stands in and that fits."""
        if not self._tested and self._seeds and self._default is not None and self._trials.affords(0, 1):
            default = self._trials.whole(self._default, self._task_seed)
            if default is not None:
                self._seeds[0] = Pair(self._seeds[0].choice, default)

    def _check_accuracy(self) -> None:
        """Refuses the finalist where it breaks the limit on accuracy in the mean over the seeds."""
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
        if pairs and request.target_accuracy is None:  # what may be lost is counted from the default by seed
            found = reference.val_accuracy + fmean(accuracy_differences(pairs)) / 100
        if found < least:
            where = f" in the mean of {count(len(pairs), 'seed')}" if pairs else ""
            self._trials.refuse(self._config, (self._missed(least, found),), where)

    def _check_reached(self, pairs: Sequence[Pair], least: float) -> None:
        """Refuses the finalist where it reaches the `least` accuracy with fewer seeds than the default."""
        own, default = ([best_accuracy(one) for one in both] for both in zip(*pairs, strict=True))
        kept, of_default = (sum(found >= least for found in both) for both in (own, default))
        if kept < of_default:
            where = f" with {kept} of {count(len(pairs), 'seed')}, the default with {of_default}"
            self._trials.refuse(self._config, (self._missed(least, min(own)),), where)

    def _missed(self, least: float, found: float) -> Breach:
        return Breach("least_accuracy", least, found, self._history.objectives.metric)

    def _alternate(self, most: int) -> None:
        """Times the finalist up to `most` times, in turns with the default, which of the two is first alternating."""
        if not self._num_timed and not self._alone:
            self._trials.say("    alternating with the default")
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
        """Alternates on, up to `MOST_REPEATED` times, while other work disturbed so many that too few would count."""
        for _ in range(MOST_REPEATED):
            before = self._num_timed
            if self._alone or enough_undisturbed(self._alternations):
                break
            self._alternate(before + 1)
            if self._num_timed == before or self._refused:
                break

    def _in_turns(self, whole: Metrics) -> tuple[Judged, Judged, Comparison]:
        """Returns what both came to, the finalist by this `whole` training, and its comparison with the default.

        All three are of the same pairs.
        """
        objectives = self._history.objectives
        seeds = self._seeds or [Pair(whole, self._reference_metrics)]
        counted, left_out = parted(self._alternations)
        target = objectives.limits.least_accuracy or 0.0
        judged = judged_in_turns(seeds, counted, left_out, target, self._trials.reference)
        return *judged, Comparison.of(counted, seeds, target, objectives.memory, objectives.priority, left_out)

    def _left_out(self) -> Iterator[str]:
        """Yields what the budget was too small for."""
        if self._alone:
            return
        trained, turns = len(self._seeds), len(self._alternations)
        if not self._tested:
            yield f"the default's test {self._history.objectives.metric.label}"
        if trained <= SEEDS:
            yield count(min(SEEDS, SEEDS + 1 - trained), "further seed")
        if turns < ALTERNATIONS:
            yield f"{ALTERNATIONS - turns} of {ALTERNATIONS} alternations with the default"

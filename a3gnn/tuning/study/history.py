"""`History`: the trials of a tune, the reference and limits that they are judged by, and the best of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from a3gnn.config import LearningKey, TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.figures import SECONDS_AGAIN, THROUGHPUT_AGAIN, Figures, Reference
from a3gnn.learning_curve import CurveEnd, LearningCurve, next_point
from a3gnn.limits import Breach, Limits
from a3gnn.measurement import Failure, Metrics, keep_longest
from a3gnn.objectives import Objectives, memory_metric
from a3gnn.profiling.known import failed_partitioning
from a3gnn.profiling.request import CurvePlan, CurveRules, TrialPlan
from a3gnn.space import Rows, SearchSpace
from a3gnn.tuning.study.budget import VERIFICATION_SHARE
from a3gnn.tuning.study.foresight import expected_end, expected_stop
from a3gnn.tuning.study.study import Study
from a3gnn.tuning.study.trial import BASELINE, LONGER, JudgedTrial, SpeedTiming, Trial
from a3gnn_surrogate.curve_ends import Extrapolated

#: `--memory-limit default` allows the default's measured peak and this share of it, because repeated trials of one
#: configuration differ, and the default has to keep its own limit. Measured: in 24 repetitions of the default on three
#: graphs, at 330 to 440 MiB and with whole trainings among them, the largest peak exceeded the first trial's by 4.2 %.
#: Single trials and trainings of other configurations differ by more (`docs/design/measurement.md`, Host memory).
DEFAULT_TOLERANCE = 0.05
#: Share of the seconds for trials that one trial may train to the target if seconds to accuracy count. Without, a tune
#: of amazon_computers for five minutes spent 92 of 106 s on one trial that lost, and kept the baseline. In emulated
#: tunes half gains as much, and an eighth less (`docs/design/trials.md`).
_TRIAL_SHARE = 1 / 4


class Compared(NamedTuple):
    """How a finished tune compared its trials, as its tuned.json says."""

    budget_s: float  # seconds of training at the machine's speed in the reference's trial
    target: float | None  # the validation quality to reach, in [0, 1]; None for another target than the tune's own


@dataclass(frozen=True)
class History:
    """The trials of one tune, judged by its study; immutable, so `with_trial` returns a new one.

    Attributes:
        study: The fixed settings of the tune.
        trials: In the order in which they ran.
        timings: The machine's speed during the tune, in the order of time.
        compared: How the tune compared, if it has finished; None derives that from the budget.
    """

    study: Study
    trials: tuple[Trial, ...] = ()
    timings: tuple[SpeedTiming, ...] = ()
    compared: Compared | None = None

    def with_trial(self, trial: Trial) -> Self:
        """Returns the history with `trial` at its end."""
        return dataclasses.replace(self, trials=(*self.trials, trial))

    def with_timing(self, timing: SpeedTiming) -> Self:
        """Returns the history with a later `timing`; trials since the previous timing are judged anew."""
        timings = (*self.timings, timing)
        return dataclasses.replace(self, trials=tuple(one.judged_by(timings) for one in self.trials), timings=timings)

    def first(self, trials: int) -> Self:
        """Returns the history of the first so many `trials`, with all timings so far."""
        return self if trials == len(self.trials) else dataclasses.replace(self, trials=self.trials[:trials])

    @property
    def drift(self) -> float:
        """The machine's speed as last timed, over that at which the reference was measured.

        1 if the final quality counts, because such tunes do not time the reference between trials. Older ones did.
        """
        return self.timings[-1].drift if self.timings and not self.study.request.priority.final else 1.0

    @cached_property
    def space(self) -> SearchSpace:
        """The study's space, without partitions that could not be made.

        A partitioner that failed to make n parts is assumed to fail at more parts; other partitioners are not.
        """
        space = self.study.space
        for trial in self.trials:
            config = trial.measurement.config
            if failed_partitioning(trial.measurement) is not None and space.can_make(config):
                space = space.without_parts(config.partitioner, config.num_partitions)
        return space

    @cached_property
    def objectives(self) -> Objectives:
        """The study's objectives; the least accuracy is the reference's target, once there is a reference."""
        least_accuracy = self.reference.target if self.reference else self.study.target
        return self.study.objectives(least_accuracy, self.default_bytes)

    def limits(self, config: TrainConfig) -> Limits:
        """Returns the limits of `config`. The reference has no least accuracy, unless one was requested.

        Its own training gives the target. Its repetitions and its other seeds may miss it by chance.
        """
        limits, reference = self.objectives.limits, self.reference_trial
        if self.study.target is None and reference is not None and reference.measurement.config == config:
            return dataclasses.replace(limits, least_accuracy=None)
        return limits

    def broken_by(self, trial: Trial, figures: Figures) -> tuple[Breach, ...]:
        """Returns the limits that `trial` breaks with `figures`."""
        return self.limits(trial.measurement.config).broken_by(figures)

    @property
    def default_bytes(self) -> int | None:
        """The limit in bytes of `--memory-limit default`: the largest peak of its trials, plus `DEFAULT_TOLERANCE`.

        Trials of a stand-in count if the default does not fit. None if neither was measured.
        """
        peaks = (
            getattr(t.measurement.metrics, memory_metric(self.study.setting.hardware.has_device))
            for t in self.trials
            if t.reason in BASELINE and t.measurement.metrics
        )
        largest = max(peaks, default=None)
        return None if largest is None else math.ceil(largest * (1 + DEFAULT_TOLERANCE))

    @property
    def plan(self) -> TrialPlan:
        """The study's plan, with the memory limits known so far."""
        limits = self.objectives.limits
        return dataclasses.replace(
            self.study.plan, host_limit_bytes=limits.host_bytes, device_limit_bytes=limits.device_bytes
        )

    @property
    def default(self) -> Trial | None:
        """The trial of the study's baseline, or None."""
        return next((t for t in self.trials if t.measurement.config == self.study.baseline), None)

    @cached_property
    def reference_trial(self) -> Trial | None:
        """The trial that the others are compared with, or None.

        It is the trial of the default, or of a configuration with the same learning key. If none of these fits, the
        trial with the best validation accuracy stands in.
        """
        task = self.study.setting.task
        same = TrainConfig().curve_key(task)
        trained = [t for t in self.trials if t.measurement.metrics and self.curve(t.measurement.config)]
        alike = (t for t in trained if t.measurement.config.curve_key(task) == same)
        return next(alike, max(trained, key=self._best_accuracy, default=None))

    @property
    def has_default_reference(self) -> bool:
        """Whether the reference has the default's learning key, and is not a stand-in."""
        trial, task = self.reference_trial, self.study.setting.task
        return trial is not None and trial.measurement.config.curve_key(task) == TrainConfig().curve_key(task)

    @cached_property
    def reference(self) -> Reference | None:
        """The reference's budget and target, from its metrics and curve; None before it is measured.

        Where the reference is worse than what needs no learning, the allowed drop counts from that.
        """
        metrics, trial = self.reference_metrics, self.reference_trial
        if metrics is None or metrics.curve is None or trial is None:
            return None
        kept = None if self.compared is None else self.compared.target
        target = self.study.target if kept is None else kept
        longest = self.curve(trial.measurement.config)
        found = Reference.of(metrics, metrics.curve, self.study.request.max_drop, target, longest)
        if found is not None and target is None and found.val_accuracy < self.study.unlearnt:
            found = dataclasses.replace(found, target=self.study.unlearnt - self.study.request.max_drop)
        if found is None or not self.study.request.priority.final:
            return found
        least_s = self.study.quality_s if self.compared is None else self.compared.budget_s
        return dataclasses.replace(found, budget_s=max(found.budget_s, least_s), final=True)

    @cached_property
    def reference_metrics(self) -> Metrics | None:
        """The metrics of the reference's trial, its curve cut where this tune's plan ends it; None without a trial.

        The curve is that of the last trial that trained it on (`LONGER`), if there is one. It can be longer if it
        continued a training state that an earlier tune had saved; test accuracy is unknown then.
        """
        metrics, trained = None if self.reference_trial is None else self.reference_trial.metrics, self._trained
        if metrics is None or trained is None or trained.curve is None:
            return metrics
        curve = self._as_planned(trained) or trained.curve
        test = trained.test_accuracy if curve.trained == trained.curve.trained else None
        return dataclasses.replace(metrics, curve=curve, test_accuracy=test)

    @property
    def _trained(self) -> Metrics | None:
        """The metrics of the trial that trained the reference last, at its own pace."""
        longer = [t.measurement.metrics for t in self.trials if t.reason == LONGER and t.measurement.metrics]
        if longer and self.has_default_reference:
            return longer[-1]
        return None if self.reference_trial is None else self.reference_trial.metrics

    def _as_planned(self, metrics: Metrics) -> LearningCurve | None:
        """Returns the reference's curve up to where this tune's plan ends it; None if the plan would train it on."""
        curve = metrics.curve
        assert curve is not None, "the reference has one"
        first = curve.batches[0] if curve.batches else 1
        plan = self.study.reference_curve if self.compared is None else CurvePlan(self.compared.budget_s)
        return CurveRules.of(plan, metrics).cut(curve, first)

    @property
    def reference_is_short(self) -> bool:
        """Whether the plan would train the reference on: a larger budget has resumed the tune."""
        trained = self._trained
        can_be = self.has_default_reference and trained is not None and trained.curve is not None
        return can_be and trained is not None and self._as_planned(trained) is None

    @property
    def still_rising(self) -> bool | None:
        """Whether the reference still improved when its training ended by the budget; None before it is measured."""
        if self.reference is None:
            return None
        has_end = self.study.request.default_epochs is not None or not self.has_default_reference
        return self.reference.still_rising and not has_end

    @property
    def settling_s(self) -> float | None:
        """The expected seconds of training after which the reference stops improving; None if it has, or is unknown."""
        metrics, curve = self.reference_metrics, self._rising
        return None if metrics is None or curve is None else metrics.pace.seconds(expected_stop(curve))

    @property
    def settling_budget_s(self) -> float | None:
        """The budget in seconds that trains the reference until it stops improving; None as for `settling_s`."""
        return None if self.settling_s is None else self.study.settling_budget_s(self.settling_s)

    @property
    def expected_final(self) -> Extrapolated | None:
        """The validation accuracy that the reference is expected to end at; None as for `settling_s`."""
        curve = self._rising
        return None if curve is None else expected_end(curve, expected_stop(curve))

    @property
    def _rising(self) -> LearningCurve | None:
        """The reference's curve, if it still improved at its end."""
        metrics = self.reference_metrics
        return metrics.curve if self.still_rising and metrics is not None else None

    @cached_property
    def trial_s(self) -> float:
        """Most seconds of training that a trial may take to the target if seconds to accuracy count.

        A share of the budget that the baseline's trial and the verification leave; infinite without a baseline, or if
        the budget counts trials.
        """
        budget = self.study.request.budget
        if isinstance(budget, int) or self.reference is None:
            return math.inf
        baseline_s = sum(trial.measurement.seconds for trial in self.trials if trial.reason in BASELINE)
        return max(budget * (1 - VERIFICATION_SHARE) - baseline_s, 0.0) * _TRIAL_SHARE

    @property
    def due_s(self) -> float:
        """Most seconds of training that a trial may take to the target; infinite without a limit.

        They are `trial_s` if seconds to accuracy count. Otherwise they are `latest_s` and as much more as the seconds
        of two trainings differ by (`SECONDS_AGAIN`, with a probability of 90 %).
        """
        if self.objectives.priority.time:
            return self.trial_s
        return math.inf if self.latest_s is None else SECONDS_AGAIN * self.latest_s

    def outgrown(self, trial: Trial) -> bool:
        """Returns whether a larger budget would train the curve of `trial` on: it may be measured anew, once.

        Its training ended at an earlier target, and it is not known to miss this one. Or it ended because its next
        point was later than a trial could take (`trial_s`), and now that point is in time at a speed that is lower by
        `THROUGHPUT_AGAIN`, and sooner than the best.
        """
        return self._ended_at_an_earlier_target(trial) or self._was_cut_off(trial)

    def _was_cut_off(self, trial: Trial) -> bool:
        metrics, reference, key = trial.metrics, self.reference, trial.measurement.config.key()
        curve = None if metrics is None else metrics.curve
        if metrics is None or curve is None or reference is None:
            return False
        if curve.ended is not CurveEnd.SLOWER or not curve.batches:
            return False
        if sum(one.measurement.config.key() == key for one in self.trials) > 1 or not self.objectives.priority.time:
            return False
        best = self.best()
        required_s = None if best is None else best.figures.seconds_to_accuracy
        most_s = min(self.trial_s / THROUGHPUT_AGAIN, reference.budget_s if required_s is None else required_s)
        return metrics.pace.seconds(next_point(curve.trained, curve.batches[0])) <= most_s

    def _ended_at_an_earlier_target(self, trial: Trial) -> bool:
        """Returns whether `trial` ended at the target before the reference was trained on, and is below this one."""
        longer = max((place for place, one in enumerate(self.trials) if one.reason == LONGER), default=0)
        if not any(one is trial for one in self.trials[:longer]):
            return False
        metrics, figures = trial.metrics, self.figures(trial)
        if metrics is None or metrics.curve is None or figures is None or figures.complete:
            return False
        return metrics.curve.ended is CurveEnd.TARGET and figures.seconds_to_accuracy is None

    @property
    def reference_figures(self) -> Figures | None:
        """The figures of the reference's trial; None before it is measured."""
        return None if self.reference_trial is None else self.figures(self.reference_trial)

    def curve(self, config: TrainConfig) -> LearningCurve | None:
        """Returns the longest measured curve with the learning key of `config`, or None."""
        return self._curves.get(config.curve_key(self.study.setting.task))

    def figures(self, trial: Trial) -> Figures | None:
        """Returns the figures of `trial` at equal training time; None if it failed."""
        metrics = trial.metrics
        return None if metrics is None else Figures.of(metrics, self.curve(trial.measurement.config), self.reference)

    @property
    def tried(self) -> int:
        """Number of trials that count against the budget (`Trial.counts`)."""
        return sum(trial.counts for trial in self.trials)

    def measured(self) -> list[JudgedTrial]:
        """Returns the trials that succeeded, judged."""
        outcomes = ((trial, trial.metrics, self.figures(trial)) for trial in self.trials)
        return [JudgedTrial(trial, metrics, figures) for trial, metrics, figures in outcomes if metrics and figures]

    def failures(self) -> list[Failure]:
        """Returns the failures of the trials that failed."""
        return [t.measurement.outcome for t in self.trials if isinstance(t.measurement.outcome, Failure)]

    def feasible(self) -> list[JudgedTrial]:
        """Returns the trials that keep every limit as measured."""
        return [one for one in self.measured() if not self.broken_by(one.trial, one.figures)]

    def inside(self) -> list[JudgedTrial]:
        """Returns the measured trials inside the space; fixed or restricted knobs may leave the default outside."""
        return [one for one in self.measured() if self.row(one.trial.measurement.config) is not None]

    def eligible(self) -> list[JudgedTrial]:
        """Returns the trials that may be chosen: inside the space, within every limit, and not late."""
        return [one for one in self._keeping_limits() if not one.figures.later_than(self.latest_s)]

    def late(self) -> list[JudgedTrial]:
        """Returns the trials refused only because they are late, best first; the last trial of each configuration."""
        return self._best_first(one for one in self._keeping_limits() if one.figures.later_than(self.latest_s))

    @cached_property
    def latest_s(self) -> float | None:
        """The training seconds until the reference reaches the target, if they are a limit; else None.

        They are a limit unless the priority may be late (`Priority.in_time`): a higher throughput is worth nothing if
        the same accuracy comes later.
        """
        figures = self.reference_figures
        if figures is None or not (self.reference_is_alternative and self.objectives.priority.in_time):
            return None
        return figures.seconds_to_accuracy

    @property
    def reference_is_alternative(self) -> bool:
        """Whether the reference has the default's learning key, and may be chosen itself."""
        trial, figures = self.reference_trial, self.reference_figures
        if trial is None or figures is None or not self.has_default_reference:
            return False
        in_space = self.row(trial.measurement.config) is not None
        return in_space and not self.broken_by(trial, figures)

    def breaches(self, one: JudgedTrial) -> tuple[Breach, ...]:
        """Returns the limits that a trial is known to break.

        A trial that ended because others are quicker, or before its first evaluation, may still reach the least
        accuracy.
        """
        found, curve = self.broken_by(one.trial, one.figures), one.metrics.curve
        slower = curve is not None and curve.ended is CurveEnd.SLOWER and not one.figures.complete
        if slower or one.figures.val_accuracy is None:
            return tuple(breach for breach in found if breach.limit != "least_accuracy")
        return found

    def fits_memory(self) -> bool:
        """Returns whether anything inside the space kept the memory limits as measured, whatever its accuracy."""
        limits = dataclasses.replace(self.objectives.limits, least_accuracy=None)
        return any(not limits.broken_by(one.figures) for one in self.inside())

    def ranked(self) -> list[JudgedTrial]:
        """Returns the last eligible trial of each configuration, best first by the priority."""
        return self._best_first(self.eligible())

    @property
    def rivals(self) -> int:
        """Number of configurations that may be chosen in place of the reference."""
        return len(self.ranked()) - self.reference_is_alternative

    def by_score(self, judged: Sequence[JudgedTrial]) -> list[JudgedTrial]:
        """Returns `judged` in the order of the priority's score, best first, regardless of limits."""
        if not judged:
            return []
        score = self.objectives.measured_score([one.figures for one in judged])
        return [judged[i] for i in np.argsort(-score, kind="stable")]

    def best(self) -> JudgedTrial | None:
        """Returns the eligible trial that the priority prefers."""
        return next(iter(self.ranked()), None)

    def row(self, config: TrainConfig) -> Rows | None:
        """Returns the row of `config`, which must be canonical; None if it lies outside the space."""
        try:
            return self.space.encode(config)
        except ConfigError:
            return None

    def _keeping_limits(self) -> list[JudgedTrial]:
        return [one for one in self.inside() if not self.broken_by(one.trial, one.figures)]

    def _best_first(self, judged: Iterable[JudgedTrial]) -> list[JudgedTrial]:
        """Returns the last trial of each configuration in `judged`, the best by the priority first."""
        return self.by_score(list({one.trial.measurement.config.key(): one for one in judged}.values()))

    @cached_property
    def _curves(self) -> dict[LearningKey, LearningCurve]:
        longest: dict[LearningKey, LearningCurve] = {}
        for trial in self.trials:
            keep_longest(longest, trial.measurement)
        return longest

    def _best_accuracy(self, trial: Trial) -> float:
        curve = self.curve(trial.measurement.config)
        return max(curve.val_accuracy) if curve else 0.0

"""`TrialRequest`: the request for a trial, with its plan; `CurveRules`: where its curve ends."""

from __future__ import annotations

import dataclasses
import math
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from a3gnn._fields import Stored
from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError, DeviceError, GraphError, MissingDependencyError, UsageError
from a3gnn.launch import QUICK
from a3gnn.learning_curve import ROUNDING, CurveEnd, LearningCurve, Pace, next_point
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn_surrogate.curve_ends import CurveEnds

#: Prefix of a failure's detail if it happened before the trial, while its partitions were made.
PARTITIONING = "while the graph was partitioned"
#: The same, if its time ended while it opened the graph and its features; and the file that a trial makes after that.
OPENING, OPENED = "while the graph was opened", "opened"
#: Messages of torch when an allocation fails; on the CPU it raises a plain RuntimeError.
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "Cannot allocate memory")
_INVALID = (ConfigError, GraphError, DeviceError, MissingDependencyError)
#: Characters kept of a traceback; its end shows the error.
DETAIL_CHARACTERS = 2000
#: Points of a curve before its end is predicted. Of 370 curves that reached their target, predictions from 6 points on
#: would have given up 2, and save 23 % of the mini-batches of 302 others (`python -m benchmarks.curve_ends`).
_WATCHED = 6


@dataclass(frozen=True, slots=True)
class Race(Stored):
    """When a curve is given up, because its configuration can no longer win.

    Attributes:
        least: Validation accuracy that it must reach, in [0, 1].
        seconds: Most seconds of training until then, set-up included; None for all that the plan has.
        ends: Predicts the end of the curve, which is given up if the prediction's 90 % interval is below `least`. None
            predicts nothing.
        default: The default configuration's curve, which improves the prediction, or None.
    """

    least: float
    seconds: float | None = None
    ends: CurveEnds | None = None
    default: LearningCurve | None = None

    def missed(self, curve: LearningCurve, pace: Pace, due: int, most: float) -> CurveEnd | None:
        """Returns why `curve` is given up, or None if it is not.

        Args:
            curve: The known part.
            pace: The configuration's.
            due: Mini-batches at its next point.
            most: Mini-batches after which the curve ends anyway.
        """
        reached = curve.first_reaching(self.least)
        soonest = due if reached is None else reached
        if self.seconds is not None and curve.batches and pace.seconds(soonest) > self.seconds:
            return CurveEnd.SLOWER
        if reached is not None or self.ends is None or due > most or len(curve.batches) < _WATCHED:
            return None
        return CurveEnd.LOST if self.ends.predict(curve, most, self.default).high < self.least else None


@dataclass(frozen=True, slots=True)
class CurvePlan(Stored):
    """How far a trial trains its learning curve. All seconds are of training, without evaluation.

    Attributes:
        most_seconds: Most seconds of training by the configuration's own pace, set-up included.
        until_plateau: End when the curve has stopped improving.
        plateau_seconds: Train beyond `most_seconds`, up to so many, as long as the curve can still stop improving
            within them.
        least: A curve below this validation accuracy does not count as having stopped improving.
        target: End at this validation accuracy, in [0, 1]; None trains on.
        race: When the curve is given up; None never gives it up.
        least_throughput: A configuration below these epochs per second can't win, and trains no curve.
        most_epochs: End after this many epochs, or None.
        whole: Train from the start, whatever is known of the curve.
        tests: At its end, evaluate test accuracy once, with the weights of the best point, if this trial has them.

    Raises:
        UsageError: A value is out of range.
    """

    most_seconds: float
    until_plateau: bool = False
    target: float | None = None
    race: Race | None = None
    least_throughput: float = 0.0
    most_epochs: int | None = None
    whole: bool = False
    tests: bool = False
    plateau_seconds: float | None = None
    least: float | None = None

    def __post_init__(self) -> None:
        if not self.most_seconds > 0:
            raise UsageError(f"most_seconds must be positive, got {self.most_seconds}")
        if self.most_epochs is not None and self.most_epochs < 1:
            raise UsageError(f"most_epochs must be >= 1, got {self.most_epochs}")


@dataclass(frozen=True, slots=True)
class TrialPlan(Stored):
    """How long a trial warms up, is timed and trains, and its limits; see `docs/design/measurement.md`.

    Attributes:
        curve: How far the learning curve is trained; None times mini-batches alone.
        warmup_batches: Mini-batches before the timed ones.
        timed_seconds: Least seconds of timed mini-batches in all windows together.
        windows: Timed windows, each of which gives one replicate of the throughput.
        least_timed_batches: Least timed mini-batches per window; short epochs are repeated.
        timeout_s: Seconds after which a trial is ended, without stolen ones (`a3gnn.process.worker`).
        host_limit_bytes: Anonymous memory at which a trial is ended, or None.
        device_limit_bytes: Most device memory, context included, or None.
        evaluation_bytes: Most memory for evaluating a user's model at a time; None for a share of the machine's.

    Raises:
        UsageError: A value is out of range.
    """

    curve: CurvePlan | None = None
    warmup_batches: int = 3
    timed_seconds: float = 0.1 if QUICK else 2.0
    windows: int = 1 if QUICK else 3
    least_timed_batches: int = 2
    timeout_s: float = 600.0
    host_limit_bytes: int | None = None
    device_limit_bytes: int | None = None
    evaluation_bytes: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("warmup_batches", 0), ("windows", 1), ("least_timed_batches", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} must be >= {least}, got {getattr(self, name)}")
        if not (math.isfinite(self.timed_seconds) and self.timed_seconds >= 0):
            raise UsageError(f"timed_seconds must be finite and >= 0, got {self.timed_seconds}")
        for name in ("timeout_s", "host_limit_bytes", "device_limit_bytes", "evaluation_bytes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"{name} must be positive, got {value}")


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """One trial, complete.

    Attributes:
        config: The canonical configuration.
        setting: The task, the graph and the machine.
        graph_folder: Folder of the converted graph.
        plan: How to measure.
        known_curve: The known curve of a training with the same learning key, or None.
        curve_state: Path of the state that extends that curve and is updated at the new end; "" keeps no state.
    """

    config: TrainConfig
    setting: Setting
    graph_folder: str
    plan: TrialPlan
    known_curve: LearningCurve | None = None
    curve_state: str = ""

    @property
    def task(self) -> Task:
        """What is trained: the setting's task, with the configuration's values of a search."""
        return self.config.task_of(self.setting.task)

    def to_dict(self) -> dict[str, Any]:
        """Returns the request as one JSON object."""
        return {
            "config": self.config.to_dict(),
            **self.setting.to_dict(),
            "graph_folder": self.graph_folder,
            "plan": dataclasses.asdict(self.plan),
            "known_curve": self.known_curve.to_dict() if self.known_curve else None,
            "curve_state": self.curve_state,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the request of `to_dict`."""
        known = fields["known_curve"]
        return cls(
            config=TrainConfig.from_dict(fields["config"]),
            setting=Setting.from_dict(fields),
            graph_folder=fields["graph_folder"],
            plan=TrialPlan.from_dict(fields["plan"]),
            known_curve=LearningCurve.from_dict(known) if known else None,
            curve_state=fields["curve_state"],
        )


def failure_of(error: BaseException) -> Failure:
    """Returns `error` as a failure: out of memory, an impossible configuration, or a crash with its traceback."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError) or any(phrase in text for phrase in _OUT_OF_MEMORY):
        return Failure(FailureKind.OUT_OF_MEMORY, text[-DETAIL_CHARACTERS:])
    if isinstance(error, _INVALID):
        return Failure(FailureKind.INVALID, str(error))
    trace = "".join(traceback.format_exception(error))
    return Failure(FailureKind.CRASHED, trace[-DETAIL_CHARACTERS:])


@dataclass(frozen=True, slots=True)
class CurveRules:
    """Where the curve of one configuration ends, from the plan and the configuration's speed."""

    plan: CurvePlan
    pace: Pace  # the configuration's set-up time and speed
    batches_per_epoch: int  # mini-batches of an epoch

    @classmethod
    def of(cls, plan: CurvePlan, metrics: Metrics) -> CurveRules:
        """Returns the rules of `plan` for a configuration with these metrics."""
        return cls(plan, metrics.pace, metrics.batches_per_epoch)

    def end(self, curve: LearningCurve, due: int) -> CurveEnd | None:
        """Returns the reason why `curve` ends here, or None if it is trained on.

        Args:
            curve: The known curve; its `ended` is ignored.
            due: Mini-batches at its next point.
        """
        plan = self.plan
        if (missed := self._missed(curve, due)) is not None:
            return missed
        if plan.target is not None and curve.has_settled_at(plan.target):
            return CurveEnd.TARGET
        if plan.until_plateau and self._has_stopped(curve):
            return CurveEnd.PLATEAU
        most = self._most_batches(curve)
        if plan.most_epochs is not None:
            most = min(most, plan.most_epochs * self.batches_per_epoch)
        if not curve.batches and self._needs_a_point:
            return None
        return CurveEnd.BUDGET if due > most else None

    def _has_stopped(self, curve: LearningCurve) -> bool:
        least = self.plan.least
        return curve.has_stopped_improving() and (least is None or curve.best_held() >= least)

    def _most_batches(self, curve: LearningCurve) -> float:
        """Returns the most mini-batches by the seconds: more if `curve` can still stop improving within them."""
        plan, longest = self.plan, self.plan.plateau_seconds
        most = self.pace.batches(plan.most_seconds) * ROUNDING
        if not (plan.until_plateau and longest is not None and curve.batches):
            return most
        until = self.pace.batches(longest) * ROUNDING
        return max(most, until) if curve.soonest_stop() <= until else most

    @property
    def _needs_a_point(self) -> bool:
        """Whether the first point is trained even without time for it, because others refer to it or it is tested."""
        return self.plan.until_plateau or self.plan.most_epochs is not None or self.plan.whole

    def cut(self, curve: LearningCurve, first: int) -> LearningCurve | None:
        """Returns the part of `curve` that these rules would have trained, with the reason for its end.

        Returns None if they would have trained on after its last point.

        Args:
            curve: The known curve.
            first: Mini-batches at the first point of such a curve.
        """
        for length in range(len(curve.batches) + 1):
            part = curve.first(length)
            if (ended := self.end(part, next_point(part.trained, first))) is not None:
                return LearningCurve(part.batches, part.val_accuracy, ended)
        return None

    def _missed(self, curve: LearningCurve, due: int) -> CurveEnd | None:
        """Returns why the configuration has lost: too slow or too inaccurate; None if it has not."""
        if self.pace.batches_per_s < self.plan.least_throughput * self.batches_per_epoch:
            return CurveEnd.SLOWER
        race = self.plan.race
        if race is None:
            return None
        return race.missed(curve, self.pace, due, self._most_batches(curve))

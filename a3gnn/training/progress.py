"""`Progress`: the state and the results of a run's epochs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Self

from a3gnn._fields import Stored, from_fields
from a3gnn.learning_curve import FOLLOWING, CurveEnd, LearningCurve
from a3gnn.measurement import StageSeconds
from a3gnn.training.step import EpochWork, Step, TrainerStep, WorkFigures, by_rank

#: Fields that only several trainers, or ranks of a synchronous algorithm, have.
_OF_SEVERAL = ("trainers", "traffic")
#: Fields that former versions wrote, too.
_FORMER_FIELDS = {"test_accuracy"}


@dataclass(frozen=True, slots=True)
class TargetAccuracy:
    """A target for the quality on validation nodes, by the task's metric."""

    accuracy: float  # the quality
    ends: bool  # whether training ends at the target (`Progress.settled`)


@dataclass(frozen=True, slots=True)
class Point:
    """An evaluation of validation at a point of the learning curve (`a3gnn.learning_curve.next_point`)."""

    batches: int  # mini-batches trained on before it
    val_accuracy: float  # the quality on validation nodes
    train_s: float  # seconds of training until then, with set-up and without evaluations
    eval_s: float  # seconds of all evaluations until then, including this one


@dataclass(frozen=True, slots=True)
class EpochResult(Stored):
    """One trained epoch.

    Attributes:
        epoch: Number, from 1.
        loss: Mean loss over seeds.
        val_accuracy: The quality on validation nodes after the epoch.
        epochs_per_s: Training speed, without evaluation.
        train_s: Seconds of training.
        eval_s: Seconds of evaluation after it; 0 if a point of the learning curve had evaluated it.
        cache_hit_rate: Share of input rows that the cache served.
        stage_seconds: Mean work of a mini-batch in each stage.
        trainers: With several trainers in this process, for each its name, all its seeds, and the mean `transfer_s` and
            `train_s` of a mini-batch (`TrainerStep`).
        nvtps: Vertices traversed per second, over all ranks and trainers (HitGNN's Eq. 3). None for epochs of former
            versions, and for epochs within which ranks were resumed.
        mteps: Millions of edges traversed per second, over all ranks and trainers (HyScale-GNN's Eq. 5). None as
            `nvtps`.
        kilojoules: Energy of all machines for training it. None as `nvtps`, and if a machine doesn't measure it.
        traffic: For each rank of a synchronous algorithm, its reads and messages (`Traffic`).
    """

    epoch: int
    loss: float
    val_accuracy: float
    epochs_per_s: float
    train_s: float
    eval_s: float
    cache_hit_rate: float
    stage_seconds: StageSeconds
    trainers: list[dict[str, Any]] = field(default_factory=list)
    nvtps: float | None = None
    mteps: float | None = None
    kilojoules: float | None = None
    traffic: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types; leaves out empty fields of several trainers or ranks."""
        fields = dataclasses.asdict(self)
        return {name: value for name, value in fields.items() if value or name not in _OF_SEVERAL}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the result from the output of `to_dict`, also of former versions."""
        known = {name: value for name, value in fields.items() if name not in _FORMER_FIELDS}
        return from_fields(cls, known)


@dataclass(slots=True)
class EpochTotals:
    """Sums over the mini-batches of the current epoch.

    Attributes:
        batches: Mini-batches trained on: the index of the next one.
        loss: Sum of each mini-batch's mean loss times its seeds.
        input_nodes: Rows of features read.
        hits: Rows that the cache served.
        stages: Seconds in sample, gather, transfer, train.
        seconds: Elapsed seconds of training.
        trainers: With several trainers in this process, the summed fields of each one's `TrainerStep`.
        work: The fields of this rank's `EpochWork`.
        traffic: The summed fields of `Traffic` for each rank of a synchronous algorithm.
    """

    batches: int = 0
    seeds: int = 0
    loss: float = 0.0
    input_nodes: int = 0
    hits: int = 0
    stages: list[float] = field(default_factory=lambda: [0.0] * 4)
    seconds: float = 0.0
    trainers: list[dict[str, Any]] = field(default_factory=list)
    work: list[float] = field(default_factory=lambda: [0.0] * 3)
    traffic: list[dict[str, Any]] = field(default_factory=list)

    def add(self, step: Step, seconds: float, joules: float) -> None:
        """Adds a mini-batch that took `seconds` of the epoch, and the `joules` since the previous mini-batch."""
        self.batches += 1
        self.seeds += step.seeds
        self.loss += step.loss * step.seeds
        self.input_nodes += step.input_nodes
        self.hits += step.hits
        spent = (step.seconds.sample, step.seconds.gather, step.seconds.transfer, step.seconds.train)
        self.stages = [total + work for total, work in zip(self.stages, spent, strict=True)]
        self.seconds += seconds
        self.trainers = _summed(self.trainers, step.trainers)
        if step.traffic:
            own = [one.to_dict() for one in step.traffic]
            self.traffic = by_rank([self.traffic, own]) if self.traffic else own
        self.work = list(EpochWork(*self.work).plus((*step.traversed, joules)))

    def add_joules(self, joules: float) -> None:
        """Adds `joules` that were measured between mini-batches."""
        self.work = list(EpochWork(*self.work).plus((0.0, 0.0, joules)))

    def forget_work(self) -> None:
        """Marks this epoch's work as unknown: a checkpoint holds only one rank's counts."""
        counted = math.nan if self.batches else 0.0
        self.work = [counted, counted, math.nan if any(self.work) else 0.0]


@dataclass(slots=True)
class Progress:
    """A run's state in a checkpoint, apart from the weights.

    Attributes:
        epochs: The finished epochs.
        under_way: Totals of the current epoch.
        points: Evaluations of validation at points of the learning curve: until a target was reached and kept, and
            within epochs if training ends when validation stops improving.
        setup_s: Seconds before the first mini-batch: partitions, orders, caches and tables.
        eval_s: Seconds of all evaluations.
    """

    epochs: list[EpochResult] = field(default_factory=list)
    under_way: EpochTotals = field(default_factory=EpochTotals)
    points: list[Point] = field(default_factory=list)
    setup_s: float = 0.0
    eval_s: float = 0.0

    @property
    def train_s(self) -> float:
        """Seconds of training so far, with set-up and without evaluations."""
        return self.setup_s + sum(result.train_s for result in self.epochs) + self.under_way.seconds

    def reached(self, accuracy: float) -> Point | None:
        """Returns the first point of at least `accuracy` that keeps it (`LearningCurve.held`), or None."""
        place = self._place_reaching(accuracy)
        return None if place is None else self.points[place]

    def settled(self, accuracy: float) -> Point | None:
        """Returns the first point of at least `accuracy` at which it is known to be kept, or None."""
        place = self._place_reaching(accuracy)
        later = [] if place is None else self.points[place + FOLLOWING :]
        return next((point for point in later if point.val_accuracy >= accuracy), None)

    def _place_reaching(self, accuracy: float) -> int | None:
        batches, found = (tuple(getattr(point, name) for point in self.points) for name in ("batches", "val_accuracy"))
        return LearningCurve(batches, found, CurveEnd.BUDGET).place_reaching(accuracy)

    def batches(self, batches_per_epoch: int) -> int:
        """Returns the mini-batches trained on so far."""
        return len(self.epochs) * batches_per_epoch + self.under_way.batches

    def evaluations(self, batches_per_epoch: int) -> list[tuple[int, float]]:
        """Returns the mini-batches before each evaluation of validation, ascending, and the quality."""
        found = {point.batches: point.val_accuracy for point in self.points}
        found |= {result.epoch * batches_per_epoch: result.val_accuracy for result in self.epochs}
        return sorted(found.items())

    def curve(self, batches_per_epoch: int) -> LearningCurve:
        """Returns the evaluations as a learning curve."""
        found = self.evaluations(batches_per_epoch)
        return LearningCurve(tuple(one for one, _ in found), tuple(one for _, one in found), CurveEnd.BUDGET)

    def add_point(self, batches: int, val_accuracy: float, eval_s: float) -> Point:
        """Adds and returns a point after `batches` mini-batches, whose evaluation took `eval_s` seconds."""
        self.eval_s += eval_s
        self.points.append(Point(batches, val_accuracy, self.train_s, self.eval_s))
        return self.points[-1]

    @property
    def best(self) -> EpochResult | None:
        """The first epoch with the highest validation quality; None before the first is finished."""
        return max(self.epochs, key=lambda result: result.val_accuracy, default=None)

    def epochs_per_s(self, batches_per_epoch: int) -> float:
        """Returns one over the median training time of finished epochs; the median ignores the first one's compilation.

        Before an epoch is finished, it is estimated from the current epoch's mini-batches.
        """
        if not self.epochs:
            return self.under_way.batches / batches_per_epoch / self.under_way.seconds
        return 1 / median(result.train_s for result in self.epochs)

    @property
    def cache_hit_rate(self) -> float:
        """Share of input rows that the cache served in the last finished epoch, or in an unfinished first one."""
        return self.epochs[-1].cache_hit_rate if self.epochs else self.under_way.hits / self.under_way.input_nodes

    def finish_epoch(self, val_accuracy: float, eval_s: float, work: EpochWork) -> EpochResult:
        """Finishes the current epoch, with the `work` of all ranks, and returns its result."""
        total = self.under_way
        result = EpochResult(
            epoch=len(self.epochs) + 1,
            loss=total.loss / total.seeds,
            val_accuracy=val_accuracy,
            epochs_per_s=1 / total.seconds,
            train_s=total.seconds,
            eval_s=eval_s,
            cache_hit_rate=total.hits / total.input_nodes,
            stage_seconds=StageSeconds(*(seconds / total.batches for seconds in total.stages)),
            trainers=[_mean(one, total.batches) for one in total.trainers],
            **WorkFigures.of(work, total.seconds)._asdict(),
            traffic=total.traffic,
        )
        self.eval_s += eval_s
        self.epochs.append(result)
        self.under_way = EpochTotals()
        return result

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the progress from the output of `to_dict`, also of former versions without points and seconds."""
        epochs = [EpochResult.from_dict(result) for result in fields["epochs"]]
        under_way = fields["under_way"]
        unknown = {"work": [math.nan] * 3} if under_way["batches"] else {}  # former versions didn't count it
        return cls(
            epochs,
            EpochTotals(**(unknown | under_way)),
            [Point(**point) for point in fields.get("points", ())],
            fields.get("setup_s", 0.0),
            fields.get("eval_s", sum(result.eval_s for result in epochs)),
        )


def _summed(before: list[dict[str, Any]], steps: Sequence[TrainerStep]) -> list[dict[str, Any]]:
    found = list(map(dataclasses.asdict, steps))
    for one, sums in zip(found, before, strict=False):
        one |= {name: one[name] + sums[name] for name in ("seeds", "transfer_s", "train_s")}
    return found


def _mean(sums: dict[str, Any], batches: int) -> dict[str, Any]:
    return sums | {name: sums[name] / batches for name in ("transfer_s", "train_s")}

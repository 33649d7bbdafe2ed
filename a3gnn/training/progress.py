"""How far a run has come, and what each epoch reached."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Self

from a3gnn._fields import from_fields
from a3gnn.measurement import StageSeconds
from a3gnn.training.step import EpochWork, Step, TrainerStep, WorkFigures, by_rank


@dataclass(frozen=True, slots=True)
class TargetAccuracy:
    """A quality on validation nodes, by the task's metric, that training is to reach.

    Attributes:
        accuracy: The quality.
        first: Mini-batches before the first point at which validation is evaluated for it (`first_point`).
        ends: Whether training ends where it is reached.
    """

    accuracy: float
    first: int
    ends: bool


@dataclass(frozen=True, slots=True)
class Point:
    """An evaluation of validation at a point of the learning curve (`a3gnn.learning_curve.next_point`).

    Attributes:
        batches: Mini-batches trained on before it.
        val_accuracy: The quality on validation nodes.
        train_s: Seconds of training until then, set-up included, evaluations left out.
        eval_s: Seconds of all evaluations until then, its own included.
    """

    batches: int
    val_accuracy: float
    train_s: float
    eval_s: float


#: What there is only of several trainers, or of ranks of a synchronous algorithm.
_OF_SEVERAL = ("trainers", "traffic")
#: What epochs of former versions have besides.
_FORMER_FIELDS = {"test_accuracy"}


@dataclass(frozen=True, slots=True)
class EpochResult:
    """One trained epoch.

    Attributes:
        epoch: Number, from 1.
        loss: Mean loss of the mini-batches, by their seeds.
        val_accuracy: The quality on validation nodes after the epoch.
        epochs_per_s: Of training alone.
        train_s: Seconds of training.
        eval_s: Seconds of evaluation after it; 0 where a point of the learning curve had evaluated it.
        cache_hit_rate: Share of input rows that the cache served.
        stage_seconds: Mean work of a mini-batch in each stage.
        trainers: Of each trainer of this process, where there are several: its name, all its seeds, and the mean
            `transfer_s` and `train_s` of a mini-batch (`TrainerStep`).
        nvtps: Vertices traversed per second, over all ranks and trainers (HitGNN's Eq. 3); None of epochs of former
            versions, and of those that ranks were resumed within.
        mteps: Millions of edges traversed per second, likewise (HyScale-GNN's Eq. 5).
        kilojoules: That the machines took for training it, likewise; None where they don't tell, too.
        traffic: Of each rank of a synchronous algorithm: what it read and sent (`Traffic`).
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
        """Returns the fields as JSON types, without those of several trainers or ranks that are empty."""
        fields = dataclasses.asdict(self)
        return {name: value for name, value in fields.items() if value or name not in _OF_SEVERAL}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the result of `to_dict`, also as former versions wrote it."""
        known = {name: value for name, value in fields.items() if name not in _FORMER_FIELDS}
        return from_fields(cls, known | {"stage_seconds": StageSeconds.from_dict(fields["stage_seconds"])})


@dataclass(slots=True)
class EpochTotals:
    """Sums over the mini-batches of the epoch under way.

    Attributes:
        batches: Mini-batches trained on: the index of the next one.
        seeds: Seeds.
        loss: Mini-batches' mean loss times their seeds, summed.
        input_nodes: Rows of features read.
        hits: Those that the cache served.
        stages: Seconds in sample, gather, transfer, train.
        seconds: Seconds of training that passed.
        trainers: Of each trainer of this process, where there are several, the fields of its `TrainerStep`, summed.
        work: `EpochWork`, of this rank.
        traffic: Of each rank of a synchronous algorithm, the fields of its `Traffic`, summed.
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
        """Counts a mini-batch that took `seconds` of the epoch, and `joules` that were read since the one before."""
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
        """Counts `joules` that were read between mini-batches."""
        self.work = list(EpochWork(*self.work).plus((0.0, 0.0, joules)))

    def forget_work(self) -> None:
        """Has the epoch's figures be not known: of what ranks counted before a stop, one rank's is kept alone."""
        counted = math.nan if self.batches else 0.0
        self.work = [counted, counted, math.nan if any(self.work) else 0.0]


@dataclass(slots=True)
class Progress:
    """What a checkpoint keeps of a run beside its weights.

    Attributes:
        epochs: Finished ones.
        under_way: Of the next one.
        points: Where validation was evaluated for a target, until that was reached.
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
        """Seconds of training so far, set-up included, evaluations left out."""
        return self.setup_s + sum(result.train_s for result in self.epochs) + self.under_way.seconds

    def reached(self, accuracy: float) -> Point | None:
        """Returns the first point of at least `accuracy`, or None."""
        return next((point for point in self.points if point.val_accuracy >= accuracy), None)

    def add_point(self, batches: int, val_accuracy: float, eval_s: float) -> Point:
        """Adds a point that was evaluated in `eval_s` after `batches` mini-batches, and returns it."""
        self.eval_s += eval_s
        self.points.append(Point(batches, val_accuracy, self.train_s, self.eval_s))
        return self.points[-1]

    @property
    def best(self) -> EpochResult | None:
        """The first epoch of the highest validation quality; None before one is finished."""
        return max(self.epochs, key=lambda result: result.val_accuracy, default=None)

    def epochs_per_s(self, batches_per_epoch: int) -> float:
        """Returns one over the median training time of finished epochs: the first one's compilation does not count.

        Before an epoch is finished it is estimated from the mini-batches of the one under way.
        """
        if not self.epochs:
            return self.under_way.batches / batches_per_epoch / self.under_way.seconds
        return 1 / median(result.train_s for result in self.epochs)

    @property
    def cache_hit_rate(self) -> float:
        """Share of input rows that the cache served in the last finished epoch, or in the first one under way."""
        return self.epochs[-1].cache_hit_rate if self.epochs else self.under_way.hits / self.under_way.input_nodes

    def is_over(self, epochs: int, patience: int | None) -> bool:
        """Returns whether `epochs` are done, or the last `patience` of them brought nothing better."""
        done = len(self.epochs)
        return done >= epochs or (patience is not None and self.best is not None and done - self.best.epoch >= patience)

    def finish_epoch(self, val_accuracy: float, eval_s: float, work: EpochWork) -> EpochResult:
        """Adds the epoch under way, with the `work` of all ranks, to the finished ones and returns it."""
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
        """Returns the progress of `to_dict`, also as former versions wrote it: without points and their seconds."""
        epochs = [EpochResult.from_dict(result) for result in fields["epochs"]]
        under_way = fields["under_way"]
        unknown = {"work": [math.nan] * 3} if under_way["batches"] else {}  # of mini-batches of a former version
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

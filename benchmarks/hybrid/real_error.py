"""By how much the performance model misses what real trainers on this machine's processors take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.layer_cost import OPERATORS
from a3gnn.sampling.sampler import NeighbourSampler
from a3gnn.task import Task
from a3gnn.training.hybrid.counts import CountCurve
from a3gnn.training.hybrid.model.performance import ModelShape, PerformanceModel
from a3gnn.training.hybrid.model.processors import calibrated, predict_on_processors
from a3gnn.training.hybrid.model.speeds import probed_speeds
from a3gnn.training.hybrid.schedule import Schedule
from a3gnn.training.hybrid.stage_times import StageTimes
from benchmarks.hybrid.real import PREDICTED, Division, Measured, stage_seconds

#: One mini-batch after the other, as `sequential` does.
_IN_TURN = Schedule(0, 0, 0)


class Errors(NamedTuple):
    """Predicted over measured seconds of each of `STAGES`, less 1, of one division; NaN where there is no such stage.

    Attributes:
        division: Which.
        raw: With the probe's constants alone.
        calibrated: After the first of `PREDICTED` was measured; None of that one.
    """

    division: Division
    raw: tuple[float, ...]
    calibrated: tuple[float, ...] | None


def probed_model(
    hardware: Hardware, graph: Graph, task: Task, divisions: Sequence[Division] = PREDICTED
) -> PerformanceModel:
    """Returns the performance model of training `task` on `graph`, by the probe and by sampled mini-batches."""
    sampler = NeighbourSampler(graph.indptr, graph.indices, task.fanouts, seed=task.seed)
    shares = sorted({share for division in divisions for share in division.shares})
    counts = CountCurve.sampled(sampler, graph.train_ids, shares)
    hidden = (task.hidden_channels,) * (task.num_layers - 1)
    widths = (graph.num_features, *hidden, graph.num_classes)
    # a3gnn's own layers: sums and means of dense rows are made while they are gathered.
    shape = ModelShape(task.model, widths, OPERATORS[task.model].input_widths > 0, maps_first=True)
    return PerformanceModel(shape, counts, probed_speeds(hardware, counts), _IN_TURN)


def errors(
    model: PerformanceModel,
    cores: int,
    measured: Mapping[Division, Measured],
    divisions: Sequence[Division] = PREDICTED,
) -> list[Errors]:
    """Returns the errors of `model` for each of `divisions`.

    Args:
        model: With the probe's constants.
        cores: Threads that load; one samples.
        measured: What divisions took.
        divisions: The first is the run that the model is calibrated with, with one thread per trainer.
    """

    def predicted(by: PerformanceModel, division: Division) -> StageTimes:
        return predict_on_processors(by, division.shares, division.threads, loading=cores)

    first = divisions[0]
    mended = calibrated(model, predicted(model, first), measured[first].undisturbed)
    return [
        Errors(
            one,
            _over(predicted(model, one), measured[one]),
            None if one == first else _over(predicted(mended, one), measured[one]),
        )
        for one in divisions
    ]


def _over(predicted: StageTimes, measured: Measured) -> tuple[float, ...]:
    pairs = zip(stage_seconds(predicted), measured.stage_seconds, strict=True)
    return tuple(guess / found - 1 if guess else float("nan") for guess, found in pairs)

"""Real trainers by who is how far ahead, and what it costs to know what their stages take."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from contextlib import ExitStack
from time import perf_counter
from typing import NamedTuple

from rich.table import Table

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.runtime.watch import Watch
from a3gnn.task import Task
from a3gnn.threads.affinity import available_cores
from a3gnn.training.hybrid.trainers.hybrid_trainer import HybridTrainer
from a3gnn.training.hybrid.trainers.opening import open_hybrid
from a3gnn.training.hybrid.trainers.request import Trainers
from a3gnn.training.hybrid.trainers.told import times_of
from a3gnn.training.step import Step
from benchmarks.engine.graphs import spec_of

#: By default: small mini-batches of narrow rows, where recording costs most.
GRAPH = "synthetic:nodes=40000"
#: Depths by stage; the first one is the serial loop that others are set beside.
SCHEDULES = ((0, 0, 0), (1, 0, 0), (1, 0, 1), (1, 1, 1), (2, 2, 2))
#: How often what is recorded of one mini-batch is recorded again, to be timed.
_RECORDED = 2000


class Found(NamedTuple):
    """What was measured of one schedule.

    Attributes:
        batch_s: Median over epochs of the seconds per mini-batch.
        ratio: Median over epochs of these over the serial loop's of the same round, and the quartiles.
        spans: That are recorded of a mini-batch.
        recording_s: Seconds in which all that is known of one is recorded, by one thread; the median of many.
    """

    batch_s: float
    ratio: tuple[float, float, float]
    spans: int
    recording_s: float

    @property
    def share(self) -> float:
        """What recording takes of a mini-batch's seconds, at most: trainers record beside each other."""
        return self.recording_s / self.batch_s


def prefetch(graph: Graph, task: Task, batch_size: int, names: str, rounds: int) -> dict[tuple[int, ...], Found]:
    """Returns what was found of each of `SCHEDULES`: an epoch each to warm up, then `rounds` in turns, back and forth.

    Args:
        graph: What is trained on.
        task: What.
        batch_size: Seeds per mini-batch.
        names: Of the trainers.
        rounds: Epochs that count.
    """
    config = TrainConfig(batch_size=batch_size)
    with ExitStack() as stack:
        trainers = {depths: stack.enter_context(_opened(graph, config, task, names, depths)) for depths in SCHEDULES}
        seconds: dict[tuple[int, ...], list[float]] = {depths: [] for depths in SCHEDULES}
        last: dict[tuple[int, ...], Step] = {}
        for number in range(rounds + 1):
            for depths in SCHEDULES if number % 2 else reversed(SCHEDULES):
                begin = perf_counter()
                steps = list(trainers[depths].steps(number))
                if number:
                    seconds[depths].append((perf_counter() - begin) / len(steps))
                last[depths] = steps[-1]
        return {depths: _found(seconds, depths, trainers[depths], last[depths]) for depths in SCHEDULES}


def _opened(graph: Graph, config: TrainConfig, task: Task, names: str, depths: tuple[int, ...]) -> HybridTrainer:
    return open_hybrid(graph, config, task, Trainers(names, prefetch=depths).on(graph, config, task))


def _found(
    seconds: dict[tuple[int, ...], list[float]], depths: tuple[int, ...], trainer: HybridTrainer, last: Step
) -> Found:
    ratios = [own / serial for own, serial in zip(seconds[depths], seconds[SCHEDULES[0]], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return Found(statistics.median(seconds[depths]), (statistics.median(ratios), low, high), *recording(trainer, last))


def recording(trainer: HybridTrainer, step: Step) -> tuple[int, float]:
    """Returns how many spans are recorded of `step`, and the seconds of that and of its stage times, by one thread."""
    spans = [span for span in trainer.watch.spans if (span.epoch, span.batch) == (step.epoch, step.index)]
    watch = Watch([device.name for device in trainer.devices], limit_s=1.0)
    seconds = []
    for _ in range(_RECORDED):
        begin = perf_counter()
        for span in spans:
            with watch.at(span.stage, span.epoch, span.batch, span.trainer):
                pass
        times_of(trainer.devices, step.seconds, step.trainers, 0.0, trainer.schedule, 0.0)
        seconds.append(perf_counter() - begin)
    return len(spans), statistics.median(seconds)


def prefetch_table(name: str, names: str, rounds: int) -> Table:
    """Returns what was found on the graph `name` with the trainers `names`."""
    found = prefetch(Graph.load(spec_of(name)), Task(), TrainConfig().batch_size, names, rounds)
    table = Table(
        *("sampled, loaded, transferred ahead", "ms per mini-batch", "over 0,0,0", "recording, of a mini-batch"),
        title=f"{name}, {names} on {available_cores()} cores, {rounds} epochs of each in turns",
    )
    for depths, one in found.items():
        middle, low, high = one.ratio
        recording = f"{1e6 * one.recording_s:.0f} us by {one.spans} spans, {one.share:.2%}"
        table.add_row(_shown(depths), f"{1e3 * one.batch_s:.2f}", f"{middle:.2f} ({low:.2f} to {high:.2f})", recording)
    return table


def _shown(depths: Iterable[int]) -> str:
    return ",".join(map(str, depths))

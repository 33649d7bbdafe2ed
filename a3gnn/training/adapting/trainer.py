"""`AdaptingTrainer`: one trainer that adapts how mini-batches are prepared while it trains (`a3gnn train --adapt`)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from time import perf_counter
from typing import cast

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.measurement import Metrics
from a3gnn.option_names import option
from a3gnn.pipeline.adjustable import AdjustablePipeline, check_adjustable
from a3gnn.pipeline.pipeline import PipelineOptions
from a3gnn.pipeline.preparation import Preparation
from a3gnn.storage.host_limits import available_bytes, host_memory_bytes
from a3gnn.task import Task
from a3gnn.threads import pool
from a3gnn.training.adapting.preparing import CacheShrinker, Preparing, Room
from a3gnn.training.adapting.searching import Candidates, Searching
from a3gnn.training.adapting.stage_times import Adjusts, StageTimes
from a3gnn.training.step import Step
from a3gnn.training.trainer import Trainer, TrainerOptions


class AdaptingTrainer(Trainer):
    """A `Trainer` that changes workers, mode, depth and the cache's size between mini-batches.

    The trained weights are the same as with `Trainer`, bit for bit, whatever it changes and whenever.

    Args:
        graph: See `Trainer`.
        config: See `Trainer`; `resources` must be free.
        task: See `Trainer`.
        options: See `Trainer`. The cache shrinks if memory gets near `host_memory_limit`.
        expected: The tune's measurements of `config` on this machine and graph; None if unknown.
        controller: Decides the changes. By default `Searching`, which tries neighbors of the current preparation once
            a stage's time has drifted.
        device: See `Trainer`.

    Attributes:
        division: The changes so far.

    Raises:
        UsageError: `resources` is not free, or the graph is on graph servers.
    """

    def __init__(
        self,
        graph: Graph,
        config: TrainConfig,
        task: Task,
        options: TrainerOptions = TrainerOptions(),
        *,
        expected: Metrics | None = None,
        controller: Adjusts[Preparation] | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(graph, config, task, options, device=device)
        self._adjustable = pipeline = cast(AdjustablePipeline, self._pipeline)
        start, can_resize = pipeline.preparation, pipeline.can_resize
        self._whole, self._watched = host_memory_bytes(), start
        map_bytes = CACHE_INDEX_BYTES * graph.num_nodes
        self._watch = CacheShrinker(start, self._rooms, can_resize=can_resize, map_bytes=map_bytes)
        if controller is None:
            candidates = Candidates(start, pool.usable_cores(), can_resize=can_resize, fits=self._watch.fits)
            controller = Searching(candidates, None if expected is None else times_measured(expected))
        self.division: Preparing = Preparing(controller, start, self._watch)

    @property
    def choices(self) -> list[str]:
        """Like `Trainer.choices`, and one sentence for each change."""
        return super().choices + self.division.lines

    def steps(self, epoch: int, start: int = 0) -> Generator[Step, None, None]:
        """Trains `epoch` from mini-batch `start` on, and yields after each one; raises what `Trainer.steps` does."""
        self.division.drained()
        self._adjustable.preparation = self.division.current
        with closing(super().steps(epoch, start)) as steps:
            begin = perf_counter()
            for step in steps:
                self._observe(step, perf_counter() - begin)
                yield step
                begin = perf_counter()

    def _open_pipeline(self, options: PipelineOptions) -> AdjustablePipeline:
        return AdjustablePipeline(self.graph, self.config, self.config.fanouts(self.task), options)

    def _observe(self, step: Step, passed_s: float) -> None:
        """Records a mini-batch's times and memory, and sets the preparation of later ones."""
        pipeline, division = self._adjustable, self.division
        place = step.epoch + 1, step.index + 1
        if step.seeds == self.config.batch_size and pipeline.is_settled:
            division.observe(*place, pipeline.active, times_of(step, passed_s))
        else:
            division.at(*place)
        watch = self._watch
        watch.batch_bytes = max(watch.batch_bytes, _bytes_of(step, pipeline.store.row_bytes))
        if pipeline.active == division.current:
            if pipeline.active != self._watched:
                self._watched = pipeline.active
                self.memory.recent_bytes()  # resets the recent peak, which belongs to the previous preparation
            elif (found := watch.look(division.current)) is not None:
                division.change(*found)
        pipeline.preparation = division.current

    def _rooms(self) -> list[Room]:
        recent, available, limit = self.memory.recent_bytes(), available_bytes(), self.memory.limit
        limited = [] if limit is None else [Room(limit - recent, limit, "of the memory limit")]
        return [*limited, *([] if available is None else [Room(available, self._whole, "of the machine's memory")])]


def check_adapting(graph: Graph, config: TrainConfig, processes: int) -> None:
    """Checks that one trainer of `config` can adapt.

    Raises:
        UsageError: `resources` is not free, the graph is on graph servers, or several processes train.
    """
    if processes > 1:
        raise UsageError(
            f"{option('adapt')} must be left out with {processes} processes of torchrun. They wait for each other, "
            "so none can measure the gain of its own changes"
        )
    check_adjustable(graph, config)


def times_of(step: Step, passed_s: float) -> StageTimes:
    """Returns the stage times of a mini-batch, and `passed_s`, the time since the previous one."""
    seconds = step.seconds
    parts = seconds.sample, 0.0, seconds.gather, (seconds.transfer,), (seconds.train,)
    return StageTimes(("processor",), *parts, 0.0, passed_s)


def times_measured(metrics: Metrics) -> StageTimes:
    """Returns the times of the stages and of a whole mini-batch that a trial measured."""
    seconds, iteration = metrics.stage_seconds, 1 / (metrics.throughput_epochs_per_s * metrics.batches_per_epoch)
    parts = seconds.sample, 0.0, seconds.gather, (seconds.transfer,), (seconds.train,)
    return StageTimes(("processor",), *parts, 0.0, iteration)


def _bytes_of(step: Step, row_bytes: int) -> int:
    """Returns an upper bound of a mini-batch's memory: its feature rows, and 8 bytes per edge."""
    return step.input_nodes * row_bytes + 8 * step.sampled_edges

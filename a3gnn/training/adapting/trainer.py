"""`AdaptingTrainer`: one trainer whose cache follows the free memory while it trains (`a3gnn train --adapt`)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import cast

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.option_names import option
from a3gnn.pipeline.adjustable import AdjustablePipeline, check_adjustable
from a3gnn.pipeline.pipeline import PipelineOptions
from a3gnn.storage.host_limits import available_bytes, host_memory_bytes
from a3gnn.task import Task
from a3gnn.training.adapting.memory_watch import MemoryWatch, Room
from a3gnn.training.step import Step
from a3gnn.training.trainer import Trainer, TrainerOptions


class AdaptingTrainer(Trainer):
    """A `Trainer` that changes the cache's size between mini-batches.

    The trained weights are the same as with `Trainer`, bit for bit, whatever it changes and whenever.

    Args:
        graph: See `Trainer`.
        config: See `Trainer`; `resources` must be free.
        task: See `Trainer`.
        options: See `Trainer`. The cache shrinks if memory gets near `host_memory_limit`.
        device: See `Trainer`.

    Attributes:
        division: The cache's size and its changes so far.

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
        device: str = "cpu",
    ) -> None:
        super().__init__(graph, config, task, options, device=device)
        self._adjustable = pipeline = cast(AdjustablePipeline, self._pipeline)
        self._whole, self._watched = host_memory_bytes(), pipeline.cache_bytes
        map_bytes = CACHE_INDEX_BYTES * graph.num_nodes
        self.division: MemoryWatch = MemoryWatch(
            pipeline.cache_bytes, self._rooms, can_resize=pipeline.can_resize, map_bytes=map_bytes
        )

    @property
    def choices(self) -> list[str]:
        """Like `Trainer.choices`, and one sentence for each change."""
        return super().choices + self.division.lines

    def steps(self, epoch: int, start: int = 0) -> Generator[Step, None, None]:
        """Trains `epoch` from mini-batch `start` on, and yields after each one; raises what `Trainer.steps` does."""
        self._adjustable.cache_bytes = self.division.cache_bytes
        with closing(super().steps(epoch, start)) as steps:
            for step in steps:
                self._look(step)
                yield step

    def _open_pipeline(self, options: PipelineOptions) -> AdjustablePipeline:
        return AdjustablePipeline(self.graph, self.config, self.config.fanouts(self.task), options)

    def _look(self, step: Step) -> None:
        """Sets the cache's size of later mini-batches by the free memory."""
        pipeline, watch = self._adjustable, self.division
        if pipeline.active_bytes == watch.cache_bytes:
            if pipeline.active_bytes != self._watched:
                self._watched = pipeline.active_bytes
                self.memory.recent_bytes()  # resets the recent peak, which belongs to the previous cache
            else:
                watch.look(step.epoch + 1, step.index + 1)
        pipeline.cache_bytes = watch.cache_bytes

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
            f"{option('adapt')} must be left out with {processes} processes of torchrun. They share the machine's "
            "memory, so each would shrink its cache for the others"
        )
    check_adjustable(graph, config)

"""`AdaptingTrainer`: one trainer whose cache follows the free memory while it trains (`a3gnn train --adapt`)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import cast

from a3gnn.characteristics import CACHE_INDEX_BYTES
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.host_store import HostStore
from a3gnn.graphs.graph import Graph
from a3gnn.option_names import option
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.storage.host_limits import available_bytes, host_memory_bytes
from a3gnn.task import Task
from a3gnn.training.adapting.memory_watch import MemoryWatch, Room
from a3gnn.training.step import Step
from a3gnn.training.trainer import Trainer, TrainerOptions


class AdaptingTrainer(Trainer):
    """A `Trainer` that changes the cache's size between mini-batches.

    The trained weights are the same as with `Trainer`, bit for bit, whatever it changes and whenever.

    Args:
        config: See `Trainer`; `resources` must be free.
        options: See `Trainer`. The cache shrinks if memory gets near `host_memory_limit`.

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


class AdjustablePipeline(Pipeline):
    """A pipeline that resizes its cache once it has yielded the mini-batches already begun.

    Mini-batches stay bit-identical, whatever `cache_bytes` is set to and whenever. None is prepared twice: the workers
    finish what they began.

    Takes the arguments of `Pipeline`; `config` decides the first size.

    Attributes:
        cache_bytes: Upper limit of the cache for mini-batches that are not begun yet. The thread that draws
            mini-batches may set it at any time.
        active_bytes: The limit for the last mini-batch yielded.
        can_resize: Whether `cache_bytes` may change.

    Raises:
        UsageError: `resources` is not free, or the graph is on graph servers.
    """

    def __init__(self, graph: Graph, config: TrainConfig, fanouts: Sequence[int], options: PipelineOptions) -> None:
        check_adjustable(graph, config)
        super().__init__(graph, config, fanouts, options)
        self.cache_bytes = self.active_bytes = self._config.cache_bytes
        self.can_resize = has_free_cache(self._config) and isinstance(self.store, HostStore) and self.store.can_resize

    def _compete(self, epoch: int, planned: Iterable[PlannedBatch]) -> Generator[MiniBatch, None, None]:
        due = iter(planned)
        for first in due:
            self._resize()
            with closing(super()._compete(epoch, self._until_changed(first, due))) as batches:
                yield from batches

    def _until_changed(self, first: PlannedBatch, due: Iterator[PlannedBatch]) -> Iterator[PlannedBatch]:
        """Yields `first`, then mini-batches of `due` until `cache_bytes` changes."""
        yield first
        while self.cache_bytes == self.active_bytes and (planned := next(due, None)) is not None:
            yield planned

    def _resize(self) -> None:
        """Gives the cache its new size; no mini-batch may be under way."""
        if self.cache_bytes == self.active_bytes:
            return
        if not self.can_resize:
            raise UsageError(
                f"cache_bytes must stay {self.active_bytes}, got {self.cache_bytes}, because sampling prefers cached "
                "neighbors or the cache is on a device"
            )
        assert isinstance(self.store, HostStore), "others can't be resized"
        self.store.resize(self.cache_bytes)
        self.active_bytes = self.cache_bytes


def has_free_cache(config: TrainConfig) -> bool:
    """Returns whether the cache's size has no effect on the result of training (no sampling bias towards the cache)."""
    return bool(config.cache_bytes) and config.learning_key() == config.replace(cache_bytes=0).learning_key()


def check_adjustable(graph: Graph, config: TrainConfig) -> None:
    """Checks that the cache's size can change.

    Raises:
        UsageError: `resources` is not free, or the graph has node types or is on graph servers.
    """
    if graph.types is not None:
        raise UsageError(f"{option('adapt')} must be left out for a graph with node types, whose caches don't change")
    if config.canonical().resources != "free":
        raise UsageError(
            f"{option('resources')} must be free with {option('adapt')}, got {config.resources!r}, whose stages have "
            "cores of their own and don't stop for a cache that changes; choose one of them"
        )
    if graph.is_parted:
        raise UsageError(
            f"{option('dataset')} must be a graph on this machine's disk with {option('adapt')}, got parts on graph "
            f"servers; leave {option('adapt')} out"
        )

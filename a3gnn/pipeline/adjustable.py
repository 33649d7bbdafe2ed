"""`AdjustablePipeline`: a pipeline whose cache can change its size during an epoch."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.host_store import HostStore
from a3gnn.graphs.graph import Graph
from a3gnn.option_names import option
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.pipeline.plan import PlannedBatch


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

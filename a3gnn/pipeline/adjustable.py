"""`AdjustablePipeline`: a pipeline that can change workers, mode, depth and cache size during an epoch."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.features.host_store import HostStore
from a3gnn.graphs.graph import Graph
from a3gnn.option_names import option
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.pipeline.preparation import Preparation, has_free_cache
from a3gnn.threads.overlap_policy import OverlapOnce, Overlapped


class AdjustablePipeline(Pipeline):
    """A pipeline that switches to another `preparation` once it has yielded the mini-batches already begun.

    Mini-batches stay bit-identical, whatever `preparation` is set to and whenever. None is prepared twice: the old
    workers finish what they began. If the first preparation has workers, the pipeline measures once, at the beginning,
    whether they should overlap with training or alternate with it. Workers of other preparations always overlap.

    Takes the arguments of `Pipeline`; `config` decides the first preparation.

    Attributes:
        preparation: For mini-batches that are not begun yet. The thread that draws mini-batches may set it at any time.
        active: The preparation of the last mini-batch yielded.
        can_resize: Whether `cache_bytes` of a preparation may differ from the first one's.

    Raises:
        UsageError: `resources` is not free, or the graph is on graph servers.
    """

    def __init__(self, graph: Graph, config: TrainConfig, fanouts: Sequence[int], options: PipelineOptions) -> None:
        check_adjustable(graph, config)
        super().__init__(graph, config, fanouts, options)
        self.preparation = self.active = self._first = Preparation.of(self._config)
        self._overlap = self._measured = OverlapOnce(self._config.num_workers)
        self.can_resize = has_free_cache(self._config) and isinstance(self.store, HostStore) and self.store.can_resize

    @property
    def is_settled(self) -> bool:
        """Whether the comparison of overlapping and alternating is over; sequential mode needs none."""
        return self.active.mode == "sequential" or self._overlap.is_settled

    def _compete(self, epoch: int, planned: Iterable[PlannedBatch]) -> Generator[MiniBatch, None, None]:
        due = iter(planned)
        for first in due:
            self._enter(self.preparation)
            with closing(super()._compete(epoch, self._until_changed(first, due))) as batches:
                yield from batches

    def _until_changed(self, first: PlannedBatch, due: Iterator[PlannedBatch]) -> Iterator[PlannedBatch]:
        """Yields `first`, then mini-batches of `due` until `preparation` changes."""
        yield first
        while self.preparation == self.active and (planned := next(due, None)) is not None:
            yield planned

    def _enter(self, preparation: Preparation) -> None:
        """Switches to `preparation`; no mini-batch may be under way."""
        if preparation == self.active:
            return
        if preparation.cache_bytes != self.active.cache_bytes:
            if not self.can_resize:
                raise UsageError(
                    f"cache_bytes must stay {self.active.cache_bytes}, got {preparation.cache_bytes}, because "
                    "sampling prefers cached neighbors or the cache is on a device"
                )
            assert isinstance(self.store, HostStore), "others can't be resized"
            self.store.resize(preparation.cache_bytes)
        self._config = self._config.replace(parallel_mode=preparation.mode, num_workers=max(1, preparation.workers))
        self._depth = preparation.depth
        self._stages.keep_buffers(preparation.depth + 2)
        is_first = replace(preparation, cache_bytes=self._first.cache_bytes) == self._first
        self._overlap = self._measured if is_first else Overlapped()
        self.active = preparation


def check_adjustable(graph: Graph, config: TrainConfig) -> None:
    """Checks that the preparation of mini-batches can change.

    Raises:
        UsageError: `resources` is not free, or the graph is on graph servers.
    """
    if config.canonical().resources != "free":
        raise UsageError(
            f"{option('resources')} must be free with {option('adapt')}, got {config.resources!r}, which assigns "
            "threads once by its own model; choose one of them"
        )
    if graph.is_parted:
        raise UsageError(
            f"{option('dataset')} must be a graph on this machine's disk with {option('adapt')}, got parts on graph "
            f"servers; leave {option('adapt')} out"
        )

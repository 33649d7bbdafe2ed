"""`Pipeline`: prepares the mini-batches of an epoch, sequentially or in A3GNN's parallel modes (section III-B)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from time import perf_counter
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.config import AHEAD, DEVICES, DeviceName, Resources, TrainConfig
from a3gnn.errors import ConfigError, DeviceError, UsageError
from a3gnn.features.buffers import BufferPool
from a3gnn.features.opening import is_on_disk, open_features
from a3gnn.features.row_table import Aggregator, input_width
from a3gnn.features.store import FeatureStore
from a3gnn.features.typed_store import FeaturesOfTypes, TypedStore
from a3gnn.graphs.edges import Edges
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import as_classes
from a3gnn.graphs.partition import partition, restrict_to_parts
from a3gnn.knobs import ALL, ALL_TEXT
from a3gnn.measurement import StageSeconds
from a3gnn.parts.graph import PartedGraph, check_over_parts
from a3gnn.parts.remote import PartedSampler, open_store, warm_up
from a3gnn.pipeline.allocate import Allocation
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.device_sampler import DeviceSampler
from a3gnn.pipeline.divided import DividedStages, Dividing, most_held
from a3gnn.pipeline.hyperbatches import Hyperbatches
from a3gnn.pipeline.isolation import Isolation
from a3gnn.pipeline.pairs import PairSeeds
from a3gnn.pipeline.plan import PlannedBatch, count_batches, epoch_plan
from a3gnn.pipeline.proximity import ProximityOrder
from a3gnn.pipeline.stages import DeferredStages, SampledBatch, Stages
from a3gnn.sampling.sampler import Fanout, Sampler
from a3gnn.sampling.share import CutSampler, Shares
from a3gnn.sampling.subgraph import AnySampler, Subgraph
from a3gnn.sampling.whole import LayerRows, WholeGraph
from a3gnn.threads import pool
from a3gnn.threads.ordered_map import ordered_map
from a3gnn.threads.overlap_policy import OverlapPolicy

_PARTITION_SEED = 0  # partitions are a property of the graph: runs of any seed share the stored ones


@dataclass(frozen=True, slots=True, eq=False)
class PipelineOptions:
    """Further options of a `Pipeline`, besides its graph, configuration and fanouts.

    Attributes:
        seed: Decides the order of seeds and the sampled neighbors.
        device: Where mini-batches are trained: cpu or cuda.
        reuse_buffers: If True, a mini-batch's `x` is overwritten once the next one is requested. If False, its memory
            is reused only after no tensor uses it any more.
        input_nodes: Seeds, int32, distinct; the train nodes by default.
        shuffle: Whether to shuffle seeds, anew for every epoch.
        aggregator: The aggregator of the model's input layer. If the host can apply it while gathering, mini-batches
            contain the aggregates (see `MiniBatch.aggregator`); otherwise they contain the features.
        table: The result of `aggregator` over each node's whole in-neighborhood, as memory maps, for input_aggregation
            full. Its rows are read in place of features, and the last hop of `fanouts` is not sampled.
        dtype: Type of dense features or aggregates: float32 or bfloat16. Sparse ones are float32.
        resources: Overrides the configuration's `resources`: an allocation, auto or free.
        edges: Edges to sample in place of the graph's, on the host; mini-batches then contain edge ids.
        features: The features of each type of `edges`, in place of the graph's; None where there are no types.
        replace: Whether to sample `edges` with replacement.
        disjoint: Whether each seed has a tree of its own among `edges`.
        last: Whether to draw among the latest edges, where `edges` have times (`Sampler`).
        shares: Which share of each mini-batch to return, or how to divide each (`device` is then ignored). None returns
            whole mini-batches.
        deferred: Whether mini-batches come without features and labels, which `Pipeline.read` adds.
        edge_values: Values of the graph's edges by name (`EDGE_VALUES`), which mini-batches then contain.
        pairs: Makes seeds of pairs: `input_nodes` and the graph's split are numbers of pairs then. None for nodes.
        rows: The nodes that layers compute if the whole graph is the mini-batch; None if it can't be.
    """

    seed: int
    device: str = "cpu"
    reuse_buffers: bool = True
    input_nodes: NDArray[np.int32] | None = None
    shuffle: bool = True
    aggregator: Aggregator | None = None
    table: DenseFeatures | SparseFeatures | None = None
    dtype: torch.dtype = torch.float32
    resources: Resources | Allocation | None = None
    edges: Edges | None = None
    features: FeaturesOfTypes | None = None
    replace: bool = False
    disjoint: bool = False
    last: bool = False
    shares: Shares | Dividing | None = None
    deferred: bool = False
    edge_values: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    pairs: PairSeeds | None = None
    rows: LayerRows | None = None


class Pipeline:
    """Samples, gathers and moves mini-batches as a configuration says; a context manager.

    If `batch_size` is `ALL`, the whole graph is the only mini-batch. It is made once, and returned in every epoch.

    * sequential: one stage after the other, when the next mini-batch is asked for.
    * mode1: `num_workers` threads sample and gather; as many mini-batches wait or are under way.
    * mode2: the threads only sample. The caller's thread gathers, so only one mini-batch's features are in memory.

    All modes return bit-identical mini-batches. The pipeline measures whether workers and training should use the cores
    at once or alternately (`OverlapPolicy`). Parts are trained one after the other, without overlap between them.

    Args:
        graph: Provides seeds, neighbors, features and labels.
        config: Every knob matters.
        fanouts: In-neighbors sampled per node, the seeds' hop first; -1 takes all.
        options: Seeds, device, and further options.

    Attributes:
        store: Serves features.
        sampler: Samples ids.
        isolation: Assigns threads and cores to the stages; None if they compete for cores.
        num_batches: Mini-batches per epoch.
        on_worker_start: Called by each worker thread when an epoch begins, if stages compete for cores.

    Raises:
        DeviceError: A requested device does not exist.
        ConfigError: The whole graph can't be the mini-batch.
        UsageError: The device is neither cpu nor cuda, proximity order is combined with `shuffle=False`, the table for
            input_aggregation full is missing, or an option is not available for a graph in parts.
    """

    def __init__(
        self,
        graph: Graph,
        config: TrainConfig,
        fanouts: Sequence[Fanout],
        options: PipelineOptions,
    ) -> None:
        shares, table = options.shares, options.table
        parts = len(shares.send) if isinstance(shares, Dividing) else 0
        device = checked_device("cpu" if parts else options.device, config.sampling_device)
        fanouts = fanouts if table is None else fanouts[:-1]
        self._config, self._options = config.canonical(), options
        if graph.is_parted:
            check_over_parts(config)
        if graph.types is not None:
            check_with_types(config)
        if config.batch_size == ALL and (options.rows is None or shares is not None):
            raise ConfigError(
                f"batch_size {ALL_TEXT} needs a built-in model and one trainer, got a loop of your own or several "
                "trainers; set batch_size to a number such as 1024"
            )
        self._seeds = graph.train_ids if options.input_nodes is None else options.input_nodes
        self._parts: NDArray[np.int32] | None = None
        adjacency = graph.indptr, graph.indices
        if config.num_partitions > 1:
            graph = graph.on_disk()
            self._parts = partition(graph, config.num_partitions, _PARTITION_SEED, config.partitioner)
            adjacency = restrict_to_parts(graph, self._parts)
        self.num_batches = count_batches(self._seeds, config.batch_size, self._parts)
        self._order = self._proximity(graph, *adjacency)
        self._graph = graph
        self._device, self._fanouts = device, fanouts
        self.store, self.sampler = self._open_sources(graph, adjacency)
        self._stages = self._open_stages()
        self._overlap = OverlapPolicy(config.num_workers)
        self.on_worker_start: Callable[[], None] | None = None
        given = self._config.resources if options.resources is None else options.resources
        self.isolation = None if given == "free" else Isolation(self._stages, self._config, given, self.store.row_bytes)
        self._epochs: WeakSet[Generator[MiniBatch, None, None]] = WeakSet()
        self._kept: MiniBatch | None = None

    def _open_stages(self) -> Stages:
        options, store = self._options, self.store
        shares, tabled, aggregator = options.shares, options.table is not None, options.aggregator
        # gcn weighs rows by degrees within the rows it reads, but a share needs the degrees of the whole mini-batch.
        if not (tabled or (store.can_aggregate and (shares is None or aggregator != "gcn"))):
            aggregator = None
        buffers = None
        if not store.is_sparse and self._device == "cpu" and options.features is None and not options.deferred:
            width = input_width(None if tabled else aggregator, store.num_features)
            buffers = BufferPool(width, spare=most_held(self._config, shares), dtype=options.dtype)
        sampler = CutSampler(self.sampler, shares) if isinstance(shares, Shares) else self.sampler
        reading = not options.reuse_buffers, aggregator, tabled, options.dtype, options.edge_values
        made = sampler, store, self._graph.labels, self._device, buffers, *reading
        if isinstance(shares, Dividing):
            return DividedStages(*made, dividing=shares)
        return (DeferredStages if options.deferred else Stages)(*made, pairs=options.pairs)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[MiniBatch]:
        """Returns the mini-batches of `epoch` in order, beginning with index `start`.

        A worker's exception is raised at once, with its traceback. Closing the iterator, or leaving its loop, ends
        every thread. Each mini-batch depends only on the seed, `epoch` and its index.

        Raises:
            UsageError: `epoch` or `start` is negative.
        """
        if epoch < 0 or start < 0:
            raise UsageError(f"epoch and start must be >= 0, got {epoch} and {start}")
        return self.load(epoch, self.plan(epoch)[start:])

    def load(self, epoch: int, planned: Iterable[PlannedBatch]) -> Iterator[MiniBatch]:
        """Returns the mini-batches `planned`, in order, sampled as part of `epoch`; see `epoch`."""
        batches = (self._whole if self._config.batch_size == ALL else self._batches)(epoch, planned)
        self._epochs.add(batches)
        return batches

    def plan(self, epoch: int) -> list[PlannedBatch]:
        """Returns the seeds of each mini-batch of `epoch`, in order."""
        return epoch_plan(
            self._seeds,
            self._config.batch_size,
            self._options.seed,
            epoch,
            self._parts,
            shuffle=self._options.shuffle,
            order=self._order,
        )

    def read(self, batch: MiniBatch, subgraph: Subgraph) -> MiniBatch:
        """Returns the part `subgraph` of a deferred `batch`, or all of it, with features and labels."""
        assert isinstance(self._stages, DeferredStages)
        return self._stages.read(batch, subgraph)

    @property
    def reads_table(self) -> bool:
        """Whether mini-batches contain rows of a table, and lack the input layer's hop."""
        return self._options.table is not None

    def features_to_disk(self) -> bool:
        """Reads features from disk from now on, if a copy of them is in memory; returns whether that frees memory.

        Only deferred mini-batches may be under way, because no thread may read during the call.
        """
        graph, config = self._graph, self._config
        fixed = self.reads_table or config.cache_bytes or self._parts is not None
        of_types = [one for one in self._options.features or () if one is not None]
        if config.feature_tier == "disk" or fixed or not (graph.folder or any(map(is_on_disk, of_types))):
            return False
        self._config = config.replace(feature_tier="disk")
        self.store = self._stages.store = self._open_store(graph)
        return True

    def first_samples(self, count: int) -> list[Subgraph]:
        """Returns the samples of the first `count` mini-batches of epoch 0, or of all if it has fewer."""
        return [self._stages.sample(0, planned).subgraph.sampled for planned in self.plan(0)[:count]]

    def close(self) -> None:
        """Ends every epoch that is under way, and its threads."""
        for batches in list(self._epochs):
            batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _batches(self, epoch: int, planned: Iterable[PlannedBatch]) -> Generator[MiniBatch, None, None]:
        for part, members in groupby(planned, key=lambda batch: batch.part):
            self.store.enter_part(part)
            run = self._compete if self.isolation is None else partial(self.isolation.batches, compete=self._compete)
            hyperbatches = Hyperbatches(self._stages, self._config, self.num_batches)
            with closing(hyperbatches.batches(epoch, members)) as due, closing(run(epoch, due)) as batches:
                for batch in batches:
                    self._stages.arrive(batch)
                    yield batch
                    self._stages.release(batch)
                    hyperbatches.done += 1

    def _whole(self, epoch: int, planned: Iterable[PlannedBatch]) -> Generator[MiniBatch, None, None]:
        """Yields the whole graph for each of `planned`, at most one; the first epoch makes it."""
        for one in planned:
            if self._kept is None:
                kept = self._stages.complete(epoch, one)
                self._stages.arrive(kept)
                self._kept = dataclasses.replace(kept, y=kept.y[: len(one.seeds)], kept=True)
            else:
                self._kept.epoch, self._kept.arrival, self._kept.seconds = epoch, None, StageSeconds(0.0, 0.0, 0.0, 0.0)
            yield self._kept

    def _compete(self, epoch: int, planned: Iterable[PlannedBatch]) -> Generator[MiniBatch, None, None]:
        stages, mode = self._stages, self._config.parallel_mode
        if isinstance(stages, DividedStages) and stages.depths is not None:
            return stages.prefetched(epoch, planned, stages.depths)
        if mode == "sequential":
            return (stages.complete(epoch, batch) for batch in planned)
        return self._overlapped(partial(stages.complete if mode == "mode1" else stages.sample, epoch), planned)

    def _overlapped(
        self, work: Callable[[PlannedBatch], MiniBatch | SampledBatch], planned: Iterable[PlannedBatch]
    ) -> Generator[MiniBatch, None, None]:
        stages, overlap = self._stages, self._overlap

        def on_worker(due: tuple[PlannedBatch, bool]) -> MiniBatch | SampledBatch:
            batch, beside_training = due
            with pool.limited(1 if beside_training else pool.usable_cores()):
                return work(batch)

        due = ((batch, overlap.overlapped) for batch in planned)
        threads = self._config.num_workers, lambda: overlap.overlapped, self.on_worker_start
        with closing(ordered_map(on_worker, due, *threads)) as results:  # a traceback keeps this frame, and workers
            last: float | None = None
            for result in results:
                yield stages.gather(result) if isinstance(result, SampledBatch) else result
                now = perf_counter()
                if last is not None:
                    overlap.count(now - last)
                last = now

    def _open_sources(
        self, graph: Graph, adjacency: tuple[NDArray[np.int64], NDArray[np.int32]]
    ) -> tuple[FeatureStore, AnySampler]:
        """Returns the feature store and the sampler; for a graph in parts, both query its servers.

        Args:
            graph: The graph.
            adjacency: Its in-neighbors as CSR, indptr and indices, within parts.

        Raises:
            UsageError: See `open_features`; or servers don't support `options.edges`.
            GraphServerError: A graph server can't be reached, or refuses.
        """
        config, options, parts, fanouts = self._config, self._options, self._parts, self._fanouts
        seed, edges = options.seed, options.edges
        if isinstance(graph, PartedGraph):
            if edges is not None:
                raise UsageError(
                    "graph servers sample distinct in-neighbors of distinct seeds. Leave out replace, disjoint, an "
                    "induced subgraph, repeated seeds and your own order of seeds"
                )
            warm_up()
            return open_store(graph, config), PartedSampler(graph, fanouts, seed=seed)
        if options.edge_values and config.sampling_device == "cuda":
            raise UsageError(
                f"sampling_device must be cpu for a model that reads {' and '.join(options.edge_values)}, got cuda, "
                "which samples without the places of edges"
            )
        if edges is None and not options.edge_values:
            edges = Edges(*adjacency)
        elif edges is None:
            edges = graph.placed_edges if parts is None else graph.placed_edges.within(parts)
        elif parts is not None:
            edges = edges.within(parts)
        store = self._open_store(graph)
        if options.rows is not None and config.batch_size == ALL:
            return store, WholeGraph(edges, self._seeds, len(fanouts), options.rows)
        return store, open_sampler(edges, fanouts, config, options, store.cached)

    def _open_store(self, graph: Graph) -> FeatureStore:
        config, options = self._config, self._options
        if options.features is None:
            fanouts, table = self._fanouts, options.table
            return open_features(graph, config, self._parts, self._device, fanouts=fanouts, table=table)
        assert options.edges is not None, "features of types belong to edges with types"
        spare = None if options.deferred else most_held(config, None)
        return TypedStore.open(options.features, options.edges, config, self._device, spare)

    def _proximity(self, graph: Graph, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> ProximityOrder | None:
        if self._config.seed_order == "random":
            return None
        if not self._options.shuffle:
            raise UsageError(
                "seed_order proximity needs shuffle=True, got shuffle=False, which keeps the seeds' order; leave "
                "one of them out"
            )
        size = self._config.batch_size
        labels, classes = as_classes(graph.labels, graph.num_classes)
        return ProximityOrder(indptr, indices, labels, classes, self._seeds, size, self._options.seed, self._parts)


def open_sampler(
    edges: Edges, fanouts: Sequence[Fanout], config: TrainConfig, options: PipelineOptions, cached: NDArray[np.int32]
) -> AnySampler:
    """Returns a sampler of `edges`, on the host if they are `options.edges`, else on `config.sampling_device`.

    Args:
        edges: In-neighbors, within parts.
        fanouts: In-neighbors sampled per node, the seeds' hop first; -1 takes all.
        config: Its `bias_rate` and `sampling_device` are used.
        options: Its `seed`, `replace`, `disjoint` and `last` are used.
        cached: Ids of cached nodes.
    """
    mask = np.zeros(edges.num_nodes, dtype=np.bool_)
    mask[cached] = True
    rate, seed = config.bias_rate, options.seed
    if config.sampling_device == "cuda" and options.edges is None:
        return DeviceSampler(edges, fanouts, seed=seed, bias_rate=rate, cached=mask, device="cuda")
    how = {"replace": options.replace, "disjoint": options.disjoint, "last": options.last}
    return Sampler(edges, fanouts, seed=seed, bias_rate=rate, cached=mask, **how)


def check_with_types(config: TrainConfig) -> None:
    """Checks that `config` can be used on a graph with node types.

    Raises:
        ConfigError: A value can't; the message contains the remedy.
    """
    given, plain = config.canonical(), TrainConfig()
    if given.cache_policy == AHEAD:
        raise ConfigError("cache_policy must be degree on a graph with node types, got ahead; leave it out")
    for name in ("num_partitions", "seed_order", "sampling_device", "trainers"):
        if (got := getattr(given, name)) != (value := getattr(plain, name)):
            raise ConfigError(f"{name} must be {value} on a graph with node types, got {got}; leave it out")


def checked_device(device: Any, sampling_device: DeviceName = "cpu") -> str:
    """Returns `device` as text: cpu, or cuda with its number if it has one.

    Args:
        device: A string or a `torch.device`.
        sampling_device: Where neighbors are sampled; checked too.

    Raises:
        UsageError: Mini-batches can't be on such a device.
        DeviceError: The device does not exist.
    """
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise UsageError(f"device must be cpu or cuda, got {device!r}") from error
    if found.type not in DEVICES:
        raise UsageError(f"device must be cpu or cuda, got {device!r}; leave it out, and move mini-batches yourself")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for name, kind in (("sampling_device", sampling_device), ("device", found.type)):
        if kind == "cuda" and not count:
            raise DeviceError(f"{name} is cuda, but torch finds no CUDA device here; use cpu or a machine with a GPU")
    if found.type == "cuda" and (found.index or 0) >= count:
        raise DeviceError(f"device must be cuda:0 to cuda:{count - 1} here, got {device!r}")
    return "cpu" if found.type == "cpu" else str(found)

"""`Loader`: mini-batches for the user's own training loop, in the form of PyG's `NeighborLoader`."""

from __future__ import annotations

import inspect
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import replace as changed
from itertools import islice
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import Module
from torch.utils.data import DataLoader
from torch_geometric.loader import NeighborLoader

from a3gnn.checks import checked_limit, flag, whole_number
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError, unknown_name
from a3gnn.graphs.as_graph import is_data
from a3gnn.loader.arguments import (
    ConfigLike,
    LoaderArguments,
    check_together,
    check_typed,
    edges_of,
    fanouts_of,
    loader_config,
    scaled,
)
from a3gnn.loader.full_table import table_for
from a3gnn.loader.limited import LimitedBatches, check_limited, check_table, placed
from a3gnn.loader.pyg_attributes import store_of
from a3gnn.loader.pyg_batch import PygBatches
from a3gnn.loader.pyg_source import Source, data_of, opened, read_x, source_of, state_of
from a3gnn.loader.seeds import InputNodes, SeedFields, SeedPlan
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.pipeline.pyg_edges import subgraph_type_of
from a3gnn.sampling.sampler import Fanout
from a3gnn.sampling.share import Shares
from a3gnn.threads import affinity

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike


# These configure PyG's edges and processes and don't change a mini-batch. As in PyG, the loader always uses its own
# dataset and collate_fn.
_HINTS = (
    "collate_fn",
    "dataset",
    "filter_per_worker",
    "is_sorted",
    "persistent_workers",
    "pin_memory",
    "pin_memory_device",
    "prefetch_factor",
)
# Epoch that keys the random numbers of mini-batches from `Loader.__call__`; training never reaches it.
_CALLS = 2**64 - 1


class Supported(NamedTuple):
    """An argument that would change a mini-batch: its only supported value, and the remedy."""

    only: Any
    remedy: str


_UNSUPPORTED = {
    "transform_sampler_output": Supported(None, "use transform, which takes the whole mini-batch"),
    "neighbor_sampler": Supported(None, "a3gnn has its own sampler; use PyG's NeighborLoader for another"),
    "generator": Supported(None, "give seed, an integer, instead"),
    "worker_init_fn": Supported(None, "workers are threads that need no start-up"),
    "multiprocessing_context": Supported(None, "workers are threads, not processes"),
    "timeout": Supported(0, "workers are threads, and their errors arrive at once"),
    "in_order": Supported(True, "mini-batches arrive in order with any number of workers"),
}


class EpochIterator:
    """Iterates over mini-batches; dropping or closing it ends every thread.

    Args:
        batches: The mini-batches.
        pinned: Gives workers their cores. With it, the workers start at once, so that callers can inspect them.
            Without it, nothing starts before the first mini-batch is requested.
    """

    def __init__(self, batches: Generator[Any, None, None], pinned: WorkerCores | None) -> None:
        self._batches = batches
        self._pinned = pinned
        self._ahead = list(islice(batches, 0 if pinned is None else 1))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._ahead.pop() if self._ahead else next(self._batches)

    def close(self) -> None:
        """Ends the epoch and its threads."""
        self._batches.close()

    @property
    def _workers(self) -> list[LoaderThread]:
        """The workers that have started, under the attribute name of torch's iterators."""
        return [] if self._pinned is None else self._pinned.workers


class Fanouts:
    """`Loader.node_sampler`: the part of PyG's `NeighborSampler` that `model.inference(loader)` reads."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    @property
    def num_neighbors(self) -> list[int]:
        """The fanouts.

        Raises:
            UsageError: Inference with this loader would give rows of other nodes, or of some in-neighbors only.
        """
        fault = self._loader._inference_fault()
        if fault is not None:
            raise UsageError(
                "model.inference(loader) needs all nodes in order with all in-neighbors of one hop, "
                f"got {fault}; give it Loader(data, [-1])"
            )
        return [-1]


class SeedLoader(NeighborLoader):  # type: ignore[misc]  # PyG's classes have no types
    """A `DataLoader` with torch's public attributes: dataset, sampler, sizes and workers. Subclasses iterate.

    It is a `NeighborLoader` by name alone, which PyG's `model.inference(loader)` asks for.

    Args:
        num_seeds: Length of `dataset`.
        asked: Its order and `drop_last` are used.
        config: Its `batch_size` and workers are used.
    """

    def __init__(self, num_seeds: int, asked: LoaderArguments, config: TrainConfig) -> None:
        places: Any = range(num_seeds)
        if asked.batch_sampler is not None:
            DataLoader.__init__(self, places, batch_sampler=asked.batch_sampler)
        else:
            size, shuffle = config.batch_size, asked.shuffle
            DataLoader.__init__(self, places, size, shuffle, sampler=asked.sampler, drop_last=asked.drop_last)
        # Set here and not passed to torch, which would take them for processes.
        self.num_workers = 0 if config.parallel_mode == "sequential" else config.num_workers
        del self.collate_fn  # torch's, which would hide the subclass's

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Loader(SeedLoader):
    """Iterates over mini-batches with the arguments of PyG's `NeighborLoader`; each `iter` starts the next epoch.

    A mini-batch of a `Data` or `HeteroData` has the same class. It contains node attributes selected by n_id, edge
    attributes selected by e_id, and graph attributes unchanged. It also has edge_index (or adj_t), n_id, e_id,
    batch_size and input_id. A directional subgraph adds num_sampled_nodes and num_sampled_edges (for `trim_to_layer`).
    The first `batch_size` nodes are the seeds. Where there are types, each type of nodes and edges has its own; types
    without nodes and relations without edges are there, too. A mini-batch of an a3gnn graph has x and y, and no e_id. x
    of float16 or bfloat16 is converted to float32, which PyG's layers take.

    Arguments take precedence over `config`, which sets the other knobs, such as cache and tier. Fanouts are the
    exception: `seed_fanout` and `deep_fanout` of `config` override `num_neighbors`, as they override a task's fanouts.
    `TunedConfig.apply` applies the knobs of the model and the optimizer. With `input_aggregation` full, `x` holds rows
    of a table, which only an accelerated model's first layer can read.

    A loader can be copied and pickled, for example for `torch.multiprocessing.spawn`. The copy continues with the next
    epoch. A graph on disk is opened again from its folder; other data is pickled with the loader.

    Examples:
        >>> loader = Loader(data, num_neighbors=[25, 10], input_nodes=data.train_mask, batch_size=1024, shuffle=True)
        >>> for batch in loader:
        ...     out = model(batch.x, batch.edge_index)[: batch.batch_size]
        ...     loss = criterion(out, batch.y[: batch.batch_size])

    Args:
        data: A PyG `Data`, `HeteroData` or `TemporalData`, a pair of PyG's `FeatureStore` and `GraphStore`, a graph,
            or a file, folder or name of one of them.
        num_neighbors: In-neighbors sampled per node, one number per hop, the seeds' hop first; -1 takes all. Where
            there are types, each relation takes as many; a mapping gives each relation's own list. 0 takes none there.
        input_nodes: Seeds: node ids, or a bool mask over the nodes; None takes all nodes. Where there are types, a type
            or (type, nodes).
        input_time: The time of each seed, with `time_attr`; by default that of its node.
        replace: Whether an in-neighbor may be drawn more than once.
        subgraph_type: directional has the sampled edges; bidirectional adds their reverses; induced has all edges
            between the sampled nodes.
        disjoint: Whether each seed has its own nodes; `batch` then maps each node to its seed.
        temporal_strategy: uniform draws among all edges that a seed may see; last among the latest. Equal times rank
            by their place in the list of edges.
        time_attr: Attribute of nodes or edges with their times, numbers. Each seed then has its own nodes, as with
            `disjoint`, and sees edges up to its own time, that time included, as in PyG. With times of nodes, an edge
            has its source's. Relations from types without times are not bounded.
        weight_attr: Edge attribute with sampling weights, numbers >= 0.
        transform: Called with each `Data`; its result replaces the `Data`.
        transform_sampler_output: Refused; `transform` takes the whole mini-batch.
        is_sorted: Ignored: the order of edges is detected.
        filter_per_worker: Ignored.
        neighbor_sampler: Refused.
        directed: PyG's older option; False means an induced subgraph.
        input_id: Integers that `input_id` reports, one per entry of `input_nodes`. By default the entry's place, or its
            node id for a mask.
        custom_cls: Class of the mini-batches of a pair of stores.
        batch_size: Seeds per mini-batch; by default `config`'s, or 1,024 without a `config`.
        shuffle: Whether seeds are shuffled anew for every epoch.
        drop_last: Whether a last mini-batch with fewer seeds is dropped; needs one partition.
        num_workers: Threads that load ahead, in `config`'s parallel mode, or mode1 if that is sequential. 0 loads on
            demand. By default `config`'s.
        sampler: Yields places in `input_nodes`; replaces `shuffle`.
        batch_sampler: Yields lists of places in `input_nodes`; replaces `batch_size`, `shuffle` and `drop_last`.
        seed: Determines order and neighbors, independently of torch's generator.
        device: Device of the mini-batches' tensors: cuda or cpu. With cpu, tensors of a `Data` on a GPU stay there.
        adjs: Whether each `Data` also has `adjs`: every layer's adjacency, input layer first, sparse CSR with int64
            indices, shape (num_dst, num_src). PyG's convolutions are faster with it:
            `conv((x, x[: adj.size(0)]), adj)`.
        share: (rank, ranks): loads this process's share of each mini-batch (docs/howto/distributed.md). None loads all.
        config: The other knobs: a configuration, a dict, a path of a tuned.json or its folder, or the result of a tune.
        memory_limit: Most memory of this process that the system can't reclaim: bytes, or text such as "4GiB". Each
            mini-batch then has `shares()`, an iterator over parts of it that keep the limit, and `seed_share`
            (docs/howto/own_loop.md). None sets no limit.
        model: The model of the loop, for `memory_limit`: shares then suit it from the first one on.
        others: Other arguments of NeighborLoader and `DataLoader`; unsupported values are refused.

    Attributes:
        limited: Counts of mini-batches, shares and memory with `memory_limit`; else None.

    Raises:
        UsageError: An argument is out of range or is not supported.
        GraphError: `data` is not valid.
        DeviceError: The device is not available.
        MemoryLimitError: `memory_limit` is below the memory in use.
        ConfigError: The tuned.json is missing, broken or foreign, or a knob has an invalid value.
    """

    def __init__(
        self,
        data: GraphLike,
        num_neighbors: Sequence[int],
        input_nodes: Any = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Any = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        input_id: Any = None,
        custom_cls: Any = None,
        batch_size: int | None = None,
        shuffle: bool | None = False,
        drop_last: bool = False,
        num_workers: int | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        seed: int = 0,
        device: str = "cpu",
        adjs: bool = False,
        share: tuple[int, int] | None = None,
        config: ConfigLike | None = None,
        memory_limit: str | int | None = None,
        model: Module | None = None,
        **others: Any,  # PyG's further arguments, which `check_arguments` refuses or ignores by name
    ) -> None:
        given = arguments_in(locals())
        others |= {"transform_sampler_output": transform_sampler_output, "neighbor_sampler": neighbor_sampler}
        check_arguments(others, type(self))
        seed = whole_number("seed", seed, 0)
        if transform is not None and not callable(transform):
            raise UsageError(f"transform must take a mini-batch and return another, got {transform!r}")
        asked = LoaderArguments(
            replace=flag("replace", replace),
            disjoint=flag("disjoint", disjoint) or time_attr is not None,
            subgraph_type=subgraph_type_of(subgraph_type, directed),
            weight_attr=weight_attr,
            adjs=flag("adjs", adjs),
            shuffle=shuffle is not None and flag("shuffle", shuffle),  # None is torch's default
            drop_last=flag("drop_last", drop_last),
            sampler=sampler,
            batch_sampler=batch_sampler,
            share=share,
        )
        limit = checked_limit("memory_limit", memory_limit)
        held = loader_config(config, batch_size, num_workers)
        config = held.config
        check_together(asked, config, batch_size)
        if temporal_strategy not in ("uniform", "last"):
            raise unknown_name("temporal_strategy", temporal_strategy, ("uniform", "last"))
        if temporal_strategy == "last" and time_attr is None:
            raise UsageError("temporal_strategy 'last' needs time_attr, which names the times")
        data = opened(data)
        source = source_of(data, weight_attr, custom_cls, time_attr)
        fanouts = self._checked_fanouts(num_neighbors, source, config)
        check_typed(source, asked, config)
        if limit is not None:
            source, config = placed(source, config, limit, is_own=isinstance(given["data"], str | os.PathLike))
            held = held._replace(config=config)
        table = table_for(data, source, asked, held, device)
        if limit is not None:
            check_table(table, model)
        self._inputs = self._checked_inputs(source, input_nodes, input_id, input_time, asked, seed)
        super().__init__(len(self._inputs.nodes), asked, config)
        self.data, self.input_nodes, self.transform = data, input_nodes, transform
        self._pipeline = Pipeline(
            source.graph,
            config,
            fanouts,
            PipelineOptions(
                seed=seed,
                device=device,
                reuse_buffers=False,
                input_nodes=self._inputs.nodes,
                shuffle=asked.shuffle,
                aggregator=table.aggregator,
                table=table.rows,
                dtype=table.dtype,
                edges=edges_of(source, asked, config, self._inputs),
                features=source.of_types,
                replace=asked.replace,
                disjoint=asked.disjoint,
                last=temporal_strategy == "last",
                shares=None if share is None else Shares.equal(*share),
                deferred=limit is not None,
            ),
        )
        order = None if sampler is None and batch_sampler is None else self.batch_sampler
        self._plan = SeedPlan(self._inputs, config.batch_size, seed, shuffle=asked.shuffle, order=order)
        self._by_place = order is not None or self._inputs.by_place
        self._single_part = config.num_partitions == 1
        self._asked, self._fanouts = asked, fanouts
        self._as_data = PygBatches(
            source, asked.subgraph_type, self._pipeline.sampler, str(device), adjs=asked.adjs, degrees=table.degrees
        )
        self._epoch = self._calls = 0
        self._cores: list[frozenset[int]] = []
        # Arguments for a copy. They hold the configuration itself, whose file may change, and a copy of `data`, whose
        # attributes may be deleted later.
        self._given = given | {"data": data_of(data, source), "config": held, "batch_size": None, "num_workers": None}
        self._given["model"] = None  # it need not be picklable
        self._x, self._num_nodes = read_x(data, source), source.graph.num_nodes
        self._x_states = {kind: state_of(x) for kind, x in self._x.items()}
        self.limited = None if limit is None else self._within(limit, asked, device, model)
        self._own = frozenset(self.__dict__) | {"_own"}

    def __len__(self) -> int:
        # torch's count ignores partitions, each of which has a last mini-batch.
        return super().__len__() if self._single_part else self._pipeline.num_batches

    def __iter__(self) -> EpochIterator:
        return self._get_iterator()

    def __getstate__(self) -> dict[str, Any]:
        """Returns a copy's state, without threads: the arguments, the next epoch, and attributes set from outside."""
        more = {name: value for name, value in self.__dict__.items() if name not in self._own}
        given = self._given | {"transform": self.transform}
        arrays = {kind: x.numpy() for kind, x in self._x.items() if not x.requires_grad}
        if arrays:  # because torch moves the memory of pickled tensors
            given["data"] = copy(given["data"])
            for kind, x in arrays.items():
                store_of(given["data"], kind).x = x
        counts = self._epoch, self._calls
        return {"given": given, "arrays": [*arrays], "counts": counts, "more": more}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.clear()  # because torch forbids changes of a finished loader
        for kind in state["arrays"]:
            store = store_of(state["given"]["data"], kind)
            store.x = torch.from_numpy(store.x)
        with warnings.catch_warnings():  # the original loader has already warned
            warnings.simplefilter("ignore")
            type(self).__init__(self, **state["given"])
        self._epoch, self._calls = state["counts"]
        self.__dict__.update(state["more"])

    def __call__(self, index: Any) -> Any:
        """Returns the mini-batch of the seeds at `index`, a list of places in `input_nodes`, or `edge_label_index`.

        Each call draws neighbors anew. The n-th calls of two loaders with the same seed draw the same neighbors.

        Raises:
            UsageError: A place is out of range, or there are several partitions.
        """
        if not self._single_part:
            raise UsageError(
                "a mini-batch of chosen seeds needs num_partitions=1, because the seeds may be in several partitions"
            )
        self._follow_x()
        places, number = self._plan.checked(index), self._calls
        self._calls += 1
        with closing(self._load(_CALLS, [places], number)) as loaded:
            batch, seeds = next(loaded)
            if self.limited is None:
                return self._served(batch, seeds)
            return self.limited.serve(batch, seeds, self.transform)

    collate_fn = __call__

    @property
    def node_sampler(self) -> Fanouts:
        """The fanouts, which PyG's `model.inference(loader)` reads."""
        return Fanouts(self)

    def minibatches(self) -> Generator[MiniBatch, None, None]:
        """Returns the next epoch as a3gnn's own mini-batches, with blocks of int32 and each stage's seconds.

        Closing it, or leaving its loop, ends every thread.

        Raises:
            UsageError: The loader has a memory limit, which only mini-batches for PyG keep.
        """
        if self.limited is not None:
            raise UsageError("minibatches() needs a loader without memory_limit: only shares of a Data keep the limit")
        with closing(self._loaded()) as loaded:
            for batch, _ in loaded:
                yield batch

    @contextmanager
    def enable_cpu_affinity(self, loader_cores: Iterable[Any] | None = None) -> Iterator[None]:
        """Pins the workers of each epoch that starts within this context; `loader_cores` as in `checked_cores`.

        Raises:
            UsageError: There are no workers, too few cores, or the configuration's `resources` already assign cores.
        """
        if self._pipeline.isolation is not None:
            raise UsageError(
                "loader_cores needs resources='free', because other values already assign cores to each worker"
            )
        self._cores = checked_cores(loader_cores, self.num_workers)
        try:
            yield
        finally:
            self._cores = []

    def _inference_fault(self) -> str | None:
        """Returns why the mini-batches are not all nodes in order, each with all of its in-neighbors, or None."""
        if self._fanouts != (-1,) or self._asked.subgraph_type == "bidirectional":
            return f"num_neighbors={list(self._fanouts)} and subgraph_type={self._asked.subgraph_type!r}"
        if self._pipeline.reads_table:
            return "a configuration with input_aggregation full"
        if self._inputs.until is not None:
            return "a time_attr"
        if self.limited is not None or self._asked.share is not None:
            return "a memory_limit" if self.limited is not None else f"share={self._asked.share}"
        if not is_data(self.data):
            return f"{type(self.data).__name__} in place of a PyG Data"
        seeds = [batch.seeds for batch in self._pipeline.plan(0)][: len(self)]
        is_whole = np.array_equal(np.concatenate(seeds), np.arange(self._num_nodes))
        return None if is_whole and not self._plan.is_given else "nodes in another order, or not all of them"

    def _get_iterator(self) -> EpochIterator:
        self._pipeline.on_worker_start = pinned = WorkerCores(self._cores) if self._cores else None
        return EpochIterator(self._epoch_of_data(), pinned)

    def _epoch_of_data(self) -> Generator[Any, None, None]:
        self._follow_x()
        with closing(self._loaded()) as loaded:
            if self.limited is None:
                for batch, seeds in loaded:
                    yield self._served(batch, seeds)
            else:
                yield from self.limited.epoch(loaded, self.transform)

    def _loaded(self) -> Generator[tuple[MiniBatch, SeedFields], None, None]:
        """Yields the mini-batches of the next epoch, and what each has of its seeds."""
        self._follow_x()
        epoch = self._epoch
        self._epoch += 1
        if self._by_place:
            places = self._plan.places(epoch)
            yield from self._load(epoch, places if self._plan.is_given else islice(places, len(self)))
            return
        with closing(self._pipeline.epoch(epoch)) as batches:  # type: ignore[type-var]
            for batch in islice(batches, len(self)):
                yield batch, self._inputs.fields_of(batch.subgraph.n_id[: batch.num_seeds])

    def _load(
        self, epoch: int, each: Iterable[NDArray[np.int64]], first: int = 0
    ) -> Generator[tuple[MiniBatch, SeedFields], None, None]:
        """Yields the mini-batch of the seeds at each of the places, and what it has of them, numbered from `first`."""
        fields: deque[SeedFields] = deque()

        def planned() -> Iterator[PlannedBatch]:  # drawn as workers begin, so few mini-batches are planned at a time
            for index, places in enumerate(each, first):
                batch, seeds = self._inputs.planned(places, epoch, index)
                fields.append(seeds)
                yield batch

        with closing(self._pipeline.load(epoch, planned())) as batches:  # type: ignore[type-var]
            for batch in batches:
                yield batch, fields.popleft()

    def _follow_x(self) -> None:
        """Rebuilds the pipeline if the memory of its features has moved."""
        if any(state_of(x) != self._x_states[kind] for kind, x in self._x.items()):
            state = self.__getstate__()
            given = state["given"] | {"data": self._given["data"]}  # with the user's tensors, which may change again
            self.__setstate__(state | {"given": given, "arrays": []})

    def _within(self, limit: int, asked: LoaderArguments, device: Any, model: Any) -> LimitedBatches:
        """Returns what serves this loader's mini-batches within `limit` bytes."""
        check_limited(asked.subgraph_type, device, asked.share, model)
        limited = LimitedBatches(limit, self._pipeline, self._as_data, model)
        until = None if self._inputs.until is None else self._inputs.until[:1]
        first = self._pipeline.plan(0)[0]
        first = changed(first, seeds=first.seeds[:1], until=until)
        with closing(self._pipeline.load(_CALLS, [first])) as batches:  # type: ignore[type-var]
            limited.warm_up(next(batches), self._inputs.fields_at(np.zeros(1, dtype=np.int64)))
        return limited

    def _served(self, batch: MiniBatch, seeds: SeedFields) -> Any:
        data = self._as_data(batch, seeds)
        return data if self.transform is None else self.transform(data)

    def _checked_fanouts(self, num_neighbors: Any, source: Source, config: TrainConfig) -> tuple[Fanout, ...]:
        return scaled(fanouts_of(num_neighbors, source.schema), config)

    def _checked_inputs(
        self, source: Source, inputs: Any, input_id: Any, times: Any, asked: LoaderArguments, seed: int
    ) -> InputNodes:
        return InputNodes.of_source(source, inputs, input_id, times)


def arguments_in(names: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of an `__init__` from its `locals()` at the start, those in `others` by their own names."""
    given = {name: names[name] for name in names if name not in ("self", "others", "__class__")}
    return {**given, **names["others"]}


def check_arguments(arguments: Mapping[str, Any], loader: type) -> None:
    """Checks that `Loader` supports the values of NeighborLoader's other arguments.

    Args:
        arguments: Arguments that `Loader` doesn't use.
        loader: The class whose parameters are suggested for an unknown name.

    Raises:
        UsageError: An argument is unknown or its value isn't supported.
    """
    for name, value in arguments.items():
        if name in _HINTS:
            continue
        if name not in _UNSUPPORTED:
            taken = {one for kind in (loader, Loader) for one in inspect.signature(kind).parameters} - {"others"}
            raise unknown_name(f"an argument of {loader.__name__}", name, (*taken, *_UNSUPPORTED, *_HINTS))
        check_supported(name, value, _UNSUPPORTED[name])


def check_supported(name: str, value: Any, supported: Supported) -> None:
    """Checks the value of the argument `name`.

    Raises:
        UsageError: It is another than the only one.
    """
    only, remedy = supported
    if value is not only and (type(value) is not type(only) or value != only):
        raise UsageError(f"{name} must be {only!r} or left out, got {value!r}: {remedy}")


class LoaderThread(NamedTuple):
    """A worker thread."""

    pid: int  # the operating system's thread id


class WorkerCores:
    """Called on each starting worker thread; pins it to the next entry of `cores`.

    Args:
        cores: One set of cores per worker.

    Attributes:
        workers: The threads that have started.
    """

    def __init__(self, cores: Sequence[frozenset[int]]) -> None:
        self._cores = cores
        self._lock = threading.Lock()
        self.workers: list[LoaderThread] = []

    def __call__(self) -> None:
        """Pins the calling thread."""
        with self._lock:
            affinity.pin(self._cores[len(self.workers)])
            self.workers.append(LoaderThread(threading.get_native_id()))


def checked_cores(given: Iterable[Any] | None, num_workers: int) -> list[frozenset[int]]:
    """Returns the cores of each worker.

    Args:
        given: One core or several cores per worker; None takes the process's first allowed cores, one each.
        num_workers: At least 1.

    Raises:
        UsageError: There are no workers, fewer entries than workers, or cores that the process may not use.
    """
    home = sorted(affinity.home())
    each: Iterable[Any] = home if given is None else given
    cores: list[set[int]] = [{int(core)} if isinstance(core, Integral) else set(core) for core in each]
    rule = f"loader_cores must list cores among {home} for each of {num_workers} workers"
    if num_workers < 1:
        raise UsageError(f"loader_cores needs a worker, got num_workers={num_workers}; give num_workers=1")
    if len(cores) < num_workers or not all(cores):
        raise UsageError(f"{rule}, got {given!r}; lower num_workers or give more")
    if not set().union(*cores) <= set(home):
        raise UsageError(f"{rule}, got {given!r}")
    return [frozenset(core) for core in cores[:num_workers]]

"""`Loader`: mini-batches for a training loop of your own, as PyG's `NeighborLoader` gives them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3gnn.checks import flag, whole_number
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.as_graph import as_graph, is_data
from a3gnn.runtime.batch import MiniBatch
from a3gnn.runtime.input_nodes import seeds_of
from a3gnn.runtime.neighbor_arguments import check_arguments
from a3gnn.runtime.pipeline import Pipeline
from a3gnn.runtime.pyg_batch import PygBatches
from a3gnn.runtime.pyg_graph import graph_of
from a3gnn.task import Task
from a3gnn.tuned_file import tuned_config

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike


class Loader:
    """Iterates over mini-batches as PyG's `NeighborLoader` does, with its arguments; each `iter` is the next epoch.

    A mini-batch is a `Data` with x (float32), y, edge_index, n_id, batch_size, input_id, num_sampled_nodes and
    num_sampled_edges (for `trim_to_layer`), and the other attributes of nodes and of the graph if a `Data` is loaded.
    The first `batch_size` nodes are the seeds. It has no e_id.

    What is given as an argument holds over `config`; `config` says the rest, such as cache and tier. Only its fanouts,
    where it has some (`seed_fanout`, `deep_fanout`), hold over `num_neighbors`, as they do over a task's. A warning
    names what only a3gnn's trainer applies: `compute_dtype` and `learning_rate_scale`, where they are not the default.

    Example:
        >>> loader = Loader(data, num_neighbors=[25, 10], input_nodes=data.train_mask, batch_size=1024, shuffle=True)
        >>> for batch in loader:
        ...     out = model(batch.x, batch.edge_index)[: batch.batch_size]
        ...     loss = criterion(out, batch.y[: batch.batch_size])

    Args:
        data: A PyG `Data` with x and edge_index, a graph, or what `Graph.load` takes.
        num_neighbors: In-neighbours sampled per node, the seeds' hop first; -1 takes all. As many hops are sampled.
        input_nodes: Seeds: node ids, distinct, or a bool mask over the nodes; None takes all nodes.
        batch_size: Seeds per mini-batch; by default `config`'s, 1,024 without one.
        shuffle: Whether seeds are shuffled, anew for every epoch.
        drop_last: Whether a last mini-batch of fewer seeds is left out; needs one partition.
        num_workers: Threads that load ahead: 0 loads when asked, more is `config`'s mode or, if it is sequential,
            mode1. By default `config` decides.
        transform: Called with each `Data`; what it returns is given instead.
        seed: Decides order and neighbours, whatever torch's own generator holds.
        device: Where the mini-batches' tensors lie: cpu or cuda.
        adjs: Whether each `Data` also has `adjs`: every layer's adjacency, input layer first, sparse CSR with int64
            indices, shape (num_dst, num_src). PyG's convolutions take `conv((x, x[: adj.size(0)]), adj)`, and are
            faster by it.
        config: The other knobs: a configuration, a dict of its fields, or the path of a tuned.json (or of its folder).
        others: Of NeighborLoader; those that ask for what is not supported are refused.

    Raises:
        UsageError: An argument is out of range or is not supported.
        GraphError: `data` is not valid, or has attributes of edges.
        DeviceError: A device is asked for that is not there.
        ConfigError: The tuned.json is missing, broken or foreign, or a knob is not what it must be.
    """

    def __init__(
        self,
        data: GraphLike,
        num_neighbors: Sequence[int],
        input_nodes: Any = None,
        *,
        batch_size: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
        num_workers: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        seed: int = 0,
        device: str = "cpu",
        adjs: bool = False,
        config: TrainConfig | Mapping[str, Any] | str | Path | None = None,
        **others: Any,
    ) -> None:
        check_arguments(others, _PARAMETERS)
        seed = whole_number("seed", seed, 0)
        shuffle = shuffle is not None and flag("shuffle", shuffle)  # None is torch's default
        drop_last, adjs = flag("drop_last", drop_last), flag("adjs", adjs)
        if transform is not None and not callable(transform):
            raise UsageError(f"transform must take a mini-batch and return another, got {transform!r}")
        config = _configured(_config(config), batch_size, num_workers)
        for left in _left_to_the_loop(config):
            warnings.warn(left, stacklevel=2)
        graph = as_graph(data, graph_of)
        seeds, counted = seeds_of(input_nodes, graph.num_nodes)
        self._pipeline = Pipeline(
            graph,
            config,
            config.fanouts(Task(fanouts=_fanouts(num_neighbors))),
            seed=seed,
            device=device,
            reuse_buffers=False,
            input_nodes=seeds,
            shuffle=shuffle,
        )
        if drop_last and config.num_partitions > 1:
            raise UsageError(f"drop_last needs num_partitions=1, got {config.num_partitions}: each part has a last one")
        self._num_batches = len(seeds) // config.batch_size if drop_last else self._pipeline.num_batches
        self._as_data = PygBatches(data if is_data(data) else graph, seeds if counted else None, adjs=adjs)
        self._transform = transform
        self._epoch = 0

    def __len__(self) -> int:
        return self._num_batches

    def __iter__(self) -> Iterator[Any]:
        return self._served(self.minibatches())

    def minibatches(self) -> Generator[MiniBatch, None, None]:
        """Returns the next epoch as a3gnn's own mini-batches, with blocks of int32 and each stage's seconds.

        Closing it, or leaving its loop, ends every thread.
        """
        epoch = self._epoch
        self._epoch += 1
        return self._batches(epoch)

    def _batches(self, epoch: int) -> Generator[MiniBatch, None, None]:
        with closing(self._pipeline.epoch(epoch)) as batches:  # type: ignore[type-var]
            yield from islice(batches, self._num_batches)

    def _served(self, batches: Generator[MiniBatch, None, None]) -> Generator[Any, None, None]:
        with closing(batches):
            for batch in batches:
                data = self._as_data(batch)
                yield data if self._transform is None else self._transform(data)


#: What `Loader` itself takes.
_PARAMETERS = tuple(name for name in inspect.signature(Loader).parameters if name != "others")
#: Knobs that no mini-batch shows, and what does in a loop of one's own what the trainer does.
_OF_THE_TRAINER = {
    "compute_dtype": "call the model under torch.autocast",
    "learning_rate_scale": "multiply the optimiser's learning rate by it, after a warm-up where it is above 1",
}


def _config(config: TrainConfig | Mapping[str, Any] | str | Path | None) -> TrainConfig:
    if config is None or isinstance(config, TrainConfig):
        return config or TrainConfig()
    return TrainConfig.from_dict(config) if isinstance(config, Mapping) else tuned_config(config)


def _configured(config: TrainConfig, batch_size: int | None, num_workers: int | None) -> TrainConfig:
    if batch_size is not None:
        config = config.replace(batch_size=whole_number("batch_size", batch_size, 1, "1,024 is the default"))
    if num_workers is None:
        return config
    if whole_number("num_workers", num_workers, 0, "0 loads when asked") == 0:
        return config.replace(parallel_mode="sequential")
    mode = "mode1" if config.parallel_mode == "sequential" else config.parallel_mode
    return config.replace(parallel_mode=mode, num_workers=int(num_workers))


def _fanouts(num_neighbors: Any) -> tuple[int, ...]:
    if not isinstance(num_neighbors, Sequence) or isinstance(num_neighbors, str) or not num_neighbors:
        raise UsageError(f"num_neighbors must be a list, one fanout per hop, got {num_neighbors!r}; such as [25, 10]")
    whole = all(isinstance(fanout, Integral) and not isinstance(fanout, bool) for fanout in num_neighbors)
    if not whole or any(fanout < 1 and fanout != -1 for fanout in num_neighbors):
        raise UsageError(f"num_neighbors must be integers >= 1, or -1 for all in-neighbours, got {num_neighbors!r}")
    return tuple(map(int, num_neighbors))


def _left_to_the_loop(config: TrainConfig) -> Iterator[str]:
    """Yields what to do of what `config` says and mini-batches can't."""
    default = TrainConfig()
    for name, remedy in _OF_THE_TRAINER.items():
        value = getattr(config, name)
        if value != getattr(default, name):
            yield f"{name} is applied by a3gnn's trainer alone, and config has {value}: {remedy}"

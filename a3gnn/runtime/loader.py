"""`Loader`: mini-batches for people who bring their own training loop, as PyG's `NeighborLoader` gives them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.as_graph import as_graph, is_data
from a3gnn.runtime.batch import MiniBatch
from a3gnn.runtime.neighbor_arguments import check_arguments
from a3gnn.runtime.pipeline import Pipeline
from a3gnn.runtime.pyg_batch import PygBatches
from a3gnn.runtime.pyg_graph import graph_of

if TYPE_CHECKING:
    from a3gnn.graphs.as_graph import GraphLike


class Loader:
    """Iterates over mini-batches as PyG's `NeighborLoader` does, with its arguments; each `iter` is the next epoch.

    A mini-batch is a `Data` with x (float32), y, edge_index, n_id, batch_size, input_id, num_sampled_nodes and
    num_sampled_edges (for `trim_to_layer`), and the other attributes of nodes and of the graph if a `Data` is loaded.
    The first `batch_size` nodes are the seeds. It has no e_id.

    What is given as an argument holds over `config`; `config` says the rest, such as cache and tier.

    Example:
        >>> loader = Loader(data, num_neighbors=[25, 10], input_nodes=data.train_mask, batch_size=1024, shuffle=True)
        >>> for batch in loader:
        ...     out = model(batch.x, batch.edge_index)[: batch.batch_size]
        ...     loss = criterion(out, batch.y[: batch.batch_size])

    Args:
        data: A PyG `Data` with x and edge_index, a graph, or what `Graph.load` takes.
        num_neighbors: In-neighbours taken a node, the seeds' hop first; -1 takes all.
        input_nodes: Seeds: node ids, distinct, or a bool mask over the nodes; None takes all nodes.
        batch_size: Seeds a mini-batch; by default `config`'s, 1,024 without one.
        shuffle: Whether seeds are shuffled, anew for every epoch.
        drop_last: Whether a last mini-batch of fewer seeds is left out; needs one partition.
        num_workers: Threads that load ahead: 0 loads when asked, more is `config`'s mode or, if it is sequential,
            mode1. By default `config` decides.
        transform: Called with each `Data`; what it returns is given instead.
        seed: Decides order and neighbours, whatever torch's own generator holds.
        device: Where the mini-batches' tensors lie: cpu or cuda.
        adjs: Whether each `Data` also has `adjs`: every layer's adjacency, input layer first, sparse CSR, shape
            (num_dst, num_src). PyG's convolutions take `conv((x, x[: adj.size(0)]), adj)`, and are faster by it.
        config: The other knobs.
        others: Of NeighborLoader; those that ask for what is not supported are refused.

    Raises:
        UsageError: An argument breaks its law or is not supported.
        GraphError: `data` breaks a law of graphs, or has attributes of edges.
        DeviceError: A device is asked for that is not there.
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
        config: TrainConfig | None = None,
        **others: Any,
    ) -> None:
        check_arguments(others)
        config = _configured(config or TrainConfig(), batch_size, num_workers)
        graph = as_graph(data, graph_of)
        seeds, counted = _seeds(input_nodes, graph.num_nodes)
        self._pipeline = Pipeline(
            graph,
            config,
            _fanouts(num_neighbors),
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


def _configured(config: TrainConfig, batch_size: int | None, num_workers: int | None) -> TrainConfig:
    if batch_size is not None:
        config = config.replace(batch_size=batch_size)
    if num_workers is None:
        return config
    if num_workers == 0:
        return config.replace(parallel_mode="sequential")
    mode = "mode1" if config.parallel_mode == "sequential" else config.parallel_mode
    return config.replace(parallel_mode=mode, num_workers=num_workers)


def _fanouts(num_neighbors: Any) -> tuple[int, ...]:
    if not isinstance(num_neighbors, Sequence) or isinstance(num_neighbors, str):
        raise UsageError(f"num_neighbors must be a list, one fanout a hop, got {num_neighbors!r}; such as [25, 10]")
    return tuple(num_neighbors)


def _seeds(nodes: Any, num_nodes: int) -> tuple[NDArray[np.int32], bool]:
    """Returns the seeds, and whether `input_id` counts them: as in PyG, a mask's are known by their node ids."""
    if nodes is None:
        return np.arange(num_nodes, dtype=np.int32), False
    nodes = nodes.detach().cpu().numpy() if isinstance(nodes, torch.Tensor) else np.asarray(nodes)
    masked = nodes.dtype == np.bool_ and nodes.shape == (num_nodes,)
    ids = np.flatnonzero(nodes) if masked else nodes
    if ids.ndim != 1 or not len(ids) or not np.issubdtype(ids.dtype, np.integer):
        raise UsageError(f"input_nodes must be node ids or a mask of shape ({num_nodes},), got {nodes!r}")
    if ids.min() < 0 or ids.max() >= num_nodes or len(np.unique(ids)) < len(ids):
        raise UsageError(f"input_nodes must be distinct ids in [0, {num_nodes}), got {nodes!r}")
    return ids.astype(np.int32), not masked

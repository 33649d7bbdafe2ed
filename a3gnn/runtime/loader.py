"""`Loader`: mini-batches for people who bring their own training loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.runtime.batch import MiniBatch
from a3gnn.runtime.pipeline import Pipeline


class Loader:
    """Iterates over mini-batches; each `iter` is the next epoch.

    Example:
        >>> for batch in Loader(graph, TrainConfig(batch_size=256), fanouts=(25, 10)):
        ...     data = batch.to_pyg()
        ...     loss = criterion(model(data.x, data.edge_index)[: data.batch_size], data.y[: data.batch_size])

    Args:
        graph: The graph.
        config: Every knob matters.
        fanouts: In-neighbours taken a node, the seeds' hop first; -1 takes all.
        input_nodes: Seeds: node ids, distinct, or a bool mask over the nodes; the train nodes by default.
        shuffle: Whether seeds are shuffled, anew for every epoch.
        seed: Decides order and neighbours.
        device: Where the mini-batches' tensors lie: cpu or cuda.

    Raises:
        UsageError: Input nodes are none, repeated or out of range.
        DeviceError: A device is asked for that is not there.
    """

    def __init__(
        self,
        graph: Graph,
        config: TrainConfig,
        fanouts: Sequence[int],
        *,
        input_nodes: NDArray[Any] | None = None,
        shuffle: bool = True,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        seeds = graph.train_ids if input_nodes is None else _node_ids(input_nodes, graph.num_nodes)
        self._pipeline = Pipeline(
            graph,
            config,
            fanouts,
            seed=seed,
            device=device,
            reuse_buffers=False,
            input_nodes=seeds,
            shuffle=shuffle,
        )
        self._epoch = 0

    def __len__(self) -> int:
        return self._pipeline.num_batches

    def __iter__(self) -> Iterator[MiniBatch]:
        batches = self._pipeline.epoch(self._epoch)
        self._epoch += 1
        return batches


def _node_ids(nodes: NDArray[Any], num_nodes: int) -> NDArray[np.int32]:
    nodes = np.asarray(nodes)
    ids = np.flatnonzero(nodes) if nodes.dtype == np.bool_ and nodes.shape == (num_nodes,) else nodes
    if ids.ndim != 1 or not len(ids) or not np.issubdtype(ids.dtype, np.integer):
        raise UsageError(f"input_nodes must be node ids or a mask of shape ({num_nodes},), got {nodes!r}")
    if ids.min() < 0 or ids.max() >= num_nodes or len(np.unique(ids)) < len(ids):
        raise UsageError(f"input_nodes must be distinct ids in [0, {num_nodes}), got {nodes!r}")
    return ids.astype(np.int32)

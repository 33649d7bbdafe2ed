"""`PartedGraph`: labels and degrees are in this process; features and in-neighbors stay on graph servers.

`check_over_parts` says which knobs work over parts, and the reasons for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import DYNAMIC_POLICIES, TrainConfig
from a3gnn.errors import ConfigError, GraphError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.split import Split
from a3gnn.option_names import option
from a3gnn.parts.client import Held, PartsClient
from a3gnn.parts.link import MOST_AT_ONCE
from a3gnn.parts.protocol import ASKED_BYTES
from a3gnn.sampling.hops import NeighborDraw
from a3gnn.task import Task
from a3gnn.units import count, format_size

#: Bytes of rows per group of requests in a read of any size: as many requests as are in flight at once.
_READ_BYTES = MOST_AT_ONCE * ASKED_BYTES
#: Cache policies that rank rows without the whole adjacency.
POLICIES = ("degree", *DYNAMIC_POLICIES)
#: Knobs with a single allowed value over parts: the value, and the reason.
_FIXED = {
    "num_partitions": (1, "training part by part must know all edges to drop those between parts"),
    "bias_rate": (1.0, "each server serves many trainers, so it can't order rows by the cache of one"),
    "sampling_device": ("cpu", "the servers sample the rows that they store"),
    "feature_tier": ("ram", "the servers decide where rows are stored"),
    "input_aggregation": ("sampled", "its table has a row per node of the whole graph"),
    "seed_order": ("random", "proximity order walks over the whole graph"),
    "trainers": (1, "trainers of one process need sampled mini-batches and features on this machine"),
}


class RemoteIndices:
    """Stands for the in-neighbors of all nodes, which stay on the servers: knows their number, and raises on access."""

    def __init__(self, num_edges: int, name: str) -> None:
        self._num_edges, self._name = num_edges, name

    def __len__(self) -> int:
        return self._num_edges

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise _whole(self._name, "all in-neighbors")

    def __getitem__(self, item: Any) -> NoReturn:
        raise _whole(self._name, "all in-neighbors")


class RemoteFeatures:
    """Dense feature rows on graph servers, with the interface of `DenseFeatures` except for the array.

    Args:
        client: Requests the rows.
        dtype: float32 or float16, as they are stored.
        shape: (num_nodes, num_features).
        name: The graph's name.
    """

    is_sparse = False
    density = 1.0

    def __init__(self, client: PartsClient, dtype: np.dtype[np.floating], shape: tuple[int, int], name: str) -> None:
        self.client, self.dtype, self.shape, self._name = client, dtype, shape, name

    @property
    def row_bytes(self) -> float:
        """Bytes of one row as stored."""
        return float(self.shape[1] * self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes as stored, on all servers together."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def array(self) -> NoReturn:
        """Not available.

        Raises:
            GraphError: Always.
        """
        raise _whole(self._name, "all features")

    def arrays(self) -> NoReturn:
        """Not available.

        Raises:
            GraphError: Always.
        """
        raise _whole(self._name, "all features")

    def read(self, ids: NDArray[np.int32], dtype: np.dtype[np.floating] | None = None) -> NDArray[np.floating]:
        """Returns the rows of `ids`, in range, as `dtype` or as stored: shape (n, num_features).

        `ids` may have any length; beside the result, the read needs some MiB for messages.

        Raises:
            GraphServerError: A server refuses, or can't be reached.
        """
        dtype = self.dtype if dtype is None else dtype
        rows = np.empty((len(ids), self.shape[1]), dtype=dtype)
        step = max(1, _READ_BYTES // max(1, self.shape[1] * dtype.itemsize))
        for first in range(0, len(ids), step):
            for held in self.held(ids[first : first + step], dtype):
                rows[first + held.places] = held.array
        return rows

    def held(self, ids: NDArray[np.int32], dtype: np.dtype[np.floating]) -> list[Held]:
        """Returns the rows of `ids` as `dtype`, one array per message.

        Raises:
            GraphServerError: A server refuses, or can't be reached.
        """
        return self.client.rows(ids, dtype, self.shape[1])


@dataclass(frozen=True, eq=False, repr=False)
class PartedGraph(Graph):
    """A graph by parts. Made by `a3gnn.parts.opening.open_parts`.

    `indptr`, labels and the split are in this process; `indices` and `features` can't be read whole. Code that runs
    over parts requests the rows that it needs.

    Attributes:
        features: Requests feature rows.
        client: Requests everything else.
    """

    features: RemoteFeatures  # type: ignore[assignment]
    client: PartsClient = field(kw_only=True)

    @property
    def is_parted(self) -> bool:
        """True."""
        return True

    def counts(self, ids: NDArray[np.int32], fanout: int = -1) -> NDArray[np.int64]:
        """Returns the number of in-neighbors that `fanout` takes of each of `ids`, int64; -1 takes all."""
        degrees = self.indptr[ids.astype(np.int64) + 1] - self.indptr[ids]
        return degrees if fanout < 0 else np.minimum(degrees, fanout)

    def draw(self, ids: NDArray[np.int32], counts: NDArray[np.int64], draw: NeighborDraw) -> NDArray[np.int32]:
        """Returns in-neighbors of `ids`, row by row, `counts` of each (`counts(ids, draw.fanout)`): int32.

        Raises:
            GraphServerError: A server refuses, or can't be reached.
        """
        return self.client.neighbors(ids, counts, draw)

    def in_edges(self, ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns the CSR of the in-edges of `ids`: indptr int32, shape (n + 1,), and indices int32, by node ids.

        Raises:
            GraphServerError: A server refuses, or can't be reached.
        """
        counts = self.counts(ids)
        indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return indptr, self.draw(ids, counts, NeighborDraw(-1))

    @cached_property
    def entries(self) -> NDArray[np.int64]:
        """How often each node is an in-neighbor, int64; requested once."""
        return self.client.column("entries", np.dtype(np.int64))

    @cached_property
    def _loops(self) -> NDArray[np.uint8]:
        """Each node's edges to itself, uint8; requested once."""
        return self.client.column("loops", np.dtype(np.uint8))

    def other_degrees(self, ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """Returns the number of in-neighbors other than itself of each of `ids`, int64."""
        return self.counts(ids) - self._loops[ids]

    @property
    def held_bytes(self) -> int:
        """Bytes of the arrays in this process."""
        arrays = self.indptr, self.labels, self.train_ids, self.val_ids, self.test_ids, self.client.owners
        return sum(array.nbytes for array in arrays)

    def on_disk(self, cache: str | Path | None = None) -> Self:
        """Returns the graph itself, because its parts are on the disks of graph servers."""
        return self

    def __reduce__(self) -> NoReturn:
        raise GraphError(
            f"{self.name} is read by parts from graph servers and can't be pickled, because its "
            f"connections belong to this process; pass 'parts:{','.join(self.client.addresses)}' "
            "instead"
        )

    def resplit(self, split: str | Sequence[float], split_seed: int = 0) -> NoReturn:
        """Not available.

        Raises:
            UsageError: Always.
        """
        made = Split.of(split, split_seed)
        assert made is not None
        raise split_of_parts(made, f"parts:{','.join(self.client.addresses)}")

    def save(self, path: str | Path) -> NoReturn:
        """Not available.

        Raises:
            GraphError: Always.
        """
        raise _whole(self.name, "the whole graph")

    def to_pyg(self) -> NoReturn:
        """Not available.

        Raises:
            GraphError: Always.
        """
        raise _whole(self.name, "the whole graph")

    def derived(self, name: str) -> NoReturn:
        """Not available.

        Raises:
            GraphError: Always.
        """
        raise _whole(self.name, f"a file of the whole graph ({name})")


def split_of_parts(split: Split, spec: str) -> UsageError:
    """Returns the error for a split of the graph by parts with this `spec`."""
    return UsageError(
        f"{option('split')} needs the whole graph, got {spec!r}; split it before it is cut into parts: a3gnn parts "
        f"make {split.spec('GRAPH')} FOLDER"
    )


@contextmanager
def watched(graph: Graph, notify: Callable[[str], None], check: Callable[[], None]) -> Iterator[None]:
    """Reports how much of `graph` is in this process, which servers don't answer, and at the end the traffic.

    It does nothing for a graph that is not by parts.

    Args:
        graph: Whole or by parts.
        notify: Takes lines for the user, from any thread.
        check: Called while a thread waits for a server; an exception from it ends the waiting.
    """
    if not isinstance(graph, PartedGraph):
        yield
        return
    client = graph.client
    listener, before = client.listener, client.traffic
    servers = count(len(client.addresses), "graph server")
    notify(f"{graph.name} is read from {servers}; this process holds {format_size(graph.held_bytes)} of it")
    kept = listener.notify, listener.check
    listener.notify, listener.check = notify, check
    try:
        yield
    finally:
        listener.notify, listener.check = kept
        notify(client.traffic.since(before).text)


def _whole(name: str, what: str) -> GraphError:
    return GraphError(
        f"{name} is read by parts from graph servers, but this action needs {what} in one place; give the whole graph "
        "as the dataset, on a machine that holds it (docs/reference/graph_servers.md lists the actions over parts)"
    )


def check_over_parts(config: TrainConfig, task: Task | None = None) -> None:
    """Checks that `config` can be used over parts, and `task` too if a3gnn trains.

    Raises:
        ConfigError: A value is not available over parts; the message contains an alternative.
    """
    if task is not None and task.is_own:
        raise ConfigError(
            f"the model must be a built-in one over parts, got {task.model}; your own model is evaluated on the whole "
            "graph; train it in a loop of your own with Loader, which reads parts"
        )
    config = config.canonical()
    for name, (value, why) in _FIXED.items():
        got = getattr(config, name)
        if got != value:
            raise ConfigError(
                f"{name} must be {value} over parts, got {got}, because {why}; set it to {value}, or train on a "
                "machine that holds the graph"
            )
    if config.cache_bytes and config.cache_policy not in POLICIES:
        raise ConfigError(
            f"cache_policy must be one of {', '.join(POLICIES)} over parts, got {config.cache_policy}, because other "
            "policies rank rows by the whole adjacency; take degree"
        )

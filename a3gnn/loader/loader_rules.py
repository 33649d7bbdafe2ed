"""Checks which arguments of a `Loader` can be combined with each other and with knobs."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.loader.pyg_attributes import DataAttributes
from a3gnn.loader.pyg_edges import SubgraphType
from a3gnn.loader.pyg_source import Source
from a3gnn.pipeline.pipeline import EdgeSampling


@dataclass(frozen=True, eq=False)
class InputNodes:
    """The seeds in the caller's order.

    Attributes:
        nodes: Node ids, int32, shape (num_seeds,).
        input_ids: The `input_id` of each seed, int64, shape (num_seeds,).
    """

    nodes: NDArray[np.int32]
    input_ids: NDArray[np.int64]

    @classmethod
    def of(cls, nodes: Any, num_nodes: int, input_id: Any = None, name: str = "input_nodes") -> Self:
        """Returns the seeds; as in PyG, `input_id` is a seed's place, or its node id if `nodes` is a mask.

        Args:
            nodes: Ids, or a bool mask over the nodes, as an array-like; None takes all nodes. Ids may be repeated.
            num_nodes: Nodes of the graph.
            input_id: Other values of `input_id`, integers, one per seed.
            name: Name of `nodes` in error messages.

        Raises:
            UsageError: `nodes` or `input_id` has another type or shape, or `nodes` is empty or out of range.
        """
        if nodes is None:
            ids, counted = np.arange(num_nodes, dtype=np.int32), False
        else:
            ids, counted = _ids_of(name, nodes, num_nodes)
        names = np.arange(len(ids)) if counted else ids.astype(np.int64)
        return cls(ids, names if input_id is None else _checked(input_id, len(ids)))

    @cached_property
    def are_distinct(self) -> bool:
        """Whether no seed is repeated."""
        return len(np.unique(self.nodes)) == len(self.nodes)

    def ids_at(self, places: NDArray[np.int64]) -> torch.Tensor:
        """Returns the `input_id` of the seeds at `places`, int64."""
        return torch.from_numpy(self.input_ids[places])

    def ids_of(self, seeds: NDArray[np.int32]) -> torch.Tensor:
        """Returns the `input_id` of `seeds`, int64; needs distinct ones."""
        if self._by_node is None:
            return torch.from_numpy(seeds.astype(np.int64))
        order, ascending = self._by_node
        return self.ids_at(order[np.searchsorted(ascending, seeds)])

    @cached_property
    def _by_node(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """The seeds' places sorted by node, and their nodes; None if each `input_id` equals the node id."""
        if np.array_equal(self.nodes, self.input_ids):
            return None
        order = np.argsort(self.nodes)
        return order, self.nodes[order]


class LoaderArguments(NamedTuple):
    """The arguments of a `Loader` that can conflict with others or with knobs; see `Loader` for each."""

    replace: bool
    disjoint: bool
    subgraph_type: SubgraphType
    weight_attr: str | None
    adjs: bool
    shuffle: bool
    drop_last: bool
    sampler: Any
    batch_sampler: Any
    share: tuple[int, int] | None = None


def check_together(asked: LoaderArguments, config: TrainConfig, batch_size: int | None) -> None:
    """Checks that the arguments conflict neither with each other nor with the configuration's knobs.

    Raises:
        UsageError: Two of them conflict.
    """
    if asked.share is not None:
        _check_share(asked)
    given = [name for name in ("sampler", "batch_sampler") if getattr(asked, name) is not None]
    if len(given) == 2 or (given and asked.shuffle):
        raise UsageError(f"{given[0]} must be left out with another order: give one of shuffle, sampler, batch_sampler")
    if asked.batch_sampler is not None and (batch_size is not None or asked.drop_last):
        raise UsageError("batch_sampler must be left out with batch_size or drop_last: it says what they would")
    if asked.adjs and asked.subgraph_type != "directional":
        raise UsageError(
            f"adjs needs subgraph_type='directional', got {asked.subgraph_type!r}: other edges belong to no layer"
        )
    if asked.disjoint and asked.subgraph_type == "induced":
        raise UsageError("disjoint needs subgraph_type directional or bidirectional, got 'induced', as in PyG")
    if config.num_partitions > 1 and (asked.drop_last or given):
        name = given[0] if given else "drop_last"
        raise UsageError(f"{name} needs num_partitions=1, got {config.num_partitions}: each part has a last one")
    if config.seed_order != "random" and given:
        raise UsageError(
            f"{given[0]} orders the seeds, got seed_order {config.seed_order!r}, which does as well; drop one"
        )


def sampling_of(source: Source, asked: LoaderArguments, config: TrainConfig, inputs: InputNodes) -> EdgeSampling | None:
    """Returns the edges to sample instead of the source's graph, or None if the graph is enough.

    Raises:
        UsageError: The configuration's knobs don't support the source or an argument about its edges.
    """
    _check_features(source, config)
    repeated = not inputs.are_distinct
    if repeated and (config.num_partitions > 1 or config.seed_order != "random"):
        raise UsageError(
            f"input_nodes must be distinct with partitions or a seed_order, got {len(inputs.nodes)} with repeats"
        )
    needs = {
        "replace": asked.replace,
        "disjoint": asked.disjoint,
        "weight_attr": asked.weight_attr is not None,
        f"subgraph_type {asked.subgraph_type}": asked.subgraph_type == "induced",
        "input_nodes that are repeated": repeated,
        "sampler": asked.sampler is not None or asked.batch_sampler is not None,
    }
    sampling = EdgeSampling(source.edges, asked.replace, asked.disjoint)
    if config.sampling_device == "cpu":
        return sampling if source.has_edge_ids or any(needs.values()) else None
    of_edges = source.attributes.of_edges if isinstance(source.attributes, DataAttributes) else []
    needs["edges that occur more than once"] = len(source.edges.indices) > source.graph.num_edges
    needs[f"attributes of edges ({', '.join(of_edges)})"] = bool(of_edges)
    for name in (name for name, needed in needs.items() if needed):
        raise UsageError(
            f"sampling_device must be cpu for {name}, got {config.sampling_device}, which knows no edges' ids"
        )
    return None


def _check_share(asked: LoaderArguments) -> None:
    """Checks that all ranks cut the same mini-batches, and that a share loses no edges of its mini-batch."""
    whole = isinstance(asked.share, tuple) and [type(number) for number in asked.share] == [int, int]
    if not whole:
        raise UsageError(f"share must be (rank, ranks), two integers, or None, got {asked.share!r}")
    if asked.subgraph_type != "directional":
        raise UsageError(
            f"share needs subgraph_type='directional', got {asked.subgraph_type!r}, whose edges between nodes of "
            "different shares would be lost"
        )
    for name in ("sampler", "batch_sampler"):
        if getattr(asked, name) is not None:
            raise UsageError(
                f"share needs an order that is the same in every process, got a {name}; use shuffle=True, whose order "
                "the seed decides, with one seed for all"
            )


def _check_features(source: Source, config: TrainConfig) -> None:
    knobs = {"cache_bytes": 0, "feature_tier": "ram", "feature_dtype": "float32", "num_partitions": 1}
    for name, idle in knobs.items():
        if not source.reads_x and getattr(config, name) != idle:
            raise UsageError(
                f"{name} must be {idle} here, got {getattr(config, name)}: it needs x that is dense, finite float32 "
                "or float16 of two dimensions in the host's memory"
            )


def _ids_of(name: str, nodes: Any, num_nodes: int) -> tuple[NDArray[np.int32], bool]:
    """Returns the seeds, and whether `nodes` holds ids (False: a mask)."""
    rule = f"must be node ids or a bool mask of shape ({num_nodes},)"
    given = _array(name, nodes, rule)
    masked = given.dtype == np.bool_
    if masked and given.shape != (num_nodes,):
        raise UsageError(f"{name} {rule}, got a mask of shape {given.shape}")
    ids = np.flatnonzero(given) if masked else given
    if ids.ndim != 1 or not len(ids) or not np.issubdtype(ids.dtype, np.integer):
        raise UsageError(f"{name} {rule}, of one node at least, got {given.dtype} of shape {ids.shape}")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= num_nodes:
        raise UsageError(f"{name} must be ids in [0, {num_nodes}), got {len(ids)} from {low} to {high}")
    if len(ids) == num_nodes > 2 and high <= 1 and not masked:
        raise UsageError(f"{name} {rule}, got {num_nodes} numbers of 0 and 1; of such a mask, give mask.bool()")
    return ids.astype(np.int32), not masked


def _checked(input_id: Any, count: int) -> NDArray[np.int64]:
    rule = f"must be {count} integers, one for each of input_nodes"
    names = _array("input_id", input_id, rule)
    if names.shape != (count,) or not np.issubdtype(names.dtype, np.integer):
        raise UsageError(f"input_id {rule}, got {names.dtype} of shape {names.shape}")
    return names.astype(np.int64)


def _array(name: str, values: Any, rule: str) -> NDArray[Any]:
    try:
        return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of different lengths, sparse tensors, other objects
        raise UsageError(f"{name} {rule}, got {reprlib.repr(values)}") from error

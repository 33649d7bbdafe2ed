"""`InputNodes`: what people give as `input_nodes`, as seeds and the `input_id` of each."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError


@dataclass(frozen=True, eq=False)
class InputNodes:
    """The seeds in the order that they were given in.

    Attributes:
        nodes: Node ids, int32, shape (num_seeds,).
        input_ids: What `input_id` calls each, int64, shape (num_seeds,).
    """

    nodes: NDArray[np.int32]
    input_ids: NDArray[np.int64]

    @classmethod
    def of(cls, nodes: Any, num_nodes: int, input_id: Any = None, name: str = "input_nodes") -> Self:
        """Returns the seeds; as in PyG, `input_id` counts them, and a mask's are known by their node ids.

        Args:
            nodes: Ids, or a bool mask over the nodes, in anything that numpy or torch makes an array of; None is all
                nodes. Ids may be repeated.
            num_nodes: Of the graph.
            input_id: What to call them instead, integers, one for each.
            name: What errors call `nodes`.

        Raises:
            UsageError: They are something else, out of range, or none.
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
        """The places of the seeds by node, and their nodes; None where nodes are known by their own ids."""
        if np.array_equal(self.nodes, self.input_ids):
            return None
        order = np.argsort(self.nodes)
        return order, self.nodes[order]


def _array(name: str, values: Any, rule: str) -> NDArray[Any]:
    try:
        return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of different lengths, sparse tensors, other objects
        raise UsageError(f"{name} {rule}, got {reprlib.repr(values)}") from error


def _ids_of(name: str, nodes: Any, num_nodes: int) -> tuple[NDArray[np.int32], bool]:
    """Returns the seeds, and whether they were given as ids and not as a mask."""
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

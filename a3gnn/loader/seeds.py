"""The seeds of a `Loader`: `InputNodes` in the caller's order, and `SeedPlan`, which divides them into mini-batches."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.pipeline.plan import PlannedBatch, epoch_plan


@dataclass(frozen=True, eq=False)
class InputNodes:
    """The seeds in the caller's order.

    Attributes:
        argument: The loader's argument that gives them.
        nodes: Node ids, int32, shape (num_seeds,).
        input_ids: The `input_id` of each seed, int64, shape (num_seeds,).
    """

    argument: ClassVar[str] = "input_nodes"
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
        return cls(ids, names if input_id is None else checked_input_id(input_id, len(ids), name))

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def are_distinct(self) -> bool:
        """Whether no seed is repeated."""
        return len(np.unique(self.nodes)) == len(self.nodes)

    def planned(self, places: NDArray[np.int64], epoch: int, index: int) -> tuple[PlannedBatch, Any]:
        """Returns mini-batch `index` of `epoch`, from the seeds at `places`, and their report: `input_id`, int64."""
        return PlannedBatch(index=index, part=0, seeds=self.nodes[places]), torch.from_numpy(self.input_ids[places])

    def ids_of(self, seeds: NDArray[np.int32]) -> torch.Tensor:
        """Returns the `input_id` of `seeds`, int64; needs distinct ones."""
        if self._by_node is None:
            return torch.from_numpy(seeds.astype(np.int64))
        order, ascending = self._by_node
        return torch.from_numpy(self.input_ids[order[np.searchsorted(ascending, seeds)]])

    @property
    def by_place(self) -> bool:
        """Whether mini-batches are planned by places, not by `Pipeline.plan`."""
        return not self.are_distinct

    @cached_property
    def _by_node(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """The seeds' places sorted by node, and their nodes; None if each `input_id` equals the node id."""
        if np.array_equal(self.nodes, self.input_ids):
            return None
        order = np.argsort(self.nodes)
        return order, self.nodes[order]


class SeedPlan:
    """Plans mini-batches by the places of their seeds, so that seeds may be repeated and in any order.

    Args:
        inputs: The seeds, or pairs of seeds.
        batch_size: Seeds per mini-batch.
        seed: Determines the order.
        shuffle: Whether seeds are shuffled anew for every epoch.
        order: Yields each mini-batch's places among the seeds, like torch's `batch_sampler`, and restarts with each
            iteration. None uses the order of `Pipeline.plan`.
    """

    def __init__(
        self, inputs: InputNodes, batch_size: int, seed: int, *, shuffle: bool, order: Iterable[Any] | None
    ) -> None:
        self._inputs = inputs
        self._order = order
        self._epoch = (batch_size, seed, shuffle)

    @property
    def is_given(self) -> bool:
        """Whether the order was given."""
        return self._order is not None

    def places(self, epoch: int) -> Iterator[NDArray[np.int64]]:
        """Returns the places of each mini-batch's seeds.

        Raises:
            UsageError: The caller's order contains an invalid mini-batch; see `checked`.
        """
        if self._order is not None:
            return iter([self.checked(batch) for batch in self._order])
        size, seed, shuffle = self._epoch
        places = np.arange(len(self._inputs), dtype=np.int32)
        return (batch.seeds.astype(np.int64) for batch in epoch_plan(places, size, seed, epoch, shuffle=shuffle))

    def checked(self, index: Any) -> NDArray[np.int64]:
        """Returns `index`, a mini-batch's places among the seeds, as an array.

        Raises:
            UsageError: It isn't a list of integers, is empty, or is out of range.
        """
        count = len(self._inputs)
        places = index.cpu().numpy() if isinstance(index, torch.Tensor) else np.asarray(index)
        rule = f"a mini-batch must be a list of at least one place in [0, {count}) among {self._inputs.argument}"
        if places.ndim != 1 or not len(places) or not np.issubdtype(places.dtype, np.integer):
            raise UsageError(f"{rule}, got {places.dtype} of shape {places.shape}")
        if int(places.min()) < -count or int(places.max()) >= count:
            raise UsageError(f"{rule}, got {places.min()} to {places.max()}")
        return places.astype(np.int64) % count


def _ids_of(name: str, nodes: Any, num_nodes: int) -> tuple[NDArray[np.int32], bool]:
    """Returns the seeds, and whether `nodes` holds ids (False: a mask)."""
    rule = f"must be node ids or a bool mask of shape ({num_nodes},)"
    given = array_of(name, nodes, rule)
    masked = given.dtype == np.bool_
    if masked and given.shape != (num_nodes,):
        raise UsageError(f"{name} {rule}, got a mask of shape {given.shape}")
    ids = np.flatnonzero(given) if masked else given
    if ids.ndim != 1 or not len(ids) or not np.issubdtype(ids.dtype, np.integer):
        raise UsageError(f"{name} {rule} with at least one node, got {given.dtype} of shape {ids.shape}")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= num_nodes:
        raise UsageError(f"{name} must be ids in [0, {num_nodes}), got {len(ids)} from {low} to {high}")
    if len(ids) == num_nodes > 2 and high <= 1 and not masked:
        raise UsageError(f"{name} {rule}, got {num_nodes} numbers of 0 and 1; give mask.bool() for a mask")
    return ids.astype(np.int32), not masked


def checked_input_id(input_id: Any, count: int, argument: str) -> NDArray[np.int64]:
    """Returns `input_id` as an array of `count` integers, one for each entry of the loader's `argument`.

    Raises:
        UsageError: It is something else.
    """
    rule = f"must be {count} integers, one for each of {argument}"
    names = array_of("input_id", input_id, rule)
    if names.shape != (count,) or not np.issubdtype(names.dtype, np.integer):
        raise UsageError(f"input_id {rule}, got {names.dtype} of shape {names.shape}")
    return names.astype(np.int64)


def array_of(name: str, values: Any, rule: str) -> NDArray[Any]:
    """Returns the array-like `values` of the argument `name` on the host.

    Raises:
        UsageError: They are something else; the message has the `rule`.
    """
    try:
        return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of different lengths, sparse tensors, other objects
        raise UsageError(f"{name} {rule}, got {reprlib.repr(values)}") from error

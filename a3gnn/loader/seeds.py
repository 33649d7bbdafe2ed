"""The seeds of a `Loader`: `InputNodes` in the caller's order, and `SeedPlan`, which divides them into mini-batches."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.graphs.edges import known_times
from a3gnn.loader.pyg_attributes import fields_of
from a3gnn.pipeline.plan import PlannedBatch, epoch_plan

if TYPE_CHECKING:
    from a3gnn.loader.pyg_source import Source


class SeedFields(NamedTuple):
    """What a mini-batch has of its seeds, besides the ids of its nodes."""

    input_id: torch.Tensor  # int64, shape (num_seeds,)
    time: torch.Tensor | None = None  # the time of each seed; None if it was not given
    kind: str = ""  # the type of the seeds

    def within(self, low: int, high: int) -> Self:
        """Returns the fields of the seeds from `low` to `high`."""
        time = None if self.time is None else self.time[low:high]
        return self._replace(input_id=self.input_id[low:high], time=time)

    def put(self, data: Any, num_seeds: int) -> None:
        """Writes the fields into the mini-batch `data`, where the seeds' type is."""
        fields = fields_of(data, self.kind)
        fields["input_id"], fields["batch_size"] = self.input_id, num_seeds
        if self.time is not None:
            fields["seed_time"] = self.time


@dataclass(frozen=True, eq=False)
class InputNodes:
    """The seeds in the caller's order.

    Attributes:
        argument: The loader's argument that gives them.
        nodes: Node ids, int32, shape (num_seeds,).
        input_ids: The `input_id` of each seed, int64, shape (num_seeds,).
        kind: Their type.
        times: The time of each seed, as given; None without times, or where nodes have their own.
        until: The rank of the last time that each seed sees, int32, shape (num_seeds,); None without times.
    """

    argument: ClassVar[str] = "input_nodes"
    nodes: NDArray[np.int32]
    input_ids: NDArray[np.int64]
    kind: str = ""
    times: torch.Tensor | None = None
    until: NDArray[np.int32] | None = None

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

    @classmethod
    def of_source(cls, source: Source, nodes: Any, input_id: Any = None, times: Any = None) -> Self:
        """Returns the seeds among the nodes of `source`; where there are types, `nodes` is a type or (type, nodes).

        Args:
            source: Types, and times of nodes and edges.
            nodes: As in `of`, within the type.
            input_id: As in `of`.
            times: The time of each seed; by default that of its node. Only edges with times need them.

        Raises:
            UsageError: See `of`; or the type is unknown, or times are missing or too many.
        """
        schema, kind = source.schema, ""
        if not schema.is_untyped:
            kind, nodes = nodes if isinstance(nodes, tuple | list) and len(nodes) == 2 else (nodes, None)
            kind = schema.types[0] if kind is None and len(schema.types) == 1 else kind
            if kind not in schema.types:
                known = ", ".join(map(repr, schema.types))
                raise UsageError(f"input_nodes must be a type or (type, nodes), one of {known}, got {kind!r}")
        first, count = schema.first_node(kind), schema.counts[kind]
        inputs = cls.of(nodes, count, input_id)
        until = _until(source, kind, inputs.nodes, times)
        given = None if times is None else torch.as_tensor(times)
        return cls(inputs.nodes + np.int32(first), inputs.input_ids, kind, given, until)

    @cached_property
    def are_distinct(self) -> bool:
        """Whether no seed is repeated."""
        return len(np.unique(self.nodes)) == len(self.nodes)

    @property
    def by_place(self) -> bool:
        """Whether mini-batches are planned by places, not by `Pipeline.plan`."""
        return not self.are_distinct or self.until is not None

    def planned(self, places: NDArray[np.int64], epoch: int, index: int) -> tuple[PlannedBatch, SeedFields]:
        """Returns mini-batch `index` of `epoch`, from the seeds at `places`, and what it has of them."""
        until = None if self.until is None else self.until[places]
        return PlannedBatch(index=index, part=0, seeds=self.nodes[places], until=until), self.fields_at(places)

    def fields_at(self, places: NDArray[np.int64]) -> SeedFields:
        """Returns what a mini-batch has of the seeds at `places`."""
        time = None if self.times is None else self.times[torch.from_numpy(places)]
        return SeedFields(torch.from_numpy(self.input_ids[places]), time, self.kind)

    def fields_of(self, seeds: NDArray[np.int32]) -> SeedFields:
        """Returns what a mini-batch has of `seeds`, which must be distinct."""
        if self._by_node is None:
            return SeedFields(torch.from_numpy(seeds.astype(np.int64)), None, self.kind)
        order, ascending = self._by_node
        return self.fields_at(order[np.searchsorted(ascending, seeds)])

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
        places = np.arange(len(self._inputs.nodes), dtype=np.int32)
        return (batch.seeds.astype(np.int64) for batch in epoch_plan(places, size, seed, epoch, shuffle=shuffle))

    def checked(self, index: Any) -> NDArray[np.int64]:
        """Returns `index`, a mini-batch's places among the seeds, as an array.

        Raises:
            UsageError: It isn't a list of integers, is empty, or is out of range.
        """
        count = len(self._inputs.nodes)
        places = index.cpu().numpy() if isinstance(index, torch.Tensor) else np.asarray(index)
        rule = f"a mini-batch must be a list of at least one place in [0, {count}) among {self._inputs.argument}"
        if places.ndim != 1 or not len(places) or not np.issubdtype(places.dtype, np.integer):
            raise UsageError(f"{rule}, got {places.dtype} of shape {places.shape}")
        if int(places.min()) < -count or int(places.max()) >= count:
            raise UsageError(f"{rule}, got {places.min()} to {places.max()}")
        return places.astype(np.int64) % count


def _until(source: Source, kind: str, nodes: NDArray[np.int32], times: Any) -> NDArray[np.int32] | None:
    """Returns the rank of the last time that each seed sees, or None where edges have no times."""
    if source.edges.times is None:
        if times is not None:
            raise UsageError("input_time needs times of nodes or edges to compare with; give time_attr, too")
        return None
    if times is None and kind not in source.node_times:
        raise UsageError(
            f"input_time must be given: {kind or 'the'} nodes have no times of their own; give one per seed"
        )
    if times is None:
        return source.edges.times.rank_at(source.node_times[kind][nodes])
    given = array_of("input_time", times, "must be numbers")
    return source.edges.times.rank_at(known_times("input_time", given, len(nodes), "seed"))


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

"""`SearchSpace`: configurations as rows of indices into the knobs' values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import KNOBS, SEARCHED, TrainConfig, number_of, with_kept_policy
from a3gnn.errors import ConfigError, UsageError, unknown_name
from a3gnn.knobs import ALL, NEVER, Knob, Where
from a3gnn.seeding import generator
from a3gnn.setting import Setting
from a3gnn.task import as_values

Rows = NDArray[np.int64]

#: Knobs that change together if partitions can't be made and others replace them.
_REPLACED_TOGETHER = frozenset({"num_partitions", "partitioner"})
#: Number of values that `--range` gives a knob: at most the first on a logarithmic scale; the second on a linear scale,
#: if the space has no value inside the range.
_MAX_VALUES, _LINEAR_VALUES = 8, 5
#: A space of up to this many configurations can be predicted completely, in two seconds on two cores.
ENUMERABLE = 200_000
#: A row's position in the grid is an int64.
_MOST_ROWS = 2**62


@dataclass(frozen=True)
class SearchSpace:
    """Configurations as rows of small integers: int64, shape (n_configs, n_knobs), one index per knob.

    Several rows may stand for one configuration; `canonical` returns the row that represents it. A row whose partitions
    can't be made is represented by the nearest row whose partitions can.

    Attributes:
        knobs: The columns: the knobs, and then the names of a search, whose default is the task's value.
        unmade_parts: Pairs of a partitioner and a number of parts, of which it can't make that many or more.

    Raises:
        ConfigError: A knob has no values or values outside its domain.
    """

    knobs: tuple[Knob, ...]
    unmade_parts: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        if self.size > _MOST_ROWS:
            raise ConfigError(
                f"a space must have at most {_MOST_ROWS:.0e} rows, got {self.size:.0e}; search fewer names, or fewer "
                "values of each"
            )
        for knob in self.knobs:
            if not knob.values or len(set(knob.values)) != len(knob.values):
                raise ConfigError(f"{knob.name} must have distinct values, at least one, got {list(knob.values)}")
            for value in knob.values:
                knob.domain.check(knob.name, value)

    @classmethod
    def of(cls, setting: Setting) -> Self:
        """Returns the default space of `setting`: every knob with the values that its declaration tries there."""
        return cls(tuple(knob.within(setting) for knob in KNOBS))

    def with_search(self, knobs: Sequence[Knob]) -> Self:
        """Returns the space with further columns for the names of a search (`Searched.knob`)."""
        return dataclasses.replace(self, knobs=(*self.knobs, *knobs))

    def idle_too(self, name: str, condition: Where) -> Self:
        """Returns the space in which the knob `name` is also idle where a `condition` on names of a search holds."""
        knobs = (dataclasses.replace(k, idle=k.idle | condition) if k.name == name else k for k in self.knobs)
        return dataclasses.replace(self, knobs=tuple(knobs))

    @property
    def systems(self) -> Self:
        """The space of the knobs alone, without the names of a search."""
        known = {knob.name for knob in KNOBS}
        own = (k if k.idle.names <= known else dataclasses.replace(k, idle=k.idle.others[0]) for k in self.knobs)
        return dataclasses.replace(self, knobs=tuple(own)[: len(KNOBS)])

    @property
    def searched(self) -> tuple[Knob, ...]:
        """The columns of the names of a search."""
        return self.knobs[len(KNOBS) :]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The knobs' names, in the order of the columns."""
        return tuple(knob.name for knob in self.knobs)

    @cached_property
    def nvec(self) -> NDArray[np.int64]:
        """The number of values of each knob, int64, shape (n_knobs,)."""
        return np.array([len(knob.values) for knob in self.knobs], dtype=np.int64)

    @property
    def size(self) -> int:
        """Number of rows, including those that run identically."""
        return math.prod(len(knob.values) for knob in self.knobs)

    @cached_property
    def num_distinct(self) -> int:
        """Number of configurations that run differently: the number of rows of `enumerate`."""
        if self._halves:
            return sum(half.num_distinct for half in self._halves)
        return math.prod(len(one) for one in self._group_numbers)

    def knob(self, name: str) -> Knob:
        """Returns the knob called `name`."""
        for knob in self.knobs:
            if knob.name == name:
                return knob
        raise unknown_name("a knob", name, self.names)

    def encode(self, config: TrainConfig) -> NDArray[np.int64]:
        """Returns the row of `config`, int64, shape (n_knobs,); raises `ConfigError` for a value outside the space.

        An idle knob gets index 0, even if the space does not contain its value.
        """
        fields = self.values(config)
        if unknown := {name for name, _ in config.searched} - set(self.names):
            raise ConfigError(f"this space searches no {', '.join(sorted(unknown))}")
        row = [0 if knob.idle.holds(fields) else knob.index(fields[knob.name]) for knob in self.knobs]
        return np.array(row, dtype=np.int64)

    def values(self, config: TrainConfig) -> dict[str, Any]:
        """Returns the values of `config` by name: of the knobs, and of the names of the search, the task's included."""
        own = {knob.name: getattr(config, knob.name) for knob in self.knobs[: len(KNOBS)]}
        return own | {knob.name: knob.default for knob in self.searched} | dict(config.searched)

    def decode(self, row: NDArray[np.int64]) -> TrainConfig:
        """Returns the configuration of `row`; indices outside the space are refused."""
        if row.shape != (len(self.knobs),) or (row < 0).any() or (row >= self.nvec).any():
            raise ConfigError(f"a row must hold an index below {self.nvec.tolist()} per knob, got {row.tolist()}")
        fields = {knob.name: knob.values[i] for knob, i in zip(self.knobs, row, strict=True)}
        if self.searched:
            fields = {k.name: k.default if k.idle.holds(fields) else fields[k.name] for k in self.knobs}
        searched = {k.name: value for k in self.searched if (value := fields.pop(k.name)) != k.default}
        return TrainConfig(**fields, searched=as_values(searched))

    def columns(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Returns the knobs' values of `rows` (n_configs, n_knobs), one array of shape (n_configs,) per knob.

        They are coded (`Knob.coded`): None is 0. With a search, the column `searched` has the number of
        `TrainConfig.searched` (`number_of`).
        """
        columns = {k.name: _array([k.coded(v) for v in k.values])[rows[:, j]] for j, k in enumerate(self.knobs)}
        if self.searched:
            first = len(self.knobs) - len(self.searched)
            distinct, places = np.unique(rows[:, first:], axis=0, return_inverse=True)
            start = np.zeros(first, dtype=np.int64)
            numbers = [number_of(self.decode(np.concatenate([start, own])).searched) for own in distinct]
            columns[SEARCHED] = np.array(numbers, dtype=np.int64)[places.reshape(-1)]
        return columns

    def canonical(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the rows that represent `rows`: idle knobs at their first value, only partitions that can be made.

        The result equals `encode(decode(row).canonical())`, whichever knobs are fixed or restricted.
        """
        rows = self._made(rows)
        columns = self.columns(rows)
        for j, knob in enumerate(self.knobs):
            if knob.idle != NEVER:
                rows[knob.idle.holds(columns), j] = 0
        return rows

    def enumerate(self) -> NDArray[np.int64]:
        """Returns every row that runs differently from all others, int64, shape (n, n_knobs), in sorted order."""
        if self._halves:
            return np.unique(np.concatenate([self._rows_of(half) for half in self._halves]), axis=0)
        numbers = np.zeros(1, dtype=np.int64)
        for one in self._group_numbers:
            numbers = np.add.outer(numbers, one).ravel()
        return np.stack(np.unravel_index(np.sort(numbers), tuple(self.nvec)), axis=1)

    @cached_property
    def _halves(self) -> tuple[Self, ...]:
        """The space without the whole graph as a mini-batch, and with it alone; empty if one of them is.

        Nearly all knobs are idle in the second, so that the whole space has few groups of independent knobs.
        """
        sizes = self.knob("batch_size").values
        several = len(sizes) > 1 and ALL in sizes
        apart = (tuple(size for size in sizes if size != ALL), (ALL,)) if several else ()
        return tuple(self._with({"batch_size": some}) for some in apart)

    def _rows_of(self, half: Self) -> NDArray[np.int64]:
        """Returns the rows of `half` as rows of this space."""
        rows, column = half.enumerate(), self.names.index("batch_size")
        places = [self.knobs[column].index(size) for size in half.knobs[column].values]
        rows[:, column] = np.array(places)[rows[:, column]]
        return rows

    @cached_property
    def _group_numbers(self) -> list[NDArray[np.int64]]:
        """For each group of `tied_knobs`, what its distinct settings add to a row's number, int64, shape (n_settings,).

        A row's number is its position in the grid: the sum of its indices times the strides of their columns.
        """
        sizes = [len(knob.values) for knob in self.knobs]
        strides = np.array([math.prod(sizes[j + 1 :]) for j in range(len(sizes))], dtype=np.int64)
        found = []
        for group in tied_knobs(self.knobs):
            settings = np.indices(tuple(self.nvec[group])).reshape(len(group), -1).T
            rows = np.zeros((len(settings), len(sizes)), dtype=np.int64)
            rows[:, group] = settings
            found.append(np.unique(self.canonical(rows)[:, group] @ strides[group]))
        return found

    def sample(self, count: int, seed: int) -> NDArray[np.int64]:
        """Returns `count` canonical rows drawn uniformly from the grid, int64, shape (count, n_knobs)."""
        rows = generator(seed, "space.sample").integers(0, self.nvec, size=(count, len(self.knobs)))
        return self.canonical(rows)

    def neighbors(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the canonical rows that differ from `row` in one knob: by a step, or by any value of a choice."""
        return np.unique(self.canonical(np.array(list(self._moves(row)), dtype=np.int64)), axis=0)

    def _moves(self, row: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        for j, knob in enumerate(self.knobs):
            steps = range(len(knob.values)) if knob.scale == "choice" else (row[j] - 1, row[j] + 1)
            for value in steps:
                if 0 <= value < len(knob.values) and value != row[j]:
                    moved = row.copy()
                    moved[j] = value
                    yield moved
        yield row

    def fix(self, name: str, value: Any) -> Self:
        """Returns the space with the knob `name` fixed at `value`, which need not have been among its values.

        A cache policy of an older version is replaced (`with_kept_policy`), which may also fix the bias rate.
        """
        fixed = with_kept_policy({name: self.knob(name).parse(value)})
        return self._with({knob: (value,) for knob, value in fixed.items()})

    def offer(self, name: str, value: Any) -> Self:
        """Returns the space with `value` as one more value of the knob `name`."""
        knob = self.knob(name)
        return self._with({name: (*knob.values, knob.parse(value))})

    def including(self, values: Mapping[str, Any]) -> Self:
        """Returns the space with the `values`, by the names of knobs, that it lacks."""
        space = self
        for knob in self.systems.knobs:
            if knob.name in values and values[knob.name] not in knob.values:
                space = space.offer(knob.name, values[knob.name])
        return space

    def row_of(self, values: Mapping[str, Any]) -> NDArray[np.int64]:
        """Returns the canonical row with `values` by name, int64, shape (n_knobs,); others are the default or near it.

        Raises:
            ConfigError: The space does not contain one of `values`.
        """
        row = [
            knob.index(values[knob.name]) if knob.name in values else _nearest(knob, knob.default)
            for knob in self.knobs
        ]
        return np.asarray(self.canonical(np.array([row], dtype=np.int64))[0])

    def restrict(self, name: str, low: Any, high: Any) -> Self:
        """Returns the space with the knob `name` restricted to values between `low` and `high`, both included.

        Raises:
            ConfigError: The knob is a choice, or `low` exceeds `high`.
        """
        knob = self.knob(name)
        if knob.scale == "choice":
            raise ConfigError(f"{name} has no range: fix it to one of {list(knob.values)}")
        low, high = knob.parse(low), knob.parse(high)
        if words := [text for end in (low, high) if isinstance(text := knob.text(end), str)]:
            raise ConfigError(f"{name}'s range must be between numbers, got {words[0]}: fix it to {words[0]} instead")
        if low > high:
            raise ConfigError(f"{name}'s range must be LOW:HIGH with LOW <= HIGH, got {low}:{high}")
        if knob.scale == "log2" and low > 0:
            numbers = np.geomspace(low, high, min(_MAX_VALUES, max(2, int(math.log2(high / low)) + 1)))
        else:
            inside = [v for v in knob.values if v is not None and low < v < high]
            numbers = np.array([low, *inside, high]) if inside else np.linspace(low, high, _LINEAR_VALUES)
        values = tuple(dict.fromkeys(knob.rounded(value) for value in numbers))
        return self._with({name: values})

    def without_parts(self, partitioner: str, parts: int) -> Self:
        """Returns the space in which `partitioner` can't make `parts` or more parts; knobs and sizes stay."""
        return dataclasses.replace(self, unmade_parts=(*self.unmade_parts, (partitioner, parts)))

    def can_make(self, config: TrainConfig) -> bool:
        """Returns whether the partitions of `config` can be made, as far as is known."""
        parts, partitioner = config.num_partitions, config.partitioner
        return parts == 1 or all(partitioner != name or parts < least for name, least in self.unmade_parts)

    def _made(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns a copy of `rows` with partitions that can't be made replaced by the nearest that can."""
        rows = rows.copy()
        if self.unmade_parts:
            columns = [self.names.index("num_partitions"), self.names.index("partitioner")]
            rows[:, columns] = self._nearest_made[rows[:, columns[0]], rows[:, columns[1]]]
        return rows

    @cached_property
    def _nearest_made(self) -> NDArray[np.int64]:
        """Indices of the parts and partitioner used in place of each pair, int64, shape (n_parts, n_partitioners, 2).

        The replacement is another partitioner with as many parts, or else fewer parts.
        """
        parts, partitioners = self.knob("num_partitions").values, self.knob("partitioner").values
        pairs = [(i, j) for i in range(len(parts)) for j in range(len(partitioners))]
        made = [
            (i, j) for i, j in pairs if self.can_make(TrainConfig(num_partitions=parts[i], partitioner=partitioners[j]))
        ]

        def nearest(wanted: tuple[int, int]) -> tuple[int, int]:
            def distance(other: tuple[int, int]) -> tuple[bool, int, bool]:
                more = parts[other[0]] - parts[wanted[0]]
                return more > 0, abs(more), wanted[1] != other[1]

            return min(made, key=distance, default=wanted)

        table = [nearest(pair) for pair in pairs]
        return np.array(table, dtype=np.int64).reshape(len(parts), len(partitioners), 2)

    def _with(self, values: Mapping[str, tuple[Any, ...]]) -> Self:
        knobs = (dataclasses.replace(k, values=values.get(k.name, k.values)) for k in self.knobs)
        return dataclasses.replace(self, knobs=tuple(knobs))

    def to_dict(self) -> dict[str, Any]:
        """Returns the knobs and their values as JSON types."""
        return {knob.name: [knob.stored(value) for value in knob.values] for knob in self.knobs}

    @classmethod
    def from_dict(cls, values: Mapping[str, Sequence[Any]]) -> Self:
        """Returns the space of `to_dict`."""
        for name in values:
            if name not in {knob.name for knob in KNOBS}:
                raise unknown_name("a knob", name, [knob.name for knob in KNOBS])
        found = (tuple(map(knob.loaded, values.get(knob.name, knob.values))) for knob in KNOBS)
        return cls(tuple(dataclasses.replace(knob, values=own) for knob, own in zip(KNOBS, found, strict=True)))


def _nearest(knob: Knob, value: Any) -> int:
    """Returns the index of `value` among the values of `knob`, or of the nearest number, or 0."""
    if value in knob.values:
        return knob.values.index(value)
    if knob.scale == "choice" or value is None or None in knob.values:
        return 0
    return min(range(len(knob.values)), key=lambda place: abs(float(knob.values[place]) - float(value)))


def _array(values: Sequence[Any]) -> NDArray[Any]:
    """Returns `values` as an array; tuples and values of several types stay objects."""
    if len({type(value) for value in values}) == 1 and not isinstance(values[0], tuple):
        return np.array(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def tied_knobs(knobs: Sequence[Knob]) -> list[list[int]]:
    """Returns the positions of `knobs` in groups whose canonical values do not depend on each other.

    A knob shares a group with the knobs whose values decide whether it is idle.
    """
    position = {knob.name: j for j, knob in enumerate(knobs)}
    values = {knob.name: knob.values for knob in knobs}
    tied = [{knob.name, *knob.idle.varied(values)} for knob in knobs]
    groups = [{j} for j in range(len(knobs))]
    for names in (*tied, _REPLACED_TOGETHER):
        together = {position[name] for name in names}
        apart = [group for group in groups if not group & together]
        groups = [*apart, together.union(*(group for group in groups if group & together))]
    return sorted(sorted(group) for group in groups)


def check_enumerable(space: SearchSpace) -> None:
    """Raises a `UsageError` if `space` is too large to enumerate."""
    if space.num_distinct > ENUMERABLE:
        raise UsageError(
            f"a space must have at most {ENUMERABLE:,} configurations to be tried exhaustively, got "
            f"{space.num_distinct:,}; fix knobs, narrow ranges, or take another engine"
        )

"""The search space: one table, from which sizes, columns, JSON and the CLI's choices derive."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_INDEX_BYTES, GraphCharacteristics
from a3gnn.config import DEVICES, FEATURE_TIERS, PARALLEL_MODES, RESOURCES, SEED_ORDERS, STATIC_POLICIES, TrainConfig
from a3gnn.errors import ConfigError, unknown_name
from a3gnn.hardware import Hardware
from a3gnn.seeding import generator

Scale = Literal["log2", "linear", "choice"]

#: Shares of the feature rows that the cache may hold, beside none.
CACHE_SHARES: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8)
#: A range that a person asks for is cut into at most this many values.
_MOST_VALUES = 8
#: Stages that can each have cores of their own: with fewer cores there is nothing to isolate.
_ISOLATED_STAGES = 3
#: Ordering seeds by proximity traverses every edge before each trial: above so many, which take seconds, it is left
#: to those who ask for it.
_ORDERED_EDGES = 100_000_000


@dataclass(frozen=True, slots=True)
class Knob:
    """One dimension: a field of `TrainConfig`, its values in order, and how they are spaced."""

    name: str
    values: tuple[Any, ...]
    scale: Scale

    def index(self, value: Any) -> int:
        """Returns the position of `value`; one that is not in the space is refused."""
        try:
            return self.values.index(value)
        except ValueError:
            raise ConfigError(f"{self.name} must be one of {list(self.values)} in this space, got {value!r}") from None


# fmt: off
#: A3GNN's Table I, `feature_tier`, and BGL's choices. `for_machine` fills in what depends on the graph and the machine.
KNOBS: tuple[Knob, ...] = (
    #    name               values                      scale
    Knob("batch_size",      (64, 128, 256, 512, 1024),  "log2"),
    Knob("num_partitions",  (1, 2, 4, 8),               "log2"),
    Knob("bias_rate",       (1.0, 2.0, 4.0, 8.0, 16.0), "log2"),
    Knob("sampling_device", DEVICES,                    "choice"),
    Knob("num_workers",     (1, 2, 3, 4),               "log2"),
    Knob("cache_bytes",     (0,),                       "linear"),
    Knob("parallel_mode",   PARALLEL_MODES,             "choice"),
    Knob("feature_tier",    FEATURE_TIERS,              "choice"),
    Knob("cache_policy",    ("degree", "access", "fifo"), "choice"),
    Knob("seed_order",      SEED_ORDERS,                "choice"),
    Knob("partitioner",     ("metis", "blocks"),        "choice"),
    Knob("resources",       ("free",),                  "choice"),
)
# fmt: on


@dataclass(frozen=True)
class SearchSpace:
    """Configurations as rows of small integers: int64, shape (n_configs, n_knobs), one index a knob.

    Raises:
        ConfigError: A knob has no values or values that `TrainConfig` refuses.
    """

    knobs: tuple[Knob, ...]

    def __post_init__(self) -> None:
        for knob in self.knobs:
            if not knob.values or len(set(knob.values)) != len(knob.values):
                raise ConfigError(f"{knob.name} must have distinct values, at least one, got {list(knob.values)}")
            for value in knob.values:
                TrainConfig().replace(**{knob.name: value})

    @classmethod
    def for_machine(cls, graph: GraphCharacteristics, hardware: Hardware) -> Self:
        """Returns the default space of `graph` on `hardware`.

        Of the batch sizes that hold every train seed, which run identically, the largest stands for all: it is the
        default's, so that the default lies in the space. Devices that are not there are left out, and so are dynamic
        caches of sparse rows, which no store has.
        """
        knobs = {knob.name: knob for knob in KNOBS}
        sizes = knobs["batch_size"].values
        workers = np.geomspace(1, max(4, hardware.num_cores), 4).round().astype(int)
        rows, index = graph.row_bytes * graph.num_nodes, CACHE_INDEX_BYTES * graph.num_nodes
        values = {
            "batch_size": tuple(dict.fromkeys([*(size for size in sizes if size < graph.num_train), sizes[-1]])),
            "sampling_device": DEVICES if hardware.has_device else ("cpu",),
            "num_workers": tuple(int(n) for n in workers),
            "cache_policy": STATIC_POLICIES[:2] if graph.sparse_features else knobs["cache_policy"].values,
            "seed_order": SEED_ORDERS if graph.num_edges <= _ORDERED_EDGES else ("random",),
            "resources": RESOURCES if hardware.num_cores >= _ISOLATED_STAGES else ("free",),
            "cache_bytes": (0, *(int(share * rows + index) for share in CACHE_SHARES)),
        }
        return cls(tuple(dataclasses.replace(k, values=values.get(k.name, k.values)) for k in knobs.values()))

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
        """Rows in the space, those that run identically counted each."""
        return int(np.prod(self.nvec))

    def knob(self, name: str) -> Knob:
        """Returns the knob called `name`."""
        for knob in self.knobs:
            if knob.name == name:
                return knob
        raise unknown_name("a knob", name, self.names)

    def encode(self, config: TrainConfig) -> NDArray[np.int64]:
        """Returns the row of `config`, int64, shape (n_knobs,); a value outside the space is refused."""
        return np.array([knob.index(getattr(config, knob.name)) for knob in self.knobs], dtype=np.int64)

    def decode(self, row: NDArray[np.int64]) -> TrainConfig:
        """Returns the configuration of `row`; indices outside the space are refused."""
        if row.shape != (len(self.knobs),) or (row < 0).any() or (row >= self.nvec).any():
            raise ConfigError(f"a row must hold an index below {self.nvec.tolist()} a knob, got {row.tolist()}")
        return TrainConfig(**{knob.name: knob.values[i] for knob, i in zip(self.knobs, row, strict=True)})

    def columns(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Returns the knobs' values of `rows` (n_configs, n_knobs), one array of shape (n_configs,) a knob."""
        return {k.name: np.array(k.values)[rows[:, j]] for j, k in enumerate(self.knobs)}

    def canonical(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns `rows` with the knobs that do not matter at one value, as `TrainConfig.canonical` has them.

        Where the space lacks that value (a fixed knob), the first value stands for it.
        """
        rows = rows.copy()
        for name, idle in idle_knobs(self.columns(rows)).items():
            rows[idle, self.names.index(name)] = 0
        return rows

    def enumerate(self) -> NDArray[np.int64]:
        """Returns every row that runs differently from all others, int64, shape (n, n_knobs), in sorted order."""
        shape = tuple(self.nvec)
        grid = np.indices(shape, dtype=np.int64).reshape(len(self.knobs), -1).T
        distinct = np.unique(np.ravel_multi_index(tuple(self.canonical(grid).T), shape))
        return np.stack(np.unravel_index(distinct, shape), axis=1)

    def sample(self, count: int, seed: int) -> NDArray[np.int64]:
        """Returns `count` canonical rows drawn uniformly from the grid, int64, shape (count, n_knobs)."""
        rows = generator(seed, "space.sample").integers(0, self.nvec, size=(count, len(self.knobs)))
        return self.canonical(rows)

    def neighbours(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
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
        """Returns the space with the knob `name` fixed at `value`, which need not have been among its values."""
        knob = self.knob(name)
        return self._with(dataclasses.replace(knob, values=(_like(knob, value),)))

    def restrict(self, name: str, low: Any, high: Any) -> Self:
        """Returns the space with the knob `name` cut into values between `low` and `high`, both included.

        Raises:
            ConfigError: The knob is a choice, or `low` exceeds `high`.
        """
        knob = self.knob(name)
        if knob.scale == "choice":
            raise ConfigError(f"{name} has no range: fix it to one of {list(knob.values)}")
        low, high = _like(knob, low), _like(knob, high)
        if low > high:
            raise ConfigError(f"{name}'s range must be LOW:HIGH with LOW <= HIGH, got {low}:{high}")
        if knob.scale == "log2" and low > 0:
            numbers = np.geomspace(low, high, min(_MOST_VALUES, max(2, int(math.log2(high / low)) + 1)))
        else:
            inside = [v for v in knob.values if low < v < high]
            numbers = np.array([low, *inside, high]) if inside else np.linspace(low, high, 5)
        values = tuple(dict.fromkeys(_like(knob, value) for value in numbers))
        return self._with(dataclasses.replace(knob, values=values))

    def _with(self, knob: Knob) -> Self:
        return dataclasses.replace(self, knobs=tuple(knob if k.name == knob.name else k for k in self.knobs))

    def to_dict(self) -> dict[str, Any]:
        """Returns the knobs and their values as JSON types."""
        return {knob.name: list(knob.values) for knob in self.knobs}

    @classmethod
    def from_dict(cls, values: Mapping[str, Sequence[Any]]) -> Self:
        """Returns the space of `to_dict`."""
        for name in values:
            if name not in {knob.name for knob in KNOBS}:
                raise unknown_name("a knob", name, [knob.name for knob in KNOBS])
        return cls(tuple(dataclasses.replace(k, values=tuple(values.get(k.name, k.values))) for k in KNOBS))


def idle_knobs(columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.bool_]]:
    """Returns by knob which configurations run the same whatever its value, as `TrainConfig.canonical` has it.

    Args:
        columns: The knobs' values, one array of shape (n_configs,) a knob, as `SearchSpace.columns` gives them.
    """
    sequential, cacheless = columns["parallel_mode"] == "sequential", columns["cache_bytes"] == 0
    return {
        "num_workers": sequential,
        "resources": sequential,
        "cache_policy": cacheless,
        "bias_rate": cacheless | ~np.isin(columns["cache_policy"], STATIC_POLICIES),
        "partitioner": columns["num_partitions"] == 1,
    }


def _like(knob: Knob, value: Any) -> Any:
    """Returns `value`, which may be text from the command line, with the type of the knob's values."""
    kind = type(knob.values[0])
    try:
        number = float(value) if kind in (int, float) else value
        return kind(round(number) if kind is int else round(number, 6) if kind is float else number)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{knob.name} must be a number, got {value!r}") from None

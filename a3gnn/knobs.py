"""The knobs: one literal table, and which of them are idle where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import DEVICES, FEATURE_TIERS, PARALLEL_MODES, SEED_ORDERS, STATIC_POLICIES
from a3gnn.errors import ConfigError

Scale = Literal["log2", "linear", "choice"]


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

    def parse(self, value: Any) -> Any:
        """Returns `value`, which may be text from the command line, with the type of the knob's values.

        Raises:
            ConfigError: It is not a number, or not a whole one, where the knob's values are.
        """
        kind = type(self.values[0])
        if kind is str:
            return str(value)
        try:
            number = float(value)
            if not isinstance(value, bool) and (kind is float or number.is_integer()):
                return value if kind is type(value) else kind(number)
        except (TypeError, ValueError, OverflowError):
            pass
        raise ConfigError(f"{self.name} must be a {'whole ' if kind is int else ''}number, got {value!r}")

    def rounded(self, number: float) -> Any:
        """Returns `number`, which was computed, as a value of this knob."""
        return round(number) if isinstance(self.values[0], int) else round(float(number), 6)


# fmt: off
#: A3GNN's Table I, `feature_tier`, and BGL's choices. `SearchSpace.for_machine` fills in what depends on the graph and
#: the machine.
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

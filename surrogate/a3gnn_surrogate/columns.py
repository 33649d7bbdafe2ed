"""Configurations as columns: one array per knob, idle knobs at their default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_INDEX_BYTES, GraphCharacteristics
from a3gnn.config import KNOBS, TrainConfig
from a3gnn.domains import OneOf
from a3gnn.errors import UsageError
from a3gnn.knobs import Knob
from a3gnn.where import NEVER

#: One array of shape (n_configs,) per knob, as `SearchSpace.columns` returns them.
Columns = Mapping[str, NDArray[Any]]
Array = NDArray[np.float64]

#: The fields of `TrainConfig` that are tuned.
KNOB_NAMES: tuple[str, ...] = tuple(knob.name for knob in KNOBS)


def as_columns(configs: Sequence[TrainConfig] | Columns) -> dict[str, NDArray[Any]]:
    """Returns `configs` as canonical columns: configurations that run identically get equal values.

    Raises:
        UsageError: A knob's column is missing, or the columns differ in length.
    """
    if not isinstance(configs, Mapping):
        configs = {name: np.array([getattr(config, name) for config in configs]) for name in KNOB_NAMES}
    missing = [name for name in KNOB_NAMES if name not in configs]
    if missing:
        raise UsageError(f"columns must hold every knob, {', '.join(missing)} missing; see SearchSpace.columns")
    lengths = {name: len(configs[name]) for name in KNOB_NAMES}
    if len(set(lengths.values())) > 1:
        raise UsageError(f"columns must have one length, got {lengths}")
    columns = {name: np.asarray(configs[name]) for name in KNOB_NAMES}
    return columns | {
        knob.name: np.where(knob.idle.holds(columns), knob.default, columns[knob.name])
        for knob in KNOBS
        if knob.idle != NEVER
    }


def knob_values(knob: Knob, values: NDArray[Any]) -> Array:
    """Returns the values of `knob` as float64: log2 of a number, log2(1 + n) if it may be 0, the index of a choice."""
    if isinstance(knob.domain, OneOf):
        choices = knob.domain.choices
        return np.asarray(np.select([values == choice for choice in choices], range(len(choices))) * 1.0)
    return np.asarray(np.log2(values + 1.0) if knob.domain.least == 0 else np.log2(values))


def cached_share(columns: Columns, graph: GraphCharacteristics) -> Array:
    """Returns the share of feature rows that fit into the cache next to its index, float64, shape (n_configs,)."""
    for_rows = columns["cache_bytes"] - float(CACHE_INDEX_BYTES * graph.num_nodes)
    return np.asarray(np.clip(for_rows / max(graph.row_bytes * graph.num_nodes, 1.0), 0.0, 1.0))

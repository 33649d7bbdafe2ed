"""Configurations as columns: one array per knob, idle knobs at their default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_INDEX_BYTES, GraphCharacteristics
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.knobs import idle_knobs

#: One array of shape (n_configs,) per knob, as `SearchSpace.columns` returns them.
Columns = Mapping[str, NDArray[Any]]
Array = NDArray[np.float64]

#: The fields of `TrainConfig` that are tuned.
KNOB_NAMES: tuple[str, ...] = tuple(field.name for field in fields(TrainConfig) if field.name != "schema_version")


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
    default = TrainConfig()
    return columns | {
        name: np.where(idle, getattr(default, name), columns[name]) for name, idle in idle_knobs(columns).items()
    }


def cached_share(columns: Columns, graph: GraphCharacteristics) -> Array:
    """Returns the share of feature rows that fit into the cache next to its index, float64, shape (n_configs,)."""
    for_rows = columns["cache_bytes"] - float(CACHE_INDEX_BYTES * graph.num_nodes)
    return np.asarray(np.clip(for_rows / max(graph.row_bytes * graph.num_nodes, 1.0), 0.0, 1.0))

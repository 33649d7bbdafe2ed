"""Configurations as columns: one array per knob, idle knobs at their default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import AHEAD_BYTES, AHEAD_ROW_BYTES, CACHE_INDEX_BYTES, GraphCharacteristics
from a3gnn.checks import OneOf
from a3gnn.config import KNOBS, SEARCHED, TrainConfig, number_of
from a3gnn.errors import UsageError
from a3gnn.knobs import ALL, NEVER, Knob
from a3gnn.task import Task

#: One array of shape (n_configs,) per knob, as `SearchSpace.columns` returns them.
Columns = Mapping[str, NDArray[Any]]
Array = NDArray[np.float64]

#: The fields of `TrainConfig` that are tuned.
KNOB_NAMES: tuple[str, ...] = tuple(knob.name for knob in KNOBS)

#: Knobs that no stored profile varies. Trees don't get them, because they would draw constant columns in place of
#: others. The analytic model uses them, and so does the Gaussian process over the rows of a setting (`points`).
UNVARIED = ("trainers", "prefetch_depth", "adapt")

#: Most folds of a cross-validation: Hastie et al., "The Elements of Statistical Learning" (2009), section 7.10.1.
MAX_FOLDS = 5
#: Stands for a fanout of all neighbors in logarithms. Guess.
FULL_FANOUT = 100
#: The hops whose fanouts a knob decides.
_HOPS = {"seed_fanout": slice(0, 1), "deep_fanout": slice(1, None)}


def as_columns(configs: Sequence[TrainConfig] | Columns) -> dict[str, NDArray[Any]]:
    """Returns `configs` as canonical columns: configurations that run identically get equal values.

    With a search there is one more column, `SEARCHED`, with the number of each configuration's values (`number_of`).

    Raises:
        UsageError: A knob's column is missing, or the columns differ in length.
    """
    if not isinstance(configs, Mapping):
        numbers = np.array([number_of(config.searched) for config in configs], dtype=np.int64)
        configs = {k.name: np.array([k.coded(getattr(config, k.name)) for config in configs]) for k in KNOBS}
        configs |= {SEARCHED: numbers} if numbers.any() else {}
    missing = [name for name in KNOB_NAMES if name not in configs]
    if missing:
        raise UsageError(f"columns must have every knob, but {', '.join(missing)} are missing; see SearchSpace.columns")
    lengths = {name: len(configs[name]) for name in KNOB_NAMES}
    if len(set(lengths.values())) > 1:
        raise UsageError(f"columns must have the same length, got {lengths}")
    columns = {name: np.asarray(configs[name]) for name in (*KNOB_NAMES, SEARCHED) if name in configs}
    return columns | {
        knob.name: np.where(knob.idle.holds(columns), knob.coded(knob.default), columns[knob.name])
        for knob in KNOBS
        if knob.idle != NEVER
    }


def knob_values(knob: Knob, columns: Columns, task: Task) -> Array:
    """Returns the values of `knob`, float64, shape (n_configs,): log2 of a number, or the index of a choice.

    A number on a linear scale, which may be 0, gives log2(1 + n). A fanout gives log2 of the sampled in-neighbors,
    averaged over the further hops.
    """
    if knob.name in _HOPS:
        return _mean_log2(fanouts(columns, task)[_HOPS[knob.name]], len(columns[knob.name]))
    values = columns[knob.name]
    if isinstance(knob.domain, OneOf):
        choices = knob.domain.choices
        return np.asarray(np.select([values == choice for choice in choices], range(len(choices))) * 1.0)
    return np.asarray(np.log2(values + 1.0) if knob.scale == "linear" else np.log2(values))


def fanouts(columns: Columns, task: Task) -> list[Array]:
    """Returns the in-neighbors that are sampled per node at each hop, the seeds' first, as `TrainConfig.fanouts` does.

    Each is float64, shape (n_configs,); infinite where all are taken.
    """
    hops = [columns["seed_fanout"], *[columns["deep_fanout"]] * (task.num_layers - 1)]
    own = [np.inf if fanout < 0 else float(fanout) for fanout in task.fanouts]
    found = [np.where(hop == 0, fanout, hop) for hop, fanout in zip(hops, own, strict=True)]
    return [np.where(is_whole(columns), np.inf, hop) for hop in found]


def is_whole(columns: Columns) -> NDArray[np.bool_]:
    """Returns which configurations train on the whole graph at once, bool, shape (n_configs,)."""
    return np.asarray(columns["batch_size"] == ALL)


def _mean_log2(hops: Sequence[Array], count: int) -> Array:
    """Returns the mean of log2 of the fanouts of `hops`, float64, shape (count,); 0 without hops."""
    logs = [np.log2(np.where(np.isinf(fanout), FULL_FANOUT, fanout)) for fanout in hops]
    return np.asarray(np.mean(logs, axis=0) if logs else np.zeros(count))


def reads_table(columns: Columns) -> NDArray[np.bool_]:
    """Returns which configurations read a table, bool, shape (n_configs,)."""
    return np.asarray(columns["input_aggregation"] == "full")


def stored_row_bytes(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the mean bytes of a row as tiers and caches hold it, float64, shape (n_configs,)."""
    return _single_row_bytes(columns, task, graph) * stored_share(columns, task, graph)


def stored_share(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the ratio of a row's bytes to its bytes without float16, float64, shape (n_configs,)."""
    value_bytes = np.where(reads_table(columns), 4.0, graph.value_bytes)
    saved = (value_bytes - 2.0) * row_entries(columns, task, graph) / _single_row_bytes(columns, task, graph)
    return np.where(columns["feature_dtype"] == "float16", 1.0 - saved, 1.0)


def _single_row_bytes(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    in_table = graph.table_bytes(task.table_model) / max(graph.num_nodes, 1)
    return np.maximum(np.where(reads_table(columns), in_table, graph.row_bytes), 1.0)


def served_row_bytes(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the bytes of a row in a mini-batch: float32, and an int32 column number where features are sparse."""
    entries = row_entries(columns, task, graph)
    return 8.0 * entries + 4.0 if graph.sparse_features else 4.0 * entries


def row_entries(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the stored entries of a row, float64, shape (n_configs,); all columns where rows are dense."""
    plain = graph.num_features * (graph.feature_density if graph.sparse_features else 1.0)
    return np.where(reads_table(columns), graph.table_row_entries(task.table_model), plain)


def ahead_rows(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the rows that the policy ahead has room for, float64, shape (n_configs,), samples left out."""
    room = columns["cache_bytes"] - float(AHEAD_BYTES + CACHE_INDEX_BYTES * graph.num_nodes)
    rows = room / (stored_row_bytes(columns, task, graph) + AHEAD_ROW_BYTES)
    return np.asarray(np.where(rows < 1.0, 0.0, np.minimum(rows, graph.num_nodes)))


def cached_share(columns: Columns, task: Task, graph: GraphCharacteristics) -> Array:
    """Returns the share of the rows that fit into the cache next to its index, float64, shape (n_configs,)."""
    for_rows = columns["cache_bytes"] - float(CACHE_INDEX_BYTES * graph.num_nodes)
    of_rows = stored_row_bytes(columns, task, graph) * graph.num_nodes
    return np.asarray(np.clip(for_rows / np.maximum(of_rows, 1.0), 0.0, 1.0))

"""Configurations as points, which the Gaussian process over the knobs takes, and keys of their settings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import KNOBS, PARALLEL_MODES, STATIC_POLICIES, TrainConfig
from a3gnn.setting import Setting
from a3gnn_surrogate.columns import Array, Columns, as_columns, cached_share, knob_values

#: Knobs whose inputs `knob_points` scales one by one.
_SCALED: tuple[str, ...] = (
    *("batch_size", "num_partitions", "bias_rate", "sampling_device", "num_workers", "cache_bytes"),
    *("parallel_mode", "feature_tier", "cache_policy"),
)
#: The others: each number less the default's is an input, and each choice that a search tries besides the default. So
#: the default is 0 in all of them, and points that were stored before a knob existed only lack zeros.
_OTHERS = tuple(knob for knob in KNOBS if knob.name not in _SCALED)
_CHOICES = tuple(
    (knob.name, value) for knob in _OTHERS if knob.scale == "choice" for value in knob.values if value != knob.default
)
_NUMBERS = tuple(knob for knob in _OTHERS if knob.scale != "choice")
#: The Gaussian process's inputs: knobs, scaled such that a unit step matters about equally in each. Guesses.
POINT_NAMES: tuple[str, ...] = (
    *("seeds", "parts", "bias", "device", "workers", "cache", *PARALLEL_MODES, "disk", "dynamic"),
    *(f"{name}={value}" for name, value in _CHOICES),
    *(knob.name for knob in _NUMBERS),
)
#: Inputs that decide how fast a mini-batch is made, and not what is learned from it. If draws are biased, the cache
#: affects learning a little.
_PACE = (
    *("device", "workers", "cache", *PARALLEL_MODES, "disk", "dynamic"),
    *("resources=auto", "trainers", "prefetch_depth"),
)
#: The inputs that affect what is learned, bool, shape (n_points,).
LEARNING_POINTS: NDArray[np.bool_] = np.array([name not in _PACE for name in POINT_NAMES])
#: Inputs that share a length scale of the kernel, and the scale in their units. Fitted on the shipped profiles by
#: `python -m benchmarks.length_scales` (2026-11-26). No profile varies the last two, which have the prior's median.
SHARED_SCALES: tuple[tuple[tuple[str, ...], float], ...] = (
    (("seeds",), 1.6),
    (("seed_order=proximity",), 2.2),
    (("seed_fanout", "deep_fanout"), 2.3),
    (("parts", "partitioner=blocks"), 1.2),
    (("bias",), 5.0),
    (("device", "workers", *PARALLEL_MODES, "resources=auto"), 6.4),
    (("cache", "dynamic"), 9.8),
    (("disk",), 3.7),
    (("compute_dtype=bfloat16", "feature_dtype=float16"), 1.9),
    (("input_aggregation=full",), 0.8),
    (("learning_rate_scale",), 2.6),
    (("trainers", "prefetch_depth"), 2.0),
)
_SCALE_BY_NAME = {name: scale for names, scale in SHARED_SCALES for name in names}
#: The length scale of each input, float64, shape (n_points,).
LENGTH_SCALES: Array = np.array([_SCALE_BY_NAME[name] for name in POINT_NAMES])


def knob_points(columns: Columns, setting: Setting) -> Array:
    """Returns `columns` as points, float64, shape (n_configs, n_points), columns `POINT_NAMES`."""
    graph, task, default = setting.graph, setting.task, as_columns([TrainConfig()])
    modes = [columns["parallel_mode"] == mode for mode in PARALLEL_MODES]
    values: list[NDArray[Any]] = [
        np.log2(np.minimum(columns["batch_size"], max(graph.num_train, 1))) / 2,
        np.log2(columns["num_partitions"]) / 2,
        np.log2(columns["bias_rate"]) / 2,
        columns["sampling_device"] == "cuda",
        np.log2(columns["num_workers"]),
        2 * cached_share(columns, task, graph),
        *modes,
        1.5 * (columns["feature_tier"] == "disk"),
        ~np.isin(columns["cache_policy"], STATIC_POLICIES),
        *(columns[name] == value for name, value in _CHOICES),
        *((knob_values(knob, columns, task) - knob_values(knob, default, task)) / 2 for knob in _NUMBERS),
    ]
    return np.stack(values, axis=1).astype(np.float64)


def kernel_points(columns: Columns, setting: Setting) -> Array:
    """Returns `knob_points` in length scales of the kernel."""
    return knob_points(columns, setting) / LENGTH_SCALES

"""What learners and Gaussian processes take: features of a configuration in its setting, and points of the kernel."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_FRACTIONS, GraphCharacteristics
from a3gnn.config import KNOBS, PARALLEL_MODES, STATIC_POLICIES, TrainConfig
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn_surrogate.columns import FULL_FANOUT, UNVARIED, Array, Columns, as_columns, cached_share, knob_values
from a3gnn_surrogate.search_points import NO_SEARCH, SearchPoints

#: Predictions of the analytic model that are shares or differences; the others enter as logarithms.
_PLAIN_ANALYTIC = ("accuracy_drop", "cache_hit_rate")
_ANALYTIC_NAMES = (
    "throughput_epochs_per_s",
    "peak_host_bytes",
    "peak_device_bytes",
    "accuracy_drop",
    "sample_seconds",
    "gather_seconds",
    "transfer_seconds",
    "train_seconds",
    "steps_per_epoch",
    "input_nodes_per_batch",
    "sampled_edges_per_batch",
    "cache_hit_rate",
)
_GRAPH_SHARES = ("degree_gini", "feature_density", "label_rate", "homophily", "largest_component")
#: Figures of graphs with node types, of which few were measured: the analytic model reads them.
_OF_TYPES = ("relations", "rows_per_node", "ends")
_GRAPH_NAMES = tuple(
    field.name
    for field in dataclasses.fields(GraphCharacteristics)
    if field.name not in ("name", "fingerprint", "cached_edge_mass", "target", "label_spread", *_OF_TYPES)
)
_LIMIT_NAMES = tuple(field.name for field in dataclasses.fields(MachineProfile))
_HARDWARE_NAMES = ("num_cores", "host_memory_bytes", "num_devices", "device_memory_bytes")
#: Models that were measured for the shipped profiles; to trees all others, a user's included, are the same.
_NUMBERS: dict[str, int] = {name: number for number, name in enumerate(("sage", "gcn", "gat", "gin"))}
_TASK_NAMES = ("model", "hidden_channels", "dropout", "learning_rate", "heads")

_KNOBS = tuple(knob for knob in KNOBS if knob.name not in UNVARIED)

#: Columns of the matrix that `knob_features` returns.
KNOB_FEATURES: tuple[str, ...] = (*(f"knob_{knob.name}" for knob in _KNOBS), "knob_cache_share", "knob_seeds")
#: Columns without the analytic model's predictions, for a plain regression.
PLAIN_FEATURES: tuple[str, ...] = (
    *KNOB_FEATURES,
    *(f"graph_{name}" for name in _GRAPH_NAMES),
    *(f"graph_edge_mass_{share:g}" for share in CACHE_FRACTIONS),
    *(f"hardware_{name}" for name in (*_HARDWARE_NAMES, *_LIMIT_NAMES)),
    *(f"task_{name}" for name in _TASK_NAMES),
    "task_layers",
    "task_fanout_product",
)
#: All columns, in the order of the matrix.
FEATURE_NAMES: tuple[str, ...] = (*PLAIN_FEATURES, *(f"analytic_{name}" for name in _ANALYTIC_NAMES))


def feature_matrix(columns: Columns, setting: Setting, analytic: Mapping[str, Array]) -> NDArray[np.float32]:
    """Returns the columns `FEATURE_NAMES` of canonical `columns`, float32, shape (n_configs, n_features)."""
    knobs = knob_features(columns, setting)
    constant = np.array(
        [*_graph_values(setting.graph), *_hardware_values(setting.hardware), *_task_values(setting.task)]
    )
    predicted = [
        analytic[name] if name in _PLAIN_ANALYTIC else np.log(np.maximum(analytic[name], 1e-12))
        for name in _ANALYTIC_NAMES
    ]
    matrix = np.empty((len(knobs), len(FEATURE_NAMES)), dtype=np.float32)
    split = knobs.shape[1] + len(constant)
    matrix[:, : knobs.shape[1]] = knobs
    matrix[:, knobs.shape[1] : split] = constant
    matrix[:, split:] = np.stack(predicted, axis=1)
    return matrix


def knob_features(columns: Columns, setting: Setting) -> Array:
    """Returns the columns `KNOB_FEATURES`, float64, shape (n_configs, n): log2 of numbers, index of names."""
    values = [knob_values(knob, columns, setting.task) for knob in _KNOBS]
    values.append(cached_share(columns, setting.task, setting.graph))
    values.append(np.log2(np.minimum(columns["batch_size"], max(setting.graph.num_train, 1))))
    return np.stack(values, axis=1)


def _graph_values(graph: GraphCharacteristics) -> list[float]:
    numbers = [float(getattr(graph, name)) for name in _GRAPH_NAMES]
    scaled = [
        number if name in _GRAPH_SHARES else math.log1p(number)
        for name, number in zip(_GRAPH_NAMES, numbers, strict=True)
    ]
    return [*scaled, *graph.cached_edge_mass]


def _hardware_values(hardware: Hardware) -> list[float]:
    own = [math.log1p(getattr(hardware, name)) for name in _HARDWARE_NAMES]
    return own + [math.log(max(getattr(hardware.profile, name), 1e-9)) for name in _LIMIT_NAMES]


def _task_values(task: Task) -> list[float]:
    model = _NUMBERS.get(task.model, len(_NUMBERS))
    fields = {"model": model, "hidden_channels": math.log2(task.hidden_channels)}
    fields |= {"dropout": task.dropout, "learning_rate": math.log10(task.learning_rate), "heads": task.heads}
    product = math.prod(fanout if fanout > 0 else FULL_FANOUT for fanout in task.fanouts)
    return [*(float(fields[name]) for name in _TASK_NAMES), float(task.num_layers), math.log(product)]


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
_NUMERIC = tuple(knob for knob in _OTHERS if knob.scale != "choice")
#: The Gaussian process's inputs: knobs, scaled such that a unit step matters about equally in each. Guesses.
POINT_NAMES: tuple[str, ...] = (
    *("seeds", "parts", "bias", "device", "workers", "cache", *PARALLEL_MODES, "disk", "dynamic"),
    *(f"{name}={value}" for name, value in _CHOICES),
    *(knob.name for knob in _NUMERIC),
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
        *((knob_values(knob, columns, task) - knob_values(knob, default, task)) / 2 for knob in _NUMERIC),
    ]
    return np.stack(values, axis=1).astype(np.float64)


def kernel_points(columns: Columns, setting: Setting, search: SearchPoints = NO_SEARCH) -> Array:
    """Returns `knob_points` in length scales of the kernel, and then the inputs of a search."""
    points = knob_points(columns, setting) / LENGTH_SCALES
    return np.hstack([points, search.at(columns, len(points))]) if search.names else points


def learning_inputs(points: Array) -> Array:
    """Returns the inputs of `points` that affect what is learned: all of a search's do."""
    further = points.shape[1] - len(LEARNING_POINTS)
    return points[:, np.concatenate([LEARNING_POINTS, np.ones(further, dtype=np.bool_)])]

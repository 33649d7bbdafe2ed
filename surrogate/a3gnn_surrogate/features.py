"""The features of the regression, by name: knobs, graph, machine, task, and the analytic model's predictions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import CACHE_FRACTIONS, GraphCharacteristics
from a3gnn.config import KNOBS
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn_surrogate.columns import FULL_FANOUT, UNVARIED, Array, Columns, cached_share, knob_values

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
_GRAPH_NAMES = tuple(
    field.name
    for field in dataclasses.fields(GraphCharacteristics)
    if field.name not in ("name", "fingerprint", "cached_edge_mass", "target", "label_spread")
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

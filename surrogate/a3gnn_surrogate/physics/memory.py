"""Peak memory of a trial: what cannot be reclaimed on the host, and what the device holds."""

from __future__ import annotations

import numpy as np

from a3gnn.characteristics import AHEAD_BYTES, AHEAD_ROW_BYTES, CACHE_INDEX_BYTES
from a3gnn.config import AHEAD
from a3gnn.hardware import Hardware
from a3gnn.measurement import Metrics
from a3gnn.setting import Setting
from a3gnn_surrogate.columns import Array, Columns, ahead_rows, is_whole, stored_row_bytes
from a3gnn_surrogate.physics.model_cost import ModelCost
from a3gnn_surrogate.physics.stage_seconds import Calibration
from a3gnn_surrogate.physics.volume import BatchVolume, ahead_batches, topology_bytes

#: Largest bytes of full-neighbor evaluation, and bytes of everything else in a trial. Guesses; the first is twice
#: `a3gnn.evaluation.inference.CHUNK_BYTES`.
_EVALUATION_BYTES, _OTHER_BYTES = 64 * 2**20, 8 * 2**20
#: Copies of the evaluated rows, if these are too few to take that much. Guess.
_EVALUATION_COPIES = 2.0
#: Bytes that importing PyG's modules takes, if layers use them (`a3gnn.profiling.executor`).
_MODULE_BYTES = 64 * 2**20
#: Bytes that oneDNN compiles for bfloat16 products, a kernel per shape: 20 MiB after a hundred mini-batches of one
#: layer.
_KERNEL_BYTES = 20 * 2**20
#: Copies of the weights: the weights, their gradient and Adam's two moments.
_WEIGHT_COPIES = 4
#: Copies of the activations: the results of forward, and their gradients.
_FORWARD_AND_BACKWARD = 2.0
#: Extra bytes of a trial that trains over one that only times mini-batches, because the C library keeps freed blocks.
#: The median of the profiles: `python -m benchmarks.trial_memory` at commit 10d4978.
_KEPT_BYTES = 15 * 2**20


#: Bytes per edge that layers derive once from the whole graph and keep: edges by source, their places and weights.
#: Guess: counted for one block.
_KEPT_EDGE_BYTES = 24.0


def training_peak(metrics: Metrics, hardware: Hardware) -> float:
    """Returns the peak host memory in bytes that a trial would have had if it had trained.

    Stored trials from before `Metrics.rehearsal_seconds` whose curve was known took less than a training. On a machine
    with a device, which holds what training computes, the peak is as measured.
    """
    trained = metrics.curve_train_seconds > 0 or metrics.rehearsal_seconds > 0
    if trained or metrics.val_accuracy is not None or hardware.has_device:  # the accuracy is of measurement version 2
        return float(metrics.peak_host_bytes)
    return float(metrics.peak_host_bytes + _KEPT_BYTES)


def host_bytes_above_idle(
    columns: Columns, volume: BatchVolume, cost: ModelCost, setting: Setting, calibration: Calibration
) -> Array:
    """Returns the peak of anonymous memory less that of an idle trial, in bytes, float64, shape (n_configs,).

    It is the sum of `MEMORY_TERMS`, each times its factor of `calibration` (A3GNN, Eqs. 3 and 5).
    """
    return np.asarray(memory_terms(columns, volume, cost, setting) @ np.array(calibration.memory))


def memory_terms(columns: Columns, volume: BatchVolume, cost: ModelCost, setting: Setting) -> Array:
    """Returns the bytes of each of `MEMORY_TERMS` by the equations, float64, shape (n_configs, n_terms).

    Memory-mapped topology and features on disk are reclaimable and do not count. A partitioned graph has one part's
    features at a time in RAM. If there is a device, it holds what training computes, and the cache unless its policy is
    ahead. A share of all nodes' hidden rows is assumed to be in memory while they are evaluated; stored peaks support
    that. Each of several trainers has its weights. What a trainer on the processors computes next to a device
    is not counted.
    """
    graph, hardware, row_bytes = setting.graph, setting.hardware, stored_row_bytes(columns, setting.task, setting.graph)
    in_ram = columns["feature_tier"] == "ram"
    partitioned = columns["num_partitions"] > 1
    index = np.where(partitioned, float(CACHE_INDEX_BYTES * graph.num_nodes), 0.0)
    features = np.where(in_ram, row_bytes * graph.num_nodes / columns["num_partitions"] + index, 0.0)
    ahead = columns["cache_policy"] == AHEAD
    cache = np.where(ahead, _ahead_bytes(columns, volume, setting) * ~in_ram, cache_bytes(columns, setting))
    cache = np.where(~ahead & hardware.has_device, 0.0, cache)
    reordered = (columns["bias_rate"] > 1) & (columns["cache_bytes"] > 0)
    adjacency = np.where(reordered, 4.0 * graph.num_edges * volume.kept_edges, 0.0)
    workers = columns["num_workers"].astype(np.float64)
    overlapped = columns["parallel_mode"] != "sequential"
    relabeling = 4.0 * graph.num_nodes * np.where(overlapped, workers, 1.0)
    trains = 0.0 if hardware.has_device else 1.0
    activations = trains * _activation_bytes(cost)
    weights = columns["trainers"] * trains * _weight_bytes(cost)
    evaluation = np.full_like(activations, _evaluation_bytes(setting))
    width = 0 if setting.task.is_own else setting.task.hidden_channels
    evaluated_rows = np.full_like(activations, 4.0 * graph.num_nodes * width)
    modules = np.full_like(activations, float(_MODULE_BYTES * setting.task.uses_pyg))
    kernels = trains * _KERNEL_BYTES * (columns["compute_dtype"] == "bfloat16")
    batches = _in_flight(columns, volume, cost)
    training = [features, cache, adjacency, relabeling, batches, activations, weights]
    return np.stack([*training, evaluation, evaluated_rows, modules, kernels], axis=1)


def peak_device_bytes(columns: Columns, volume: BatchVolume, cost: ModelCost, setting: Setting) -> Array:
    """Returns the peak of device memory, context included, float64, shape (n_configs,); 0 without a device."""
    graph, hardware = setting.graph, setting.hardware
    if not hardware.has_device:
        return np.zeros_like(volume.seeds)
    batch = cost.input_bytes + topology_bytes(volume.nodes, volume.edges)
    topology = np.where(columns["sampling_device"] == "cuda", 4.0 * graph.num_edges + 8.0 * graph.num_nodes, 0.0)
    cache = np.where(columns["cache_policy"] == AHEAD, 0.0, cache_bytes(columns, setting))
    fixed = hardware.profile.idle_device_bytes + cache + topology
    return np.asarray(fixed + batch + _activation_bytes(cost) + _weight_bytes(cost) + _evaluation_bytes(setting))


def cache_bytes(columns: Columns, setting: Setting) -> Array:
    """Returns the bytes that the cache really takes, index included: at most those of all rows and their positions."""
    row_bytes = stored_row_bytes(columns, setting.task, setting.graph)
    return np.minimum(columns["cache_bytes"], (row_bytes + CACHE_INDEX_BYTES) * setting.graph.num_nodes)


def _ahead_bytes(columns: Columns, volume: BatchVolume, setting: Setting) -> Array:
    """Returns the bytes that the policy ahead takes, float64, shape (n_configs,): none if not one row fits.

    `cache_bytes` bounds rows, maps, blocks under way and the samples of mini-batches, and all of these may be less.
    """
    rows, graph = ahead_rows(columns, setting.task, setting.graph), setting.graph
    of_rows = (stored_row_bytes(columns, setting.task, graph) + AHEAD_ROW_BYTES + CACHE_INDEX_BYTES) * graph.num_nodes
    samples = np.sum(ahead_batches(columns, graph), axis=0) * topology_bytes(volume.nodes, volume.edges)
    return np.where(rows > 0, np.minimum(columns["cache_bytes"], AHEAD_BYTES + of_rows + samples), 0.0)


def _in_flight(columns: Columns, volume: BatchVolume, cost: ModelCost) -> Array:
    """Returns the bytes of mini-batches between sampling and training: one, and those that workers hold ready."""
    topology = topology_bytes(volume.nodes, volume.edges)
    ready, depth = columns["num_workers"] + 1.0, columns["prefetch_depth"]
    whole = np.where(columns["parallel_mode"] == "mode1", ready, 1.0 + 2 * depth)
    refused = (columns["cache_policy"] == AHEAD) & (columns["feature_tier"] == "disk")  # sampled, and has no room yet
    sampled = np.where(columns["parallel_mode"] == "sequential", 1.0 + refused + 3 * depth, ready)
    kept = _KEPT_EDGE_BYTES * volume.sampled_edges * is_whole(columns)
    return whole * cost.input_bytes + sampled * topology + kept


def _evaluation_bytes(setting: Setting) -> float:
    graph, task = setting.graph, setting.task
    if task.own is not None:
        return float(task.own.pass_bytes)
    rows = 4.0 * (2 * graph.num_features + 2 * task.hidden_channels) * graph.num_nodes  # of the input layer
    return _OTHER_BYTES + min(_EVALUATION_BYTES, _EVALUATION_COPIES * rows)


def _activation_bytes(cost: ModelCost) -> Array:
    return _FORWARD_AND_BACKWARD * cost.activation_bytes


def _weight_bytes(cost: ModelCost) -> float:
    return 4.0 * _WEIGHT_COPIES * cost.parameters

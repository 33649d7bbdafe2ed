"""The analytic model: metrics from the graph's characteristics and the probe's constants, without any measurement."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.hardware import Hardware
from a3gnn.setting import Setting
from a3gnn_surrogate.columns import Array, Columns, as_columns
from a3gnn_surrogate.physics import memory
from a3gnn_surrogate.physics.accuracy import accuracy_drop, drop_at_equal_steps, log_epochs_ratio, log_epochs_to_learn
from a3gnn_surrogate.physics.model_cost import ModelCost, model_cost
from a3gnn_surrogate.physics.stage_seconds import (
    OPTIMIZER_BYTES,
    TRAIN_TERMS,
    UNCALIBRATED,
    Calibration,
    PredictedStageSeconds,
    batch_seconds,
    epoch_overhead,
    stage_seconds,
    train_terms,
)
from a3gnn_surrogate.physics.volume import BatchVolume, batch_volume

#: Number of the first `TRAIN_TERMS`, which grow with seeds. Each trainer pays the others in full, whatever its share.
_BY_SEEDS = TRAIN_TERMS.index("optimiser")
#: Bytes per parameter to send a trainer's gradients and to return their sum (Eq. 13).
_SUMMED_BYTES = 8.0


def with_shares(
    columns: Columns, volume: BatchVolume, cost: ModelCost, setting: Setting
) -> tuple[BatchVolume, ModelCost]:
    """Returns volume and cost with the shares of several trainers; one trainer's stay as they are.

    Shares reach some nodes several times, so together they read and compute more than the whole (Eqs. 7 and 10 to 12).
    Neighbors are sampled once, for the whole. Trainers on processors alone divide the cores and have equal shares, so
    together they take what their work takes on all cores. If there are devices, the cost is that of one device. The
    other devices, and the processors if they train, take as long for their shares.
    """
    several = columns["trainers"] > 1
    if not several.any():
        return volume, cost
    own = {name: column[several] for name, column in columns.items()}
    on_devices = np.minimum(own["trainers"], setting.hardware.num_devices).astype(np.float64)
    on_processors, seeds = own["trainers"] - on_devices, volume.seeds[several]
    processors = _share_of_processors(own, on_devices, setting)
    each = seeds * processors / np.maximum(on_processors, 1.0), seeds * (1 - processors) / np.maximum(on_devices, 1.0)
    numbers = on_processors, on_devices
    found = [batch_volume(own | {"batch_size": np.maximum(one, 1.0)}, setting.task, setting.graph) for one in each]
    nodes = [_sum(numbers, [one.nodes[hop] for one in found]) for hop in range(len(volume.nodes))]
    edges = [_sum(numbers, [one.edges[hop] for one in found]) for hop in range(len(volume.edges))]
    held = dataclasses.replace(
        volume,
        nodes=tuple(_put(old, several, new) for old, new in zip(volume.nodes, nodes, strict=True)),
        edges=tuple(_put(old, several, new) for old, new in zip(volume.edges, edges, strict=True)),
    )
    has_device = setting.hardware.has_device
    one = model_cost(own, found[has_device], setting.task, setting.graph)
    times = 1.0 if has_device else on_processors
    summed = _summed_bytes(on_processors, setting.hardware) * one.parameters
    return held, dataclasses.replace(
        cost,
        gemm_flops=_put(cost.gemm_flops, several, times * one.gemm_flops),
        spmm_bytes=_put(cost.spmm_bytes, several, times * one.spmm_bytes + summed),
        activation_bytes=_put(cost.activation_bytes, several, times * one.activation_bytes),
        input_bytes=_put(cost.input_bytes, several, times * one.input_bytes),
    )


def _share_of_processors(own: Columns, on_devices: Array, setting: Setting) -> Array:
    """Returns the share of the seeds that processors train, so that they take as long as each device."""
    hardware = setting.hardware
    if not hardware.has_device:
        return np.ones_like(on_devices)
    cost = model_cost(own, batch_volume(own, setting.task, setting.graph), setting.task, setting.graph)
    host = train_terms(cost, dataclasses.replace(hardware, num_devices=0))[:, :_BY_SEEDS].sum(axis=1)
    device = train_terms(cost, hardware)[:, :_BY_SEEDS].sum(axis=1)
    return np.where(own["trainers"] > on_devices, device / (device + on_devices * host), 0.0)


def _summed_bytes(on_processors: Array, hardware: Hardware) -> Array:
    """Returns the traffic per parameter that takes as long as summing gradients and updating several copies.

    Devices send their gradients over their links, all at once. Processors read and write all gradients, and update one
    more copy for each trainer but the first.
    """
    limits = hardware.profile
    if hardware.has_device:
        traffic_per_sent = limits.device_traffic_bytes_per_s / max(limits.host_to_device_bytes_per_s, 1.0)
        return np.full_like(on_processors, _SUMMED_BYTES * traffic_per_sent)
    return _SUMMED_BYTES * on_processors + OPTIMIZER_BYTES * (on_processors - 1)


def _put(before: Array, several: NDArray[np.bool_], values: Array) -> Array:
    """Returns `before` with `values` for configurations with several trainers."""
    found = before.copy()
    found[several] = values
    return found


def _sum(numbers: tuple[Array, Array], values: list[Array]) -> Array:
    return np.asarray(sum(number * one for number, one in zip(numbers, values, strict=True)))


class Work(NamedTuple):
    """Contents of a mini-batch of each configuration, and cost of a training step on it."""

    volume: BatchVolume
    cost: ModelCost


def expected_work(columns: Columns, setting: Setting) -> Work:
    """Returns the work of canonical `columns` (`as_columns`), which no calibration changes."""
    volume = batch_volume(columns, setting.task, setting.graph)
    cost = model_cost(columns, volume, setting.task, setting.graph)
    return Work(*with_shares(columns, volume, cost, setting))


def analytic_metrics(
    columns: Columns, setting: Setting, calibration: Calibration = UNCALIBRATED, work: Work | None = None
) -> dict[str, Array]:
    """Returns the analytic model's predictions for canonical `columns` (`as_columns`), each float64, (n_configs,).

    Keys: `OUTPUTS`, of which `epochs_to_accuracy` is the logarithm of a ratio; `peak_host_bytes`; then the intermediate
    results: seconds per stage, seconds between mini-batches, and nodes, edges and hit rate per mini-batch.

    Args:
        columns: Canonical columns.
        setting: The task, the graph and the machine.
        calibration: Factors on the seconds of the stages, and on the parts of memory.
        work: `expected_work` of the columns, if already computed.
    """
    work = work or expected_work(columns, setting)
    volume, cost = work
    seconds, tau, throughput = _expected_pace(columns, work, setting, calibration)
    to_learn = log_epochs_to_learn(columns, volume, setting.task, setting.graph)
    progress = throughput / _default_throughput(setting, calibration) / np.exp(to_learn)
    drop = drop_at_equal_steps(columns, volume, setting.graph)
    above_idle = memory.host_bytes_above_idle(columns, volume, cost, setting, calibration)
    return {
        "throughput_epochs_per_s": throughput,
        "host_bytes_above_idle": above_idle,
        "peak_host_bytes": setting.hardware.profile.idle_host_bytes + above_idle,
        "peak_device_bytes": memory.peak_device_bytes(columns, volume, cost, setting),
        "accuracy_drop": accuracy_drop(drop, setting.graph, progress),
        "epochs_to_accuracy": log_epochs_ratio(to_learn, drop),
        "sample_seconds": seconds.sample,
        "gather_seconds": seconds.gather,
        "transfer_seconds": seconds.transfer,
        "train_seconds": seconds.train,
        "batch_seconds": tau,
        "steps_per_epoch": volume.steps,
        "input_nodes_per_batch": volume.input_nodes,
        "sampled_edges_per_batch": volume.sampled_edges,
        "cache_hit_rate": volume.hit_rate,
    }


class _Pace(NamedTuple):
    """Seconds per stage, seconds between mini-batches, and epochs per second; arrays are float64, (n_configs,)."""

    stages: PredictedStageSeconds
    batch_s: Array
    throughput: Array


def _expected_pace(columns: Columns, work: Work, setting: Setting, calibration: Calibration) -> _Pace:
    stages = stage_seconds(columns, work.volume, work.cost, setting, calibration)
    batch_s = batch_seconds(columns, stages, setting.hardware)
    return _Pace(stages, batch_s, 1 / (work.volume.batches * batch_s + epoch_overhead(columns, setting)))


@lru_cache(maxsize=256)
def _default_throughput(setting: Setting, calibration: Calibration) -> float:
    """Returns the epochs per second of the default configuration, cached for all batches of a search."""
    columns = as_columns([TrainConfig()])
    return float(_expected_pace(columns, expected_work(columns, setting), setting, calibration).throughput[0])

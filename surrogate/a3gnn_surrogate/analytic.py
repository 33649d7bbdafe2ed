"""The analytic model: metrics from the graph's characteristics and the probe's constants, without any measurement."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.setting import Setting
from a3gnn_surrogate import memory
from a3gnn_surrogate.accuracy import accuracy_drop
from a3gnn_surrogate.calibration import UNCALIBRATED, Calibration
from a3gnn_surrogate.columns import Array, Columns, as_columns
from a3gnn_surrogate.epochs import log_epochs_ratio, log_epochs_to_learn
from a3gnn_surrogate.model_cost import ModelCost, model_cost
from a3gnn_surrogate.stage_seconds import batch_seconds, epoch_overhead, stage_seconds
from a3gnn_surrogate.volume import BatchVolume, batch_volume


class Work(NamedTuple):
    """What a mini-batch of each configuration holds, and what a training step on it costs."""

    volume: BatchVolume
    cost: ModelCost


def expected_work(columns: Columns, setting: Setting) -> Work:
    """Returns the work of canonical `columns` (`as_columns`), which no calibration changes."""
    volume = batch_volume(columns, setting.task, setting.graph)
    return Work(volume, model_cost(columns, volume, setting.task, setting.graph))


def analytic_metrics(
    columns: Columns, setting: Setting, calibration: Calibration = UNCALIBRATED, work: Work | None = None
) -> dict[str, Array]:
    """Returns what the analytic model predicts for canonical `columns` (`as_columns`), each float64, (n_configs,).

    Keys: `throughput_epochs_per_s`, `peak_host_bytes`, `peak_device_bytes`, `accuracy_drop` and `epochs_to_accuracy`,
    the logarithm of a ratio; then what these are computed from: seconds per stage, seconds between mini-batches, and
    nodes, edges and hit rate per mini-batch.

    Args:
        columns: Canonical.
        setting: What is trained, on which graph and machine.
        calibration: Factors on the seconds of the stages.
        work: `expected_work` of the columns, if it is known.
    """
    volume, cost = work or expected_work(columns, setting)
    seconds = stage_seconds(columns, volume, cost, setting, calibration)
    tau = batch_seconds(columns, seconds, setting.hardware)
    throughput = 1 / (volume.batches * tau + epoch_overhead(columns, setting))
    needed = np.exp(log_epochs_to_learn(columns, volume, setting.task, setting.graph))
    progress = throughput / _default_throughput(setting, calibration) / needed
    return {
        "throughput_epochs_per_s": throughput,
        "peak_host_bytes": memory.peak_host_bytes(columns, volume, cost, setting),
        "peak_device_bytes": memory.peak_device_bytes(columns, volume, cost, setting),
        "accuracy_drop": accuracy_drop(columns, volume, setting.graph, progress),
        "epochs_to_accuracy": log_epochs_ratio(columns, volume, setting.task, setting.graph),
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


def _default_throughput(setting: Setting, calibration: Calibration) -> float:
    """Returns the epochs per second of the default configuration."""
    columns = as_columns([TrainConfig()])
    volume, cost = expected_work(columns, setting)
    tau = batch_seconds(columns, stage_seconds(columns, volume, cost, setting, calibration), setting.hardware)
    return float(1 / (volume.batches * tau + epoch_overhead(columns, setting))[0])

"""The analytic model: metrics from the graph's characteristics and the probe's constants, without any measurement."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from a3gnn.config import TrainConfig
from a3gnn.setting import Setting
from a3gnn_surrogate import memory
from a3gnn_surrogate.accuracy import accuracy_drop, drop_at_equal_steps, log_epochs_ratio, log_epochs_to_learn
from a3gnn_surrogate.calibration import UNCALIBRATED, Calibration
from a3gnn_surrogate.columns import Array, Columns, as_columns
from a3gnn_surrogate.model_cost import ModelCost, model_cost
from a3gnn_surrogate.shares import with_shares
from a3gnn_surrogate.stage_seconds import PredictedStageSeconds, batch_seconds, epoch_overhead, stage_seconds
from a3gnn_surrogate.volume import BatchVolume, batch_volume


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
    stages = stage_seconds(columns, *work, setting, calibration)
    batch_s = batch_seconds(columns, stages, setting.hardware)
    return _Pace(stages, batch_s, 1 / (work.volume.batches * batch_s + epoch_overhead(columns, setting)))


@lru_cache(maxsize=256)
def _default_throughput(setting: Setting, calibration: Calibration) -> float:
    """Returns the epochs per second of the default configuration, cached for all batches of a search."""
    columns = as_columns([TrainConfig()])
    return float(_expected_pace(columns, expected_work(columns, setting), setting, calibration).throughput[0])

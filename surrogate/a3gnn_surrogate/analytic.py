"""The analytic model: metrics from the graph's characteristics and the probe's constants, without any measurement."""

from __future__ import annotations

from a3gnn.setting import Setting
from a3gnn_surrogate import memory
from a3gnn_surrogate.accuracy import accuracy_drop
from a3gnn_surrogate.columns import Array, Columns
from a3gnn_surrogate.model_cost import model_cost
from a3gnn_surrogate.stage_seconds import batch_seconds, epoch_overhead, stage_seconds
from a3gnn_surrogate.volume import batch_volume


def analytic_metrics(columns: Columns, setting: Setting) -> dict[str, Array]:
    """Returns what the analytic model predicts for canonical `columns` (`as_columns`), each float64, (n_configs,).

    Keys: `throughput_epochs_per_s`, `peak_host_bytes`, `peak_device_bytes` and `accuracy_drop`, then what these are
    computed from: seconds per stage, seconds between mini-batches, and nodes, edges and hit rate per mini-batch.
    """
    task, graph = setting.task, setting.graph
    volume = batch_volume(columns, task, graph)
    cost = model_cost(volume, task, graph)
    work = stage_seconds(columns, volume, cost, setting)
    tau = batch_seconds(columns, work, setting.hardware)
    return {
        "throughput_epochs_per_s": 1 / (volume.batches * tau + epoch_overhead(columns, setting)),
        "peak_host_bytes": memory.peak_host_bytes(columns, volume, cost, setting),
        "peak_device_bytes": memory.peak_device_bytes(columns, volume, cost, setting),
        "accuracy_drop": accuracy_drop(columns, volume, graph),
        "sample_seconds": work.sample,
        "gather_seconds": work.gather,
        "transfer_seconds": work.transfer,
        "train_seconds": work.train,
        "batch_seconds": tau,
        "steps_per_epoch": volume.steps,
        "input_nodes_per_batch": volume.input_nodes,
        "sampled_edges_per_batch": volume.sampled_edges,
        "cache_hit_rate": volume.hit_rate,
    }

"""Seconds a mini-batch in each stage, and how the parallel modes overlap them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import DYNAMIC_POLICIES
from a3gnn.hardware import Hardware
from a3gnn_surrogate.columns import Columns
from a3gnn_surrogate.model_cost import ModelCost, served_row_bytes
from a3gnn_surrogate.volume import BatchVolume

Array = NDArray[np.float64]

#: Cost of a biased draw over a uniform one: 6.7 against 5.3 ms a mini-batch.
_BIASED_DRAW = 1.25
#: A device samples as many times faster than one thread.
_DEVICE_SAMPLING_SPEEDUP = 8.0
#: Share of the measured loss of two threads that grows with their pairs, not with their number.
_PAIRWISE_SHARE = 0.1
#: Exponent of the norm between sum (1) and maximum (infinity) of stages that overlap.
_OVERLAP_NORM = 4.0
#: Bytes that Adam reads and writes a parameter: weight, gradient and two moments.
_OPTIMISER_BYTES = 28.0


@dataclass(frozen=True, slots=True)
class Stages:
    """Work a mini-batch, seconds, each float64, shape (n_configs,): sampling, gathering, copying over, training."""

    sample: Array
    gather: Array
    transfer: Array
    train: Array


def topology_bytes(volume: BatchVolume) -> Array:
    """Returns the bytes of a mini-batch's ids and CSR: int32 each, float64, shape (n_configs,)."""
    return 4.0 * (2 * volume.input_nodes + volume.sampled_edges)


def stages(
    columns: Columns, volume: BatchVolume, cost: ModelCost, graph: GraphCharacteristics, hardware: Hardware
) -> Stages:
    """Returns the seconds of work in each stage (HyScale-GNN's Eqs. 7, 8, 11 and 12 with the probe's constants)."""
    limits = hardware.limits
    reads = (volume.sampled_edges + volume.input_nodes) * np.where(columns["bias_rate"] > 1, _BIASED_DRAW, 1.0)
    on_device = columns["sampling_device"] == "cuda"
    sample = reads / limits.random_reads_per_s / np.where(on_device, _DEVICE_SAMPLING_SPEEDUP, 1.0)
    served = volume.input_nodes * served_row_bytes(graph)
    hits, misses = served * volume.hit_rate, served * (1 - volume.hit_rate)
    stored = volume.input_nodes * (1 - volume.hit_rate) * graph.row_bytes
    from_disk = np.where(columns["feature_tier"] == "disk", stored / limits.disk_read_bytes_per_s, 0.0)
    # A row that a dynamic cache takes in is copied once more, and each look-up writes what it will evict by.
    replaced = np.isin(columns["cache_policy"], DYNAMIC_POLICIES)
    upkeep = np.where(replaced, volume.input_nodes / limits.random_reads_per_s + misses / limits.copy_bytes_per_s, 0.0)
    # A device's cache is read at the device's speed, which is nothing beside the host's.
    copied = misses if hardware.has_device else hits + misses
    # All cores gather, but for workers of mode 1 that work beside a device.
    alone = (columns["parallel_mode"] == "mode1") & hardware.has_device
    teams = np.where(alone, 1.0, _team_speed(hardware))
    gather = (copied / limits.copy_bytes_per_s + from_disk) / teams + upkeep
    transfer = np.zeros_like(gather)
    if hardware.has_device:
        topology = np.where(on_device, 0.0, topology_bytes(volume))
        transfer = (misses + topology) / max(limits.host_to_device_bytes_per_s, 1.0)
    return Stages(sample, gather, transfer, _train_seconds(cost, hardware))


def _train_seconds(cost: ModelCost, hardware: Hardware) -> Array:
    limits = hardware.limits
    flops, traffic = limits.gemm_flops_per_s, limits.spmm_bytes_per_s
    if hardware.has_device:
        # Bandwidth of a device is not probed; over machines it grows about as the root of its arithmetic.
        traffic *= max(limits.device_gemm_flops_per_s / flops, 1.0) ** 0.5
        flops = max(limits.device_gemm_flops_per_s, 1.0)
    optimiser = _OPTIMISER_BYTES * cost.parameters / traffic
    return cost.gemm_flops / flops + cost.spmm_bytes / traffic + optimiser + limits.batch_overhead_s


def _team_speed(hardware: Hardware) -> float:
    """Returns how many times faster than one thread all cores copy rows."""
    return 1 + (hardware.num_cores - 1) * hardware.limits.thread_efficiency


def effective_workers(num_workers: NDArray[np.int64], hardware: Hardware) -> Array:
    """Returns n_eff = n / (1 + s (n - 1) + k n (n - 1)), clipped by cores and never less than one, float64.

    s and k reproduce the probe's efficiency of two threads.
    """
    n = num_workers.astype(np.float64)
    loss = 1 / hardware.limits.thread_efficiency - 1
    s, k = loss * (1 - _PAIRWISE_SHARE), loss * _PAIRWISE_SHARE / 2
    return np.clip(n / (1 + s * (n - 1) + k * n * (n - 1)), 1.0, hardware.num_cores)


def batch_seconds(columns: Columns, work: Stages, hardware: Hardware) -> Array:
    """Returns the seconds between mini-batches, float64, shape (n_configs,).

    sequential: t_s + t_b + t_t; mode 1: max(t_t, (t_s + t_b) / n_eff); mode 2: max(t_b + t_t, t_s / n_eff)
    (A3GNN, Eqs. 2 and 4), the maximum softened by a q-norm. Without a device training takes all cores, so overlap
    can at best fill the cores that sampling leaves idle; and where it would lose, workers and training take turns.
    """
    generate = work.gather + work.transfer
    mode1 = columns["parallel_mode"] == "mode1"
    ahead = np.where(mode1, work.sample + generate, work.sample)
    behind = np.where(mode1, work.train, work.train + generate)
    produced = ahead / effective_workers(columns["num_workers"], hardware)
    overlapped = (produced**_OVERLAP_NORM + behind**_OVERLAP_NORM) ** (1 / _OVERLAP_NORM)
    if not hardware.has_device:
        overlapped = np.clip(overlapped, behind + ahead / hardware.num_cores, behind + ahead)
    return np.where(columns["parallel_mode"] == "sequential", ahead + behind, overlapped)


def epoch_overhead(columns: Columns, graph: GraphCharacteristics, hardware: Hardware) -> Array:
    """Returns the seconds of an epoch outside its mini-batches, float64, shape (n_configs,).

    Shuffling the seeds; and where parts take turns in RAM, reading every row once.
    """
    limits = hardware.limits
    shuffle = graph.num_train / limits.random_reads_per_s
    by_turns = (columns["num_partitions"] > 1) & (columns["feature_tier"] == "ram")
    return shuffle + np.where(by_turns, graph.feature_bytes / limits.disk_read_bytes_per_s, 0.0)

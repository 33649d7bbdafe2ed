"""Seconds per mini-batch in each stage, and how the parallel modes overlap them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import AHEAD, DYNAMIC_POLICIES
from a3gnn.hardware import Hardware
from a3gnn.setting import Setting, setting_key
from a3gnn_surrogate.columns import Array, Columns, is_whole, served_row_bytes, stored_row_bytes, stored_share
from a3gnn_surrogate.physics.model_cost import ModelCost
from a3gnn_surrogate.physics.volume import BatchVolume, topology_bytes

#: The terms of a training step's seconds, in the order of `Calibration.train`.
TRAIN_TERMS: tuple[str, ...] = ("matrix_products", "sparse_products", "activations", "optimiser", "overhead")
#: The terms of a trial's peak of host memory above that of an idle one, in the order of `Calibration.memory`.
MEMORY_TERMS: tuple[str, ...] = (
    *("features", "cache", "adjacency", "relabeling", "batches", "activations", "weights", "evaluation"),
    *("evaluated_rows", "modules", "kernels"),
)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Factors, >= 0, on the seconds by the probe's constants, and on bytes; by default those of the equations.

    Attributes:
        train: Factor of each of `TRAIN_TERMS`.
        sample: Factor of sampling.
        gather: Factor of gathering.
        memory: Factor of each of `MEMORY_TERMS`.
    """

    train: tuple[float, ...] = (1.0, 1.0, 0.0, 1.0, 1.0)
    sample: float = 1.0
    gather: float = 1.0
    memory: tuple[float, ...] = (1.0,) * len(MEMORY_TERMS)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the calibration of the fields from `dataclasses.asdict`."""
        return cls(tuple(fields["train"]), fields["sample"], fields["gather"], tuple(fields["memory"]))


#: The equations with the probe's constants, as they are.
UNCALIBRATED = Calibration()


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The calibration of each setting.

    Attributes:
        host: Calibration of machines without a device.
        device: Calibration of machines with a device.
        own: Calibrations of settings whose own rows refine them, by `setting_key`.
    """

    host: Calibration = UNCALIBRATED
    device: Calibration = UNCALIBRATED
    own: Mapping[str, Calibration] = field(default_factory=dict)

    def of(self, setting: Setting) -> Calibration:
        """Returns the calibration of `setting`: its own, or that of its kind of machine."""
        general = self.device if setting.hardware.has_device else self.host
        return self.own.get(setting_key(setting), general)

    def to_dict(self) -> dict[str, Any]:
        """Returns the calibrations as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the calibrations of `to_dict`."""
        own = {key: Calibration.from_dict(value) for key, value in fields["own"].items()}
        return cls(Calibration.from_dict(fields["host"]), Calibration.from_dict(fields["device"]), own)


#: Seconds of a biased draw over those of a uniform one. The rows `biased` and `sample-25-10` of
#: `python -m benchmarks.engine` measure 0.9 (arxiv) to 1.5 (products, fb100_multi_a).
_BIASED_DRAW = 1.25
#: Sampling speed of a device over that of one thread. Guess: no device was available.
_DEVICE_SAMPLING_SPEEDUP = 8.0
#: Share of the probed loss of two threads that grows with the pairs of threads, not with their number. Guess.
_PAIRWISE_SHARE = 0.1
#: Exponent of the norm between sum (1) and maximum (infinity) of stages that overlap. Guess.
_OVERLAP_NORM = 4.0
#: Bytes that Adam reads and writes per parameter: reads weight, gradient and two moments, writes all but the gradient.
OPTIMIZER_BYTES = 28.0


@dataclass(frozen=True, slots=True)
class PredictedStageSeconds:
    """Seconds of work per mini-batch in each stage, each float64, shape (n_configs,)."""

    sample: Array  # sampling neighbors
    gather: Array  # gathering feature rows
    transfer: Array  # copying the mini-batch to the device
    train: Array  # forward, backward and optimizer


def stage_seconds(
    columns: Columns, volume: BatchVolume, cost: ModelCost, setting: Setting, calibration: Calibration = UNCALIBRATED
) -> PredictedStageSeconds:
    """Returns the seconds of work in each stage (HyScale-GNN's Eqs. 7, 8, 11 and 12 with the probe's constants)."""
    graph, hardware = setting.graph, setting.hardware
    limits = hardware.profile
    reads = volume.sampling_reads * np.where(columns["bias_rate"] > 1, _BIASED_DRAW, 1.0)
    on_device = columns["sampling_device"] == "cuda"
    sample = reads / limits.random_reads_per_s / np.where(on_device, _DEVICE_SAMPLING_SPEEDUP, 1.0)
    served = volume.input_nodes * served_row_bytes(columns, setting.task, graph)
    # The policy ahead has its rows in host memory, from where a device gets all of them.
    is_near = np.where(hardware.has_device & (columns["cache_policy"] == AHEAD), 0.0, volume.hit_rate)
    hits, misses = served * is_near, served * (1 - is_near)
    stored = volume.input_nodes * (1 - volume.hit_rate) * stored_row_bytes(columns, setting.task, graph)
    from_disk = np.where(columns["feature_tier"] == "disk", stored / limits.disk_read_bytes_per_s, 0.0)
    # A row that a dynamic cache admits is copied once more, and each look-up updates the state of eviction.
    dynamic = np.isin(columns["cache_policy"], DYNAMIC_POLICIES)
    upkeep = np.where(dynamic, volume.input_nodes / limits.random_reads_per_s + misses / limits.copy_bytes_per_s, 0.0)
    # A device's cache is read at the device's speed, which costs nothing compared with the host's.
    # Half of a copy is reading, which is less for float16 rows.
    copied = (misses if hardware.has_device else hits + misses) * (1 + stored_share(columns, setting.task, graph)) / 2
    # All cores gather. But next to a device, workers and stages that are ahead use one thread each.
    one_thread = ((columns["parallel_mode"] == "mode1") | (columns["prefetch_depth"] > 0)) & hardware.has_device
    speedup = np.where(one_thread, 1.0, limits.copy_speedup(hardware.num_cores))
    gather = (copied / limits.copy_bytes_per_s + from_disk) / speedup + upkeep
    transfer = np.zeros_like(gather)
    if hardware.has_device:
        topology = np.where(on_device, 0.0, topology_bytes(volume.nodes, volume.edges))
        sent = misses * np.where(cost.narrow & ~np.bool_(graph.sparse_features), 0.5, 1.0)
        transfer = (sent + topology) / max(limits.host_to_device_bytes_per_s, 1.0)
    train = train_terms(cost, hardware) @ np.array(calibration.train)
    again = 1.0 - is_whole(columns)  # the whole graph is read once
    return PredictedStageSeconds(
        calibration.sample * sample, calibration.gather * gather * again, transfer * again, train
    )


def train_terms(cost: ModelCost, hardware: Hardware) -> Array:
    """Returns the seconds of each of `TRAIN_TERMS` by the probe's constants, float64, shape (n_configs, n_terms)."""
    limits = hardware.profile
    flops, narrow, traffic = limits.gemm_flops_per_s, limits.bf16_gemm_flops_per_s, limits.spmm_bytes_per_s
    if hardware.has_device:
        traffic = limits.device_traffic_bytes_per_s
        flops, narrow = max(limits.device_gemm_flops_per_s, 1.0), limits.device_bf16_gemm_flops_per_s
    # If bfloat16 was not probed, assume no speedup.
    speed = np.where(cost.narrow & (narrow > 0), narrow, flops)
    # Activations are written and read at the rate of a copy, or on a device at the rate of its sparse products.
    copied = traffic if hardware.has_device else limits.copy_bytes_per_s
    constant = [OPTIMIZER_BYTES * cost.parameters / traffic, limits.batch_overhead_s]
    varying = [cost.gemm_flops / speed, cost.spmm_bytes / traffic, cost.activation_bytes / copied]
    return np.stack([*varying, *(np.full(len(cost.gemm_flops), seconds) for seconds in constant)], axis=1)


def effective_workers(num_workers: NDArray[np.int64], hardware: Hardware) -> Array:
    """Returns n_eff = n / (1 + s (n - 1) + k n (n - 1)), at least 1 and at most the cores, float64.

    This is the universal scalability law; s and k reproduce the probe's efficiency of two threads.
    """
    n = num_workers.astype(np.float64)
    loss = 1 / hardware.profile.thread_efficiency - 1
    s, k = loss * (1 - _PAIRWISE_SHARE), loss * _PAIRWISE_SHARE / 2
    return np.clip(n / (1 + s * (n - 1) + k * n * (n - 1)), 1.0, hardware.num_cores)


def batch_seconds(columns: Columns, work: PredictedStageSeconds, hardware: Hardware) -> Array:
    """Returns the seconds from one mini-batch to the next, float64, shape (n_configs,).

    * sequential: t_s + t_b + t_t
    * mode 1: max(t_t, (t_s + t_b) / n_eff), and mode 2: max(t_b + t_t, t_s / n_eff) (A3GNN, Eqs. 2 and 4)
    * stages that are ahead by a depth: max(t_s, t_b, t_t) (HyScale-GNN, Eq. 6)

    A q-norm stands for the maximum. Without a device training takes all cores, so overlap can at best fill the cores
    that sampling leaves idle. If it would lose, workers and training alternate.
    """
    generate = work.gather + work.transfer
    staged = columns["prefetch_depth"] > 0
    ahead = staged | (columns["parallel_mode"] == "mode1")
    workers = np.where(ahead, work.sample + generate, work.sample)
    caller = np.where(ahead, work.train, work.train + generate)
    longest = np.maximum(np.maximum(work.sample, work.gather), work.transfer)
    produced = np.where(staged, longest, workers / effective_workers(columns["num_workers"], hardware))
    overlapped = (produced**_OVERLAP_NORM + caller**_OVERLAP_NORM) ** (1 / _OVERLAP_NORM)
    if not hardware.has_device:
        overlapped = np.clip(overlapped, caller + workers / hardware.num_cores, caller + workers)
    in_turn = (columns["parallel_mode"] == "sequential") & ~staged
    return np.where(in_turn, workers + caller, overlapped)


def epoch_overhead(columns: Columns, setting: Setting) -> Array:
    """Returns the seconds per epoch outside its mini-batches, float64, shape (n_configs,).

    The overhead is shuffling the seeds and, if parts in RAM are trained in turn, reading every row once.
    """
    graph, limits = setting.graph, setting.hardware.profile
    shuffle = graph.num_train / limits.random_reads_per_s
    reads_parts = (columns["num_partitions"] > 1) & (columns["feature_tier"] == "ram")
    rows = stored_row_bytes(columns, setting.task, graph) * graph.num_nodes
    return shuffle + np.where(reads_parts, rows / limits.disk_read_bytes_per_s, 0.0)

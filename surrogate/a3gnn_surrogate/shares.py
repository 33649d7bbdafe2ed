"""Cost of several trainers of one process, which share every mini-batch (HyScale-GNN, section V)."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from a3gnn.hardware import Hardware
from a3gnn.setting import Setting
from a3gnn_surrogate.calibration import TRAIN_TERMS
from a3gnn_surrogate.columns import Array, Columns
from a3gnn_surrogate.model_cost import ModelCost, model_cost
from a3gnn_surrogate.stage_seconds import OPTIMIZER_BYTES, train_terms
from a3gnn_surrogate.volume import BatchVolume, batch_volume

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

    Args:
        columns: Canonical columns.
        volume: Volume of whole mini-batches.
        cost: Cost of whole mini-batches.
        setting: The task, the graph and the machine.
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

"""HitGNN's performance model (section VI-B): seconds of an iteration.

The paper's indices are mended: |A^l| f^(l-1) and |V^l| f^(l-1) f^l are what layer l computes, and a host's memory
bandwidth is shared by its devices (`Platform.device_link_bytes_per_s`). Bandwidths and rates are taken as reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.checks import real_number
from a3gnn.errors import UsageError
from a3gnn.hitgnn.platforms.metadata import Die, Fpga, Platform, Processor
from a3gnn.hitgnn.platforms.workload import LINEAR_MAPS, Workload
from a3gnn.option_names import option

Array = NDArray[np.float64]

#: Bytes of a feature value: float32.
VALUE_BYTES = 4
#: What a copy by way of another device's memory costs, over one from the host: device to host to device (section V-B).
INDIRECT = 2


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under what an iteration runs.

    Attributes:
        beta: Share of the input rows that a device's own memory has.
        direct: Whether a device reads the others from host memory ("DC"), not from another device by way of it.
        sampling_seconds: Of sampling a mini-batch, which overlaps with computing; 0 does not count it.
        loss_seconds: Of computing the loss; 0 does not count it.
    """

    beta: float
    direct: bool = True
    sampling_seconds: float = 0.0
    loss_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.beta <= 1:
            raise UsageError(f"{option('beta')} must be in [0, 1], a share of the input rows; got {self.beta:g}")
        real_number(option("sampling_seconds"), self.sampling_seconds, "second")
        real_number(option("loss_seconds"), self.loss_seconds, "second")


class Rates(NamedTuple):
    """How fast designs compute; arrays are float64, shape (n_designs,).

    Attributes:
        aggregated_values_per_s: float32 values that are added per second.
        multiplications_per_s: Multiply-accumulates per second.
        memory_bytes_per_s: Of the memory that is read.
        pipelined: Whether loading, aggregation and update overlap.
        share: Of a device's mini-batch, what this part of it computes.
    """

    aggregated_values_per_s: Array
    multiplications_per_s: Array
    memory_bytes_per_s: float
    pipelined: bool
    share: float


class LayerSeconds(NamedTuple):
    """What a layer takes; arrays are float64, shape (n_designs,).

    Attributes:
        load: Reading rows, from the device's memory and from the host.
        aggregate: Adding them along edges.
        update: Linear maps.
        whole: All of it, overlapped where the device pipelines.
    """

    load: Array
    aggregate: Array
    update: Array
    whole: Array


def die_rates(fpga: Fpga, die: Die, units: NDArray[np.int64], multipliers: NDArray[np.int64]) -> Rates:
    """Returns the rates of designs of n `units` and m `multipliers` on a die.

    Dies share a mini-batch, and the FPGA's link, in proportion to their DSPs: equally where they are equal.
    """
    lanes, frequency = fpga.kernels.lanes, fpga.frequency_hz
    share = die.dsps / sum(one.dsps for one in fpga.dies)
    memory = die.memory_bytes_per_s
    added, multiplied = (
        np.asarray(rate, dtype=np.float64) for rate in (units * lanes * frequency, multipliers * frequency)
    )
    return Rates(added, multiplied, memory, pipelined=True, share=share)


def processor_rates(processor: Processor) -> Rates:
    """Returns the rates of a GPU, a single design: every edge's row is read, and peak arithmetic is reached."""
    return Rates(
        np.array([processor.memory_bytes_per_s / VALUE_BYTES]),
        np.array([processor.flops_per_s / 2]),
        processor.memory_bytes_per_s,
        pipelined=False,
        share=1.0,
    )


def layer_seconds(workload: Workload, layer: int, rates: Rates, platform: Platform, given: Conditions) -> LayerSeconds:
    """Returns the seconds of `layer`, counted from 1, forward (Eqs. 6 to 9)."""
    read, made, edges = workload.vertices[layer - 1], workload.vertices[layer], workload.edges[layer - 1]
    width, wide = workload.widths[layer - 1], workload.widths[layer]
    row_bytes = VALUE_BYTES * width
    beta = given.beta if layer == 1 else 1.0  # what a layer made is in the device's memory
    copies = 1 if given.direct else INDIRECT
    local = read * row_bytes * beta * rates.share / rates.memory_bytes_per_s
    # A die has as much of the link as of the rows.
    remote = read * row_bytes * (1 - beta) * copies / platform.device_link_bytes_per_s
    aggregate = edges * width * rates.share / rates.aggregated_values_per_s
    update = LINEAR_MAPS[workload.model] * made * width * wide * rates.share / rates.multiplications_per_s
    load = np.full_like(aggregate, local + remote)
    parts = np.stack([load, aggregate, update])
    return LayerSeconds(load, aggregate, update, parts.max(axis=0) if rates.pipelined else parts.sum(axis=0))


def work_seconds(workload: Workload, rates: Rates, platform: Platform, given: Conditions) -> LayerSeconds:
    """Returns the seconds of all layers, forward and backward (Eq. 5); `whole` is t_FP + t_BP.

    Backward costs what forward does, but that the input's gradient is not needed: of layer 1 it is the update alone.
    """
    layers = [layer_seconds(workload, layer, rates, platform, given) for layer in range(1, len(workload.vertices))]
    nothing = np.zeros_like(layers[0].update)
    backward = [LayerSeconds(nothing, nothing, layers[0].update, layers[0].update), *layers[1:]]
    return LayerSeconds(*(np.sum(parts, axis=0) for parts in zip(*layers, *backward, strict=True)))


def synchronisation_seconds(workload: Workload, platform: Platform) -> float:
    """Returns the seconds in which gradients go to the host and their mean comes back."""
    return 2 * VALUE_BYTES * workload.num_weights / platform.device_link_bytes_per_s


def iteration_seconds(workload: Workload, rates: Rates, platform: Platform, given: Conditions) -> Array:
    """Returns the seconds of an iteration, in which each device trains a mini-batch, float64, shape (n_designs,).

    Eqs. 4 and 5.
    """
    computing = work_seconds(workload, rates, platform, given).whole + given.loss_seconds
    return np.asarray(np.maximum(given.sampling_seconds, computing) + synchronisation_seconds(workload, platform))

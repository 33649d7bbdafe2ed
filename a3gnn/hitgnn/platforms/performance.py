"""HitGNN's performance model (section VI-B): seconds of an iteration.

Errors in the paper's indices are corrected: layer l computes |A^l| f^(l-1) and |V^l| f^(l-1) f^l, and devices share the
host's memory bandwidth (`Platform.device_link_bytes_per_s`). Peak bandwidths and rates are assumed to be reached.
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
#: Cost of a copy through another device, over one from the host: device to host to device (section V-B).
INDIRECT = 2


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of an iteration.

    Attributes:
        beta: Share of the input rows in a device's own memory.
        direct: Whether a device reads the other rows from host memory ("DC"), or from another device through it.
        sampling_seconds: Seconds of sampling a mini-batch, which overlaps with computing; 0 to ignore it.
        loss_seconds: Seconds of computing the loss; 0 to ignore it.
    """

    beta: float
    direct: bool = True
    sampling_seconds: float = 0.0
    loss_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.beta <= 1:
            raise UsageError(f"{option('beta')} must be a share of the input rows in [0, 1], got {self.beta:g}")
        real_number(option("sampling_seconds"), self.sampling_seconds, "seconds")
        real_number(option("loss_seconds"), self.loss_seconds, "seconds")


class Rates(NamedTuple):
    """The speeds of designs; arrays are float64, shape (n_designs,)."""

    aggregated_values_per_s: Array  # float32 values added per second
    multiplications_per_s: Array  # multiply-accumulates per second
    memory_bytes_per_s: float  # bandwidth of the memory that is read
    pipelined: bool  # whether loading, aggregation and update overlap
    share: float  # share of a device's mini-batch that this part of the device computes


class LayerSeconds(NamedTuple):
    """The seconds of a layer; arrays are float64, shape (n_designs,)."""

    load: Array  # reading rows, from the device's memory and from the host
    aggregate: Array  # adding rows along edges
    update: Array  # linear maps
    whole: Array  # the whole layer, with overlap if the device pipelines


def die_rates(fpga: Fpga, die: Die, units: NDArray[np.int64], multipliers: NDArray[np.int64]) -> Rates:
    """Returns the rates of designs with n `units` and m `multipliers` on a die.

    Dies share a mini-batch, and the FPGA's link, in proportion to their DSPs.
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
    beta = given.beta if layer == 1 else 1.0  # a layer's output is in the device's memory
    copies = 1 if given.direct else INDIRECT
    local = read * row_bytes * beta * rates.share / rates.memory_bytes_per_s
    # A die has the same share of the link as of the rows.
    remote = read * row_bytes * (1 - beta) * copies / platform.device_link_bytes_per_s
    aggregate = edges * width * rates.share / rates.aggregated_values_per_s
    update = LINEAR_MAPS[workload.model] * made * width * wide * rates.share / rates.multiplications_per_s
    load = np.full_like(aggregate, local + remote)
    parts = np.stack([load, aggregate, update])
    return LayerSeconds(load, aggregate, update, parts.max(axis=0) if rates.pipelined else parts.sum(axis=0))


def work_seconds(workload: Workload, rates: Rates, platform: Platform, given: Conditions) -> LayerSeconds:
    """Returns the seconds of all layers, forward and backward (Eq. 5); `whole` is t_FP + t_BP.

    A backward pass costs as much as a forward pass. Only in layer 1 it is the update alone, because the input's
    gradient is not needed.
    """
    layers = [layer_seconds(workload, layer, rates, platform, given) for layer in range(1, len(workload.vertices))]
    nothing = np.zeros_like(layers[0].update)
    backward = [LayerSeconds(nothing, nothing, layers[0].update, layers[0].update), *layers[1:]]
    return LayerSeconds(*(np.sum(parts, axis=0) for parts in zip(*layers, *backward, strict=True)))


def synchronization_seconds(workload: Workload, platform: Platform) -> float:
    """Returns the seconds in which gradients go to the host and their mean comes back."""
    return 2 * VALUE_BYTES * workload.num_weights / platform.device_link_bytes_per_s


def iteration_seconds(workload: Workload, rates: Rates, platform: Platform, given: Conditions) -> Array:
    """Returns the seconds of an iteration, in which each device trains a mini-batch, float64, shape (n_designs,).

    See Eqs. 4 and 5.
    """
    computing = work_seconds(workload, rates, platform, given).whole + given.loss_seconds
    return np.asarray(np.maximum(given.sampling_seconds, computing) + synchronization_seconds(workload, platform))

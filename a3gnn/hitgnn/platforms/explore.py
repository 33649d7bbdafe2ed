"""Explores the designs of a platform: Algorithm 4 of HitGNN, the influence of beta, and the scaling over devices."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from a3gnn.errors import UsageError
from a3gnn.hitgnn.platforms.designs import DieGrid, Indices
from a3gnn.hitgnn.platforms.metadata import Die, Fpga, Platform
from a3gnn.hitgnn.platforms.performance import (
    Array,
    Conditions,
    Rates,
    die_rates,
    iteration_seconds,
    processor_rates,
    work_seconds,
)
from a3gnn.hitgnn.platforms.workload import Workload
from a3gnn.nvtps import nvtps, nvtps_per_gb_per_s

#: The paper states none. Its design takes 90.6 % of the DSPs; with all of them (16, 2048) fits (Table V).
CEILING = 0.91
#: Values of beta at which the choice is repeated, and numbers of devices (section VII-G).
BETAS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
DEVICES = (1, 2, 4, 8, 12, 16)


class Estimate(NamedTuple):
    """The prediction for a platform on one workload."""

    workload: Workload
    load_seconds: float  # reading rows, forward and backward. This and the next two count overlapping time in full
    aggregate_seconds: float  # adding rows along edges
    update_seconds: float  # linear maps
    iteration_seconds: float  # an iteration, with overlap
    epoch_seconds: float  # an epoch; each iteration gives every device a mini-batch
    nvtps: float  # vertices traversed per second


class AtBeta(NamedTuple):
    """The choice at another share of local rows.

    Attributes:
        beta: Share of local rows.
        design: n and m of an FPGA there; None for a processor, which has one design.
        nvtps: NVTPS of `design`.
        kept_nvtps: NVTPS of the design chosen at the given beta.
        traded_nvtps: NVTPS of that design with twice its n and half its m; None if there is none or it does not fit.
        indirect_nvtps: NVTPS of the kept design if a device reads remote rows from another device through the host.
    """

    beta: float
    design: tuple[int, int] | None
    nvtps: float
    kept_nvtps: float
    traded_nvtps: float | None
    indirect_nvtps: float


class AtDevices(NamedTuple):
    """The chosen design on a number of devices, at the same beta.

    Attributes:
        devices: Number of devices.
        speed_up: NVTPS over those of one device.
        indirect_speed_up: The speed-up if rows come through other devices, over one device that reads directly.
        transfer_bound: The speed-up if only transfers took time. It does not bound `speed_up`: as links saturate, the
            seconds of computing, of which every device has its own, stop growing.
    """

    devices: int
    speed_up: float
    indirect_speed_up: float
    transfer_bound: float


@dataclass(frozen=True)
class Exploration:
    """The result of an exploration."""

    platform: Platform
    given: Conditions
    ceiling: float  # share of each resource that a design may take
    grids: tuple[DieGrid, ...]  # the grid of each kind of die; none for a GPU
    estimates: tuple[Estimate, ...]  # the prediction for the choice, per workload
    betas: tuple[AtBeta, ...]  # the influence of beta
    scaling: tuple[AtDevices, ...]  # the influence of the number of devices
    seconds: float  # wall clock of the exploration

    @property
    def design(self) -> tuple[int, int] | None:
        """The chosen n and m of an FPGA, over all of its dies; None for a processor."""
        return totals(self.grids)

    @property
    def nvtps(self) -> float:
        """The mean NVTPS over workloads, as in section VII-C."""
        return float(np.mean([estimate.nvtps for estimate in self.estimates]))

    @property
    def nvtps_per_gb_per_s(self) -> float:
        """The mean NVTPS over the bandwidth of all memory."""
        return nvtps_per_gb_per_s(self.nvtps, self.platform.memory_bytes_per_s)

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as JSON types."""
        device = self.platform.device
        fitted = {"resources": device.kernels.source} if isinstance(device, Fpga) else {}
        return {
            "platform": dataclasses.asdict(self.platform),
            "conditions": dataclasses.asdict(self.given),
            "ceiling": self.ceiling,
            "design": None if self.design is None else {"n": self.design[0], "m": self.design[1]},
            "nvtps": self.nvtps,
            "nvtps_per_gb_per_s": self.nvtps_per_gb_per_s,
            **fitted,
            "dies": [grid.to_dict() for grid in self.grids],
            "workloads": [{**one._asdict(), "workload": dataclasses.asdict(one.workload)} for one in self.estimates],
            "betas": [one._asdict() for one in self.betas],
            "scaling": [one._asdict() for one in self.scaling],
            "seconds": self.seconds,
        }


def totals(grids: Sequence[DieGrid]) -> tuple[int, int] | None:
    """Returns the chosen n and m over all dies; None without grids."""
    if not grids:
        return None
    return sum(grid.count * grid.design[0] for grid in grids), sum(grid.count * grid.design[1] for grid in grids)


def explore(
    platform: Platform,
    workloads: Sequence[Workload],
    given: Conditions,
    ceiling: float = CEILING,
    *,
    every: bool = False,
) -> Exploration:
    """Returns the best design of `platform` for the mean of `workloads`, the whole grid, and its sensitivity.

    Args:
        platform: The platform.
        workloads: Mini-batches of one graph or several.
        given: Share of local rows, and the other conditions of an iteration.
        ceiling: Share of each resource that a design may take.
        every: Whether every n and m is tried, or only powers of two.

    Raises:
        UsageError: There is no workload, or `ceiling` is no share.
        InfeasibleError: No design keeps the ceiling.
    """
    if not workloads:
        raise UsageError("workloads must have at least one entry, got none; Workload.of makes one from a graph")
    start = time.perf_counter()
    grids = choose(platform, workloads, given, ceiling, every=every)
    kept = design_rates(platform, [grid.design for grid in grids])
    betas = []
    for beta in sorted({*BETAS, given.beta}):
        there = dataclasses.replace(given, beta=beta)
        found = grids if beta == given.beta else choose(platform, workloads, there, ceiling, every=every)
        betas.append(_at_beta(found, grids, platform, workloads, there))
    return Exploration(
        platform,
        given,
        ceiling,
        grids,
        tuple(_estimate(workload, kept, platform, given) for workload in workloads),
        tuple(betas),
        scaling(kept, platform, workloads, given),
        time.perf_counter() - start,
    )


def choose(
    platform: Platform, workloads: Sequence[Workload], given: Conditions, ceiling: float, *, every: bool = False
) -> tuple[DieGrid, ...]:
    """Returns the grid of each kind of die, with the best design there (Algorithm 4); none for a processor."""
    fpga = platform.device
    if not isinstance(fpga, Fpga):
        return ()

    def throughput(die: Die, units: Indices, multipliers: Indices) -> Array:
        rates = die_rates(fpga, die, units, multipliers)
        seconds = [iteration_seconds(workload, rates, platform, given) for workload in workloads]
        return _mean(workloads, seconds, platform)

    return tuple(
        DieGrid.of(die, fpga.dies.count(die), fpga.kernels, ceiling, partial(throughput, die), every=every)
        for die in dict.fromkeys(fpga.dies)
    )


def _at_beta(
    found: Sequence[DieGrid],
    kept: Sequence[DieGrid],
    platform: Platform,
    workloads: Sequence[Workload],
    there: Conditions,
) -> AtBeta:
    """Returns the NVTPS under the conditions `there`, of the designs `found` there and of the `kept` ones."""
    best, same = (design_rates(platform, [grid.design for grid in grids]) for grids in (found, kept))
    traded = [grid.traded for grid in kept]
    fitting = [design for design in traded if design is not None]
    fit = len(fitting) == len(traded) > 0
    return AtBeta(
        beta=there.beta,
        design=totals(found),
        nvtps=mean_nvtps(best, platform, workloads, there),
        kept_nvtps=mean_nvtps(same, platform, workloads, there),
        traded_nvtps=mean_nvtps(design_rates(platform, fitting), platform, workloads, there) if fit else None,
        indirect_nvtps=mean_nvtps(same, platform, workloads, dataclasses.replace(there, direct=False)),
    )


def scaling(
    parts: Sequence[Rates], platform: Platform, workloads: Sequence[Workload], given: Conditions
) -> tuple[AtDevices, ...]:
    """Returns the speed-up of the design of `parts` on each of `DEVICES`, over one device."""
    one = platform.with_devices(1)
    base = mean_nvtps(parts, one, workloads, dataclasses.replace(given, direct=True))
    found = []
    for count in DEVICES:
        there = platform.with_devices(count)
        direct, indirect = (
            mean_nvtps(parts, there, workloads, dataclasses.replace(given, direct=how)) / base for how in (True, False)
        )
        bound = count * there.device_link_bytes_per_s / one.device_link_bytes_per_s
        found.append(AtDevices(count, direct, indirect, bound))
    return tuple(found)


def mean_nvtps(parts: Sequence[Rates], platform: Platform, workloads: Sequence[Workload], given: Conditions) -> float:
    """Returns the mean NVTPS of one design over `workloads`; the slowest of its `parts` decides a device's speed."""
    seconds = [_slowest(workload, parts, platform, given)[1] for workload in workloads]
    return float(_mean(workloads, seconds, platform))


def _mean(workloads: Sequence[Workload], seconds: Sequence[ArrayLike], platform: Platform) -> Array:
    """Returns the mean NVTPS over workloads, from the `seconds` of an iteration of each."""
    each = [
        nvtps(platform.num_devices * workload.num_vertices, took)
        for workload, took in zip(workloads, seconds, strict=True)
    ]
    return np.asarray(np.mean(each, axis=0))


def _slowest(workload: Workload, parts: Sequence[Rates], platform: Platform, given: Conditions) -> tuple[Rates, float]:
    """Returns the slowest of the `parts` of a device, and the seconds of its iteration."""
    seconds = [float(iteration_seconds(workload, rates, platform, given)[0]) for rates in parts]
    most = max(seconds)
    return parts[seconds.index(most)], most


def _estimate(workload: Workload, parts: Sequence[Rates], platform: Platform, given: Conditions) -> Estimate:
    slowest, seconds = _slowest(workload, parts, platform, given)
    work = work_seconds(workload, slowest, platform, given)
    loading, aggregating, updating = (float(part[0]) for part in work[:3])
    epoch = seconds * math.ceil(workload.num_batches / platform.num_devices)
    traversed = float(nvtps(platform.num_devices * workload.num_vertices, seconds))
    return Estimate(workload, loading, aggregating, updating, seconds, epoch, traversed)


def design_rates(platform: Platform, designs: Sequence[tuple[int, int]]) -> list[Rates]:
    """Returns the rates of a design, given n and m of each kind of die, or the rates of a processor."""
    fpga = platform.device
    if not isinstance(fpga, Fpga):
        return [processor_rates(fpga)]
    return [
        die_rates(fpga, die, np.array([units], dtype=np.int64), np.array([multipliers], dtype=np.int64))
        for die, (units, multipliers) in zip(dict.fromkeys(fpga.dies), designs, strict=True)
    ]

"""Explores the designs of a platform: Algorithm 4 of HitGNN, what beta changes of it, and how it scales."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from a3gnn.errors import UsageError
from a3gnn.nvtps import nvtps
from a3gnn.platforms.designs import DesignSpace, Indices, design_problem
from a3gnn.platforms.exploration import AtBeta, AtDevices, DieGrid, Estimate, Exploration, totals
from a3gnn.platforms.metadata import Die, Fpga, Platform
from a3gnn.platforms.performance import (
    Array,
    Conditions,
    Rates,
    die_rates,
    iteration_seconds,
    processor_rates,
    work_seconds,
)
from a3gnn.platforms.workload import Workload
from a3gnn.search.exhaustive import Grid

#: The paper states none. Its design takes 90.6 % of the DSPs; with all of them (16, 2048) fits (Table V).
CEILING = 0.91
#: Values of beta at which the choice is repeated, and numbers of devices (section VII-G).
BETAS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
DEVICES = (1, 2, 4, 8, 12, 16)


def explore(
    platform: Platform,
    workloads: Sequence[Workload],
    given: Conditions,
    ceiling: float = CEILING,
    *,
    every: bool = False,
) -> Exploration:
    """Returns the best design of `platform` for the mean of `workloads`, the whole grid, and what it is sensitive to.

    Args:
        platform: Where.
        workloads: Mini-batches of one graph or several.
        given: Share of local rows, and what else an iteration depends on.
        ceiling: Share of each resource that a design may take.
        every: Whether every n and m is tried, or powers of two alone.

    Raises:
        UsageError: There is no workload, or `ceiling` is no share.
        InfeasibleError: No design keeps the ceiling.
    """
    if not workloads:
        raise UsageError("workloads must be one at least, got none; Workload.of makes one of a graph")
    start = time.perf_counter()
    grids = choose(platform, workloads, given, ceiling, every=every)
    kept = design_rates(platform, [grid.design for grid in grids])
    betas = []
    for beta in sorted({*BETAS, given.beta}):
        there = given.replace(beta=beta)
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
    """Returns the grid of each kind of die with the design that is best there (Algorithm 4); none of a processor."""
    fpga = platform.device
    if not isinstance(fpga, Fpga):
        return ()
    kinds = dict.fromkeys(fpga.dies)

    def throughput(die: Die, units: Indices, multipliers: Indices) -> Array:
        rates = die_rates(fpga, die, units, multipliers)
        seconds = [iteration_seconds(workload, rates, platform, given) for workload in workloads]
        return _mean(workloads, seconds, platform)

    return tuple(_choose(fpga, die, partial(throughput, die), ceiling, every=every) for die in kinds)


def _choose(
    fpga: Fpga, die: Die, throughput: Callable[[Indices, Indices], Array], ceiling: float, *, every: bool
) -> DieGrid:
    space = DesignSpace.of(die, fpga.kernels, ceiling, every=every)
    problem = design_problem(space, die, fpga.kernels, ceiling, throughput)
    grid, objectives = Grid(problem), problem.objectives
    units, multipliers = space.decode(grid.rows)
    costs, fits = objectives.costs(grid.prediction), objectives.limits.violation(grid.prediction) == 0
    chosen = objectives.best(grid.prediction)
    return DieGrid(die, fpga.dies.count(die), units, multipliers, grid.prediction, costs, fits, chosen)


def _at_beta(
    found: Sequence[DieGrid],
    kept: Sequence[DieGrid],
    platform: Platform,
    workloads: Sequence[Workload],
    there: Conditions,
) -> AtBeta:
    """Returns what designs reach `there`: those that were `found` there, and those that are `kept`."""
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
        indirect_nvtps=mean_nvtps(same, platform, workloads, there.replace(direct=False)),
    )


def scaling(
    parts: Sequence[Rates], platform: Platform, workloads: Sequence[Workload], given: Conditions
) -> tuple[AtDevices, ...]:
    """Returns the speed-up of the design of `parts` on each of `DEVICES`, over one device."""
    one = platform.with_devices(1)
    base = mean_nvtps(parts, one, workloads, given.replace(direct=True))
    found = []
    for count in DEVICES:
        there = platform.with_devices(count)
        direct, indirect = (
            mean_nvtps(parts, there, workloads, given.replace(direct=how)) / base for how in (True, False)
        )
        bound = count * there.device_link_bytes_per_s / one.device_link_bytes_per_s
        found.append(AtDevices(count, direct, indirect, bound))
    return tuple(found)


def mean_nvtps(parts: Sequence[Rates], platform: Platform, workloads: Sequence[Workload], given: Conditions) -> float:
    """Returns the NVTPS of one design, the mean over `workloads`; a device is as slow as the slowest of its `parts`."""
    seconds = [_slowest(workload, parts, platform, given)[1] for workload in workloads]
    return float(_mean(workloads, seconds, platform))


def _mean(workloads: Sequence[Workload], seconds: Sequence[ArrayLike], platform: Platform) -> Array:
    """Returns the mean NVTPS over workloads, by the `seconds` of an iteration of each."""
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
    """Returns the rates of a design, of each kind of die its n and m, or those of a processor."""
    fpga = platform.device
    if not isinstance(fpga, Fpga):
        return [processor_rates(fpga)]
    return [
        die_rates(fpga, die, np.array([units], dtype=np.int64), np.array([multipliers], dtype=np.int64))
        for die, (units, multipliers) in zip(dict.fromkeys(fpga.dies), designs, strict=True)
    ]

"""`Exploration`: what exploring a platform has found."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.nvtps import nvtps_per_gb_per_s
from a3gnn.pareto import non_dominated
from a3gnn.platforms.designs import Indices
from a3gnn.platforms.metadata import Die, Fpga, Platform
from a3gnn.platforms.performance import Conditions
from a3gnn.platforms.workload import Workload
from a3gnn.prediction import Prediction


@dataclass(frozen=True)
class DieGrid:
    """All designs of one die, and which is chosen.

    Attributes:
        die: What there is.
        count: Equal dies of the FPGA.
        units: n of each design, int64, shape (n_designs,).
        multipliers: m of each, likewise.
        prediction: Columns `DESIGN_METRICS`; NVTPS is the platform's, were all dies like this one.
        costs: What is minimised, as `DesignObjectives.costs` has it, float64, shape (n_designs, 3).
        fits: Which keep the ceiling, bool, shape (n_designs,).
        chosen: Position of the design with the most NVTPS.
    """

    die: Die
    count: int
    units: Indices
    multipliers: Indices
    prediction: Prediction
    costs: NDArray[np.float64]
    fits: NDArray[np.bool_]
    chosen: int

    @cached_property
    def front(self) -> NDArray[np.bool_]:
        """Which designs that fit no other one beats in NVTPS, DSPs and LUTs at once, bool, shape (n_designs,)."""
        front = np.zeros(len(self.fits), dtype=np.bool_)
        front[self.fits] = non_dominated(self.costs[self.fits])
        return front

    @property
    def design(self) -> tuple[int, int]:
        """The chosen n and m."""
        return int(self.units[self.chosen]), int(self.multipliers[self.chosen])

    @property
    def frugal(self) -> int:
        """Position of the design with the fewest DSPs whose NVTPS are within 1 % of the chosen one's."""
        traversed, dsps = self.prediction.column("nvtps"), self.prediction.column("dsp_share")
        close = np.flatnonzero(self.fits & (traversed >= 0.99 * traversed[self.chosen]))
        return int(close[dsps[close].argmin()])

    @property
    def traded(self) -> tuple[int, int] | None:
        """Twice the chosen n and half the chosen m, where that is on the grid and fits."""
        wanted = (self.units == 2 * self.design[0]) & (2 * self.multipliers == self.design[1]) & self.fits
        return (2 * self.design[0], self.design[1] // 2) if wanted.any() else None

    def to_dict(self) -> dict[str, Any]:
        """Returns the die, each design with what is predicted of it, and the chosen one, as JSON types."""
        prediction = self.prediction
        low, high = prediction.column("lut_share", "low"), prediction.column("lut_share", "high")
        designs = [
            {
                "n": int(self.units[i]),
                "m": int(self.multipliers[i]),
                "nvtps": float(prediction.column("nvtps")[i]),
                "dsp_share": float(prediction.column("dsp_share")[i]),
                "lut_share": [float(low[i]), float(high[i])],
                "fits": bool(self.fits[i]),
                "on_front": bool(self.front[i]),
            }
            for i in range(len(self.units))
        ]
        return {
            "die": dataclasses.asdict(self.die),
            "count": self.count,
            "chosen": designs[self.chosen],
            "grid": designs,
        }


class Estimate(NamedTuple):
    """What a platform reaches on one workload.

    Attributes:
        workload: Which.
        load_seconds: Reading rows, forward and backward; what overlaps is not taken off, here and in the next two.
        aggregate_seconds: Adding them along edges.
        update_seconds: Linear maps.
        iteration_seconds: An iteration, with what overlaps overlapped.
        epoch_seconds: As many iterations as give each device a mini-batch.
        nvtps: Vertices traversed per second.
    """

    workload: Workload
    load_seconds: float
    aggregate_seconds: float
    update_seconds: float
    iteration_seconds: float
    epoch_seconds: float
    nvtps: float


class AtBeta(NamedTuple):
    """The choice at another share of local rows.

    Attributes:
        beta: That share.
        design: n and m of an FPGA there; None of a processor, which has one design.
        nvtps: By that design.
        kept_nvtps: By the design that was chosen at the given beta.
        traded_nvtps: By that with twice its n and half its m; None where that does not fit, or there is none.
        indirect_nvtps: By the kept one, where a device reads what it lacks from another device by way of the host.
    """

    beta: float
    design: tuple[int, int] | None
    nvtps: float
    kept_nvtps: float
    traded_nvtps: float | None
    indirect_nvtps: float


class AtDevices(NamedTuple):
    """The chosen design on so many devices, at the same beta.

    Attributes:
        devices: How many.
        speed_up: NVTPS over those of one device.
        indirect_speed_up: The same where rows come by way of other devices; over one device that reads directly.
        transfer_bound: The speed-up of what is bound by transfers alone. No bound of `speed_up`: as links saturate, the
            seconds of computing, of which every device has its own, grow no longer.
    """

    devices: int
    speed_up: float
    indirect_speed_up: float
    transfer_bound: float


@dataclass(frozen=True)
class Exploration:
    """What was found.

    Attributes:
        platform: Where.
        given: Under which conditions.
        ceiling: Share of each resource that a design may take.
        grids: One of each kind of die; none of a GPU.
        estimates: What the choice reaches, per workload.
        betas: What beta changes.
        scaling: What the number of devices does.
        seconds: Wall clock of the exploration.
    """

    platform: Platform
    given: Conditions
    ceiling: float
    grids: tuple[DieGrid, ...]
    estimates: tuple[Estimate, ...]
    betas: tuple[AtBeta, ...]
    scaling: tuple[AtDevices, ...]
    seconds: float

    @property
    def design(self) -> tuple[int, int] | None:
        """The chosen n and m of an FPGA, over all of its dies; None of a processor."""
        return totals(self.grids)

    @property
    def nvtps(self) -> float:
        """The mean over workloads, as section VII-C has it."""
        return float(np.mean([estimate.nvtps for estimate in self.estimates]))

    @property
    def nvtps_per_gb_per_s(self) -> float:
        """The same over the bandwidth of all memory."""
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
            "workloads": [{**one._asdict(), "workload": one.workload.to_dict()} for one in self.estimates],
            "betas": [one._asdict() for one in self.betas],
            "scaling": [one._asdict() for one in self.scaling],
            "seconds": self.seconds,
        }


def totals(grids: Sequence[DieGrid]) -> tuple[int, int] | None:
    """Returns the chosen n and m over all dies; None without grids."""
    if not grids:
        return None
    return sum(grid.count * grid.design[0] for grid in grids), sum(grid.count * grid.design[1] for grid in grids)

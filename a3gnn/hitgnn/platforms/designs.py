"""The designs of one die: n and m on a grid, their throughput and resources, and the best one under a ceiling."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import InfeasibleError, UsageError
from a3gnn.hitgnn.platforms.metadata import Die, Kernels
from a3gnn.option_names import option
from a3gnn.pareto import non_dominated
from a3gnn.space import ENUMERABLE

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class DieGrid:
    """All designs of one die, and the chosen one. Arrays have the shape (n_designs,)."""

    die: Die
    count: int  # number of equal dies of the FPGA
    units: Indices  # n of each design, scatter-gather units of the aggregate kernel, int64
    multipliers: Indices  # m of each design, multipliers of the update kernel, int64
    nvtps: Array  # throughput of the platform, if all dies were like this one, float64
    dsps: Array  # share of the die's DSPs, float64
    luts: tuple[Array, Array]  # lower and upper bound for the share of its LUTs, float64 each
    fits: NDArray[np.bool_]  # whether each design keeps the ceiling, for LUTs by their upper bound, bool
    chosen: int  # position of Algorithm 4's design: the most NVTPS, and of equals (to a part in 10^9) the fewest DSPs

    @classmethod
    def of(
        cls,
        die: Die,
        count: int,
        kernels: Kernels,
        ceiling: float,
        throughput: Callable[[Indices, Indices], Array],
        *,
        every: bool = False,
    ) -> Self:
        """Returns the grid of `design_axes`, whose errors it raises.

        Args:
            die: The die.
            count: Number of equal dies.
            kernels: Resources of the kernels.
            ceiling: Share of each resource that may be taken.
            throughput: Returns the NVTPS of designs, from their n and m.
            every: Whether every n and m is tried, or only powers of two.

        Raises:
            InfeasibleError: No design keeps the ceiling.
        """
        axes = design_axes(die, kernels, ceiling, every=every)
        units, multipliers = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
        dsps, low, high = shares(die, kernels, units, multipliers)
        taken = np.maximum(dsps, high)
        fits = taken <= ceiling
        if not fits.any():
            raise InfeasibleError(
                f"a design must keep to {ceiling:.0%} of a die's resources, but the smallest takes {taken.min():.0%}; "
                f"raise {option('ceiling')}"
            )
        nvtps = throughput(units, multipliers)
        traversed = np.where(fits, nvtps, -np.inf)
        equal = np.flatnonzero(traversed >= traversed.max() * (1 - 1e-9))
        chosen = int(equal[dsps[equal].argmin()])
        return cls(die, count, units, multipliers, nvtps, dsps, (low, high), fits, chosen)

    @property
    def costs(self) -> Array:
        """The minimized costs, float64, shape (n_designs, 3): -log2 NVTPS, and the shares of DSPs and LUTs."""
        return np.stack([-np.log2(self.nvtps), self.dsps, self.luts[1]], axis=1)

    @cached_property
    def front(self) -> NDArray[np.bool_]:
        """The fitting designs that no other one beats in NVTPS, DSPs and LUTs at once, bool, shape (n_designs,)."""
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
        close = np.flatnonzero(self.fits & (self.nvtps >= 0.99 * self.nvtps[self.chosen]))
        return int(close[self.dsps[close].argmin()])

    @property
    def traded(self) -> tuple[int, int] | None:
        """Twice the chosen n and half the chosen m; None if that is not on the grid or does not fit."""
        wanted = (self.units == 2 * self.design[0]) & (2 * self.multipliers == self.design[1]) & self.fits
        return (2 * self.design[0], self.design[1] // 2) if wanted.any() else None

    def to_dict(self) -> dict[str, Any]:
        """Returns the die, each design with its prediction, and the chosen design, as JSON types."""
        designs = [
            {
                "n": int(self.units[i]),
                "m": int(self.multipliers[i]),
                "nvtps": float(self.nvtps[i]),
                "dsp_share": float(self.dsps[i]),
                "lut_share": [float(bound[i]) for bound in self.luts],
                "fits": bool(self.fits[i]),
                "on_front": bool(self.front[i]),
            }
            for i in range(len(self.units))
        ]
        die = dataclasses.asdict(self.die)
        return {"die": die, "count": self.count, "chosen": designs[self.chosen], "grid": designs}


def design_axes(die: Die, kernels: Kernels, ceiling: float, *, every: bool = False) -> tuple[Indices, Indices]:
    """Returns the n and the m that alone keep the ceiling (Algorithm 4, Construct_Search_Space), int64, ascending.

    Raises:
        UsageError: `ceiling` is no share, or `every` makes too many designs to try.
        InfeasibleError: A unit or a multiplier alone exceeds the ceiling.
    """
    if not 0 < ceiling <= 1:
        raise UsageError(f"{option('ceiling')} must be a share of each resource in (0, 1], got {ceiling:g}")
    units = _values(ceiling * die.dsps / kernels.dsps_per_unit, every)
    multipliers = _values(ceiling * die.dsps / kernels.dsps_per_multiplier, every)
    units = units[shares(die, kernels, units, 0 * units)[2] <= ceiling]
    multipliers = multipliers[shares(die, kernels, 0 * multipliers, multipliers)[2] <= ceiling]
    for name, fitting in (("n", units), ("m", multipliers)):
        if not len(fitting):
            raise InfeasibleError(
                f"a design needs {name} >= 1, which alone takes more than {ceiling:.0%} of a die with {die.dsps:,} "
                f"DSPs and {die.luts:,} LUTs; raise {option('ceiling')}, or choose a larger FPGA"
            )
    if len(units) * len(multipliers) > ENUMERABLE:
        raise UsageError(
            f"{option('every', True)} tries at most {ENUMERABLE:,} designs of a die, got at least {len(units):,} "
            f"values of n and {len(multipliers):,} of m; leave out {option('every')} to try powers of two"
        )
    return units, multipliers


def shares(die: Die, kernels: Kernels, units: Indices, multipliers: Indices) -> tuple[Array, Array, Array]:
    """Returns the shares of a die's DSPs, and the lower and upper bounds for its LUTs (HitGNN, Eqs. 1 and 2).

    Each is float64, shape (n_designs,).
    """
    dsps = kernels.dsps_per_multiplier * multipliers + kernels.dsps_per_unit * units
    routing = units * np.log2(np.maximum(units, 1))
    luts = np.stack([m * multipliers + n * units + n_log_n * routing for m, n, n_log_n in kernels.luts])
    return np.asarray(dsps / die.dsps), luts.min(axis=0) / die.luts, luts.max(axis=0) / die.luts


def _values(largest: float, every: bool) -> Indices:
    """Returns the whole numbers, up to the size of any grid, or the powers of two, from 1 to `largest`, int64."""
    most = int(largest)
    return np.arange(1, min(most, ENUMERABLE + 1) + 1) if every else 2 ** np.arange(most.bit_length())

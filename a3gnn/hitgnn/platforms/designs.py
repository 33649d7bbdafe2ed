"""The designs of one die: n and m on a grid, throughput against resources under a ceiling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import InfeasibleError, UsageError
from a3gnn.hitgnn.platforms.metadata import Die, Kernels
from a3gnn.option_names import option
from a3gnn.prediction import Predict, Prediction
from a3gnn.space import ENUMERABLE

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

#: The predicted metrics of a design: throughput, and the shares of a die's resources that it takes.
DESIGN_METRICS = ("nvtps", "dsp_share", "lut_share")


@dataclass(frozen=True)
class DesignSpace:
    """A grid of designs; a row has the indices of n and m.

    Attributes:
        units: Values of n, scatter-gather units of the aggregate kernel.
        multipliers: Values of m, multipliers of the update kernel.
    """

    units: tuple[int, ...]
    multipliers: tuple[int, ...]

    @classmethod
    def of(cls, die: Die, kernels: Kernels, ceiling: float, *, every: bool = False) -> DesignSpace:
        """Returns the designs whose n alone and whose m alone keep the ceiling (Algorithm 4, Construct_Search_Space).

        Args:
            die: The die.
            kernels: Resources of the kernels.
            ceiling: Share of each resource that may be taken.
            every: Whether every n and m is tried, or only powers of two.

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
        return cls(tuple(units.tolist()), tuple(multipliers.tolist()))

    @property
    def num_distinct(self) -> int:
        """Number of designs on the grid."""
        return len(self.units) * len(self.multipliers)

    def decode(self, rows: Indices) -> tuple[Indices, Indices]:
        """Returns n and m of `rows`, int64, shape (n_designs,) each."""
        return np.array(self.units)[rows[:, 0]], np.array(self.multipliers)[rows[:, 1]]

    def enumerate(self) -> Indices:
        """Returns every row, in sorted order, int64, shape (num_distinct, 2)."""
        return np.indices((len(self.units), len(self.multipliers))).reshape(2, -1).T


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The share of each resource that a design may take."""

    share: float

    @staticmethod
    def taken(prediction: Prediction) -> Array:
        """Returns each design's share of the resource that it takes most of, float64, shape (n_designs,).

        For LUTs this is the upper end of their range.
        """
        return np.asarray(np.maximum(prediction.column("dsp_share", "high"), prediction.column("lut_share", "high")))

    def violation(self, prediction: Prediction) -> Array:
        """Returns the share of a die by which each design exceeds the ceiling, float64, shape (n_designs,)."""
        return np.asarray(np.maximum(self.taken(prediction) - self.share, 0.0))


@dataclass(frozen=True, slots=True)
class DesignObjectives:
    """More throughput from fewer resources, under a ceiling."""

    limits: Ceiling

    def costs(self, prediction: Prediction) -> Array:
        """Returns the minimized costs, float64, shape (n_designs, 3): -log2 NVTPS, and the shares of DSPs and LUTs."""
        taken = [prediction.column(name, "high") for name in ("dsp_share", "lut_share")]
        return np.stack([-np.log2(prediction.column("nvtps")), *taken], axis=1)

    def best(self, prediction: Prediction) -> int:
        """Returns the position of Algorithm 4's design: the one with the most NVTPS that keeps the ceiling.

        Among equals, to a part in 10^9, the one with the fewest DSPs wins.

        Raises:
            InfeasibleError: No design keeps the ceiling.
        """
        fits = self.limits.violation(prediction) == 0
        if not fits.any():
            least = self.limits.taken(prediction).min()
            raise InfeasibleError(
                f"a design must keep to {self.limits.share:.0%} of a die's resources, but the smallest takes "
                f"{least:.0%}; raise {option('ceiling')}"
            )
        traversed = np.where(fits, prediction.column("nvtps"), -np.inf)
        equal = np.flatnonzero(traversed >= traversed.max() * (1 - 1e-9))
        return int(equal[prediction.column("dsp_share")[equal].argmin()])


@dataclass(frozen=True)
class DesignProblem:
    """The choice of one die's design.

    Attributes:
        space: The grid.
        predict: Maps rows to a `Prediction` of `DESIGN_METRICS`.
        objectives: Costs and the ceiling.
    """

    space: DesignSpace
    predict: Predict
    objectives: DesignObjectives


def design_problem(
    space: DesignSpace, die: Die, kernels: Kernels, ceiling: float, throughput: Callable[[Indices, Indices], Array]
) -> DesignProblem:
    """Returns the choice of the design of `die`.

    Args:
        space: The grid.
        die: The die.
        kernels: Resources of the kernels.
        ceiling: Share of each resource that may be taken.
        throughput: Returns the NVTPS of designs, from their n and m.
    """

    def predict(rows: Indices) -> Prediction:
        units, multipliers = space.decode(rows)
        traversed = throughput(units, multipliers)
        dsps, low, high = shares(die, kernels, units, multipliers)
        return Prediction(
            np.stack([traversed, dsps, (low + high) / 2], axis=1),
            np.stack([traversed, dsps, low], axis=1),
            np.stack([traversed, dsps, high], axis=1),
            metrics=DESIGN_METRICS,
        )

    return DesignProblem(space, predict, DesignObjectives(Ceiling(ceiling)))


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

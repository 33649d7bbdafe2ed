"""Resources of designs, and their grid as what every searcher can search."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.errors import InfeasibleError, UsageError
from a3gnn.hitgnn.platforms.designs import DieGrid, Indices, design_axes, shares
from a3gnn.hitgnn.platforms.metadata import Die, Fpga, Kernels, Platform
from a3gnn.pareto import non_dominated


@pytest.fixture(scope="module")
def die(u250: Platform) -> Die:
    assert isinstance(u250.device, Fpga)
    return u250.device.dies[0]


@pytest.fixture(scope="module")
def kernels(u250: Platform) -> Kernels:
    assert isinstance(u250.device, Fpga)
    return u250.device.kernels


@pytest.fixture(scope="module")
def grid(die: Die, kernels: Kernels) -> DieGrid:
    """Throughput that neither n nor m raises alone."""

    def throughput(units: Indices, multipliers: Indices) -> np.ndarray:
        return 1 / (1 / (100.0 * units) + 1 / multipliers)

    return DieGrid.of(die, 1, kernels, 0.91, throughput)


def test_the_coefficients_give_table_5(die: Die, kernels: Kernels) -> None:
    """Of (8, 2048) and (16, 1024), which four dies share; its percentages are whole."""
    dsps, low, high = shares(die, kernels, np.array([2, 4]), np.array([512, 256]))
    assert dsps.tolist() == [pytest.approx(0.90625), pytest.approx(0.5625)]
    assert low == pytest.approx([0.72, 0.65], abs=1e-6)
    assert high == pytest.approx([0.72, 0.65], abs=1e-6)


def test_other_designs_have_a_range_of_luts(die: Die, kernels: Kernels) -> None:
    _, low, high = shares(die, kernels, np.array([8]), np.array([64]))
    assert high[0] - low[0] > 0.1


def test_the_grid_goes_as_far_as_one_kind_alone_fits(die: Die, kernels: Kernels) -> None:
    units, multipliers = design_axes(die, kernels, 0.91)
    assert units.tolist() == [1, 2, 4]
    assert multipliers.tolist() == [2**k for k in range(10)]
    every_unit, every_multiplier = design_axes(die, kernels, 0.91, every=True)
    assert every_multiplier.tolist() == list(range(1, 560))
    assert set(units.tolist()) <= set(every_unit.tolist())


def test_rows_of_the_grid(grid: DieGrid) -> None:
    pairs = list(zip(grid.units.tolist(), grid.multipliers.tolist(), strict=True))
    assert len(pairs) == len(set(pairs)) == 30
    assert pairs == sorted(pairs)


def test_the_front_of_a_grid_trades_throughput_for_resources(grid: DieGrid) -> None:
    front = grid.costs[grid.fits]
    front = front[non_dominated(front)]
    assert 3 < len(front) == grid.front.sum() < grid.fits.sum() < len(grid.nvtps)


def test_of_equal_designs_the_one_with_fewer_dsps_is_best(die: Die, kernels: Kernels) -> None:
    def throughput(units: Indices, multipliers: Indices) -> np.ndarray:
        return np.minimum(multipliers, 8).astype(np.float64)

    assert DieGrid.of(die, 1, kernels, 0.91, throughput).design == (1, 8)


@pytest.mark.parametrize("ceiling", [0, -0.5, 1.01, float("nan")])
def test_a_ceiling_is_a_share(ceiling: float, die: Die, kernels: Kernels) -> None:
    with pytest.raises(UsageError, match=r"ceiling must be a share of each resource in \(0, 1\]"):
        design_axes(die, kernels, ceiling)


@pytest.mark.parametrize("dsps_per_unit", [0.1, 1e-9])
def test_a_grid_of_too_many_designs_is_said(dsps_per_unit: float, die: Die) -> None:
    small = Kernels("mine", 1, 1, dsps_per_unit, ((1e-6, 1e-6, 0),))
    with pytest.raises(UsageError, match=r"every=True tries at most 200,000 designs of a die.*leave out every to try"):
        design_axes(die, small, 0.91, every=True)
    units, multipliers = design_axes(die, small, 0.91)
    assert len(units) * len(multipliers) < 1000


def test_a_die_without_room_is_said(kernels: Kernels) -> None:
    with pytest.raises(InfeasibleError, match="needs n >= 1"):
        design_axes(Die(100, 10_000, 1e9), kernels, 0.91)


def test_a_die_with_room_for_either_alone_is_said(kernels: Kernels) -> None:
    die = Die(113, 1_000_000, 1e9)  # 112 for a unit, 5 for a multiplier
    with pytest.raises(InfeasibleError, match="the smallest takes 104%"):
        DieGrid.of(die, 1, kernels, 1.0, lambda units, multipliers: np.ones(len(units)))

"""The kernels' results, in the C simulation and on an OpenCL device, against float64 NumPy."""

from pathlib import Path

import numpy as np
import pytest

from a3gnn.errors import A3GNNError
from a3gnn.hitgnn.hls.case import Case
from a3gnn.hitgnn.hls.check import TOLERANCE, rows_read
from a3gnn.hitgnn.hls.simulation import run_opencl, simulate
from tests.hitgnn.hls.cases import Accelerator, case_with, computed, layer, random_layer, worst

#: (n, m) of HitGNN, (8, 2048) and (16, 1024); the smallest; and corners: the array of multipliers has fewer than 16
#: rows up to m = 8, and fewer than 16 columns up to m = 128; 32 units have the deepest network.
GRID = [
    (8, 2048),
    *(pytest.param(*one, marks=pytest.mark.weekly) for one in ((1, 1), (32, 64), (2, 8), (8, 128), (16, 1024))),
]


def two_layers(parts: int) -> Case:
    """Sizes that are no multiples of anything; over half of the rows of sums are empty; edges are repeated."""
    first = random_layer(301, 120, 140, (37, 50), parts=parts)
    twice = {name: np.tile(getattr(first, name), 2) for name in ("sources", "pieces", "factors")}
    first = type(first)(**vars(first) | twice | {"rectified": True})
    return case_with(first, random_layer(120, 19, 230, (50, 7), parts=parts, seed=1))


def assert_right(folder: Path, case: Case) -> None:
    """Results are NumPy's, and each aggregate reads the row of each distinct source once."""
    results, calls = simulate(folder, case)
    assert worst(results, computed(case)) < TOLERANCE / 10
    assert rows_read(case, calls) == sum(len(set(rows)) for one in case.layers for rows in (one.sources, one.pieces))


@pytest.mark.parametrize("parts", [1, 2], ids=["gcn", "sage"])
def test_training_equals_numpy(parts: int, accelerator: Accelerator) -> None:
    assert_right(accelerator(4, 64), two_layers(parts))


@pytest.mark.slow
@pytest.mark.parametrize(("units", "multipliers"), GRID)
def test_training_equals_numpy_whatever_the_design(units: int, multipliers: int, accelerator: Accelerator) -> None:
    folder = accelerator(units, multipliers)
    for parts in (1, 2):
        assert_right(folder, two_layers(parts))


@pytest.mark.parametrize("columns", [(1, 1), (16, 16), (17, 33), (130, 5)], ids=str)
def test_any_width(columns: tuple[int, int], accelerator: Accelerator) -> None:
    case = case_with(random_layer(40, 30, 90, columns, parts=2))
    results, _ = simulate(accelerator(4, 64), case)
    assert worst(results, computed(case)) < TOLERANCE / 10


def test_a_layer_without_edges(accelerator: Accelerator) -> None:
    none = np.empty(0, dtype=int)
    case = case_with(layer(5, 3, (none, none), (20, 4)))
    results, calls = simulate(accelerator(4, 64), case)
    assert np.array_equal(results[0].out, np.tile(case.layers[0].bias, (3, 1)))
    assert not results[0].source_gradient.any()
    assert rows_read(case, calls) == 0


def test_rows_that_do_not_fit_are_summed_in_slabs(accelerator: Accelerator) -> None:
    case = two_layers(2)  # 301 rows of 3 words, 240 of 3, 120 of 4, 38 of 4
    whole, _ = simulate(accelerator(4, 64), case)
    slabs, calls = simulate(accelerator(4, 64, 64 * 480), case)
    sizes = [(call.sizes["destinations"], call.sizes["words"]) for call in calls if call.kernel == "aggregate"]
    assert sizes == [(240, 2), (240, 1), (38, 4), (120, 4), (301, 1), (301, 1), (301, 1)]
    assert worst(slabs, whole) < TOLERANCE / 10
    assert rows_read(case, calls) == sum(len(set(rows)) for one in case.layers for rows in (one.sources, one.pieces))


def test_sums_that_never_fit_are_refused(accelerator: Accelerator) -> None:
    case = case_with(random_layer(40, 500, 90, (4, 4), parts=1))
    with pytest.raises(A3GNNError, match="sums of 500 rows must fit in RESULT_WORDS = 480 words; generate with more"):
        simulate(accelerator(4, 64, 64 * 480), case)


@pytest.mark.parametrize("parts", [1, 2], ids=["gcn", "sage"])
def test_opencl_equals_the_simulation(parts: int, accelerator: Accelerator, opencl: None) -> None:
    case = two_layers(parts)
    folder = accelerator(4, 64)
    results, device = run_opencl(folder, case)
    assert device
    assert worst(results, simulate(folder, case)[0]) < TOLERANCE / 10
    assert worst(results, computed(case)) < TOLERANCE / 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("units", "multipliers"),
    [(8, 2048), *(pytest.param(*one, marks=pytest.mark.weekly) for one in ((1, 1), (2, 8), (16, 1024)))],
)
def test_opencl_equals_numpy_whatever_the_design(
    units: int, multipliers: int, accelerator: Accelerator, opencl: None
) -> None:
    case = two_layers(2)
    assert worst(run_opencl(accelerator(units, multipliers), case)[0], computed(case)) < TOLERANCE / 10

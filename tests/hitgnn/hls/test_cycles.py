"""What the C simulation counts, beside HitGNN's performance model: as it says, where it holds, and otherwise not."""

import numpy as np
import pytest

from a3gnn.hitgnn.hls.case import Case
from a3gnn.hitgnn.hls.generate import FIFO_DEPTH, Design
from a3gnn.hitgnn.hls.simulation import CycleComparison, KernelCall, compare_cycles, simulate
from tests.hitgnn.hls.cases import Accelerator, case_with, layer

#: Cycles until the first words have come through the units: duplicated, scattered, two per stage of the network.
FILL = 40


def spread(sources: int, degree: int, destinations: int, columns: tuple[int, int] = (128, 16)) -> Case:
    """Each source has `degree` edges; a destination comes again after all others."""
    edges = np.arange(sources * degree)
    return case_with(layer(sources, destinations, (edges // degree, edges % destinations), columns))


def forward(design: Design, calls: list[KernelCall]) -> tuple[CycleComparison, CycleComparison]:
    """The aggregate and the update of the forward pass."""
    aggregate, update, *_ = compare_cycles(design, calls)
    return aggregate, update


SLOW, WEEKLY = pytest.mark.slow, pytest.mark.weekly  # each compiles an accelerator


@pytest.mark.parametrize("units", [4, *(pytest.param(units, marks=WEEKLY) for units in (1, 16))])
def test_aggregation_takes_what_the_model_says(units: int, accelerator: Accelerator) -> None:
    case = spread(sources=60, degree=40, destinations=500)
    aggregate, _ = forward(Design(units, 64), simulate(accelerator(units, 64), case)[1])
    assert aggregate.computing == 60 * 40 * 128 / (16 * units)
    assert aggregate.computing > aggregate.reading == 60 * 8
    assert aggregate.computing <= aggregate.counted <= 1.02 * aggregate.computing + FILL


@pytest.mark.parametrize("units", [4, *(pytest.param(units, marks=WEEKLY) for units in (1, 16))])
def test_random_edges_take_a_little_more(units: int, accelerator: Accelerator) -> None:
    """Units whose sums are asked for more often end later, and so do those that wait for a sum."""
    draw = np.random.default_rng(1)
    case = case_with(layer(300, 800, (draw.integers(0, 300, 6000), draw.integers(0, 800, 6000)), (128, 16)))
    _, calls = simulate(accelerator(units, 64), case)
    aggregate, _ = forward(Design(units, 64), calls)
    assert aggregate.modeled == 6000 * 128 / (16 * units)
    assert aggregate.modeled < aggregate.counted <= 1.1 * aggregate.modeled
    assert calls[0].depths["network"] <= FIFO_DEPTH


def test_reading_bounds_aggregation_where_sources_have_few_edges(accelerator: Accelerator) -> None:
    case = spread(sources=600, degree=2, destinations=500)
    aggregate, _ = forward(Design(4, 64), simulate(accelerator(4, 64), case)[1])
    assert aggregate.reading == 600 * 8 == 2 * aggregate.computing
    assert aggregate.reading <= aggregate.counted <= aggregate.reading + FILL


def test_one_destination_waits_for_its_own_sum(accelerator: Accelerator) -> None:
    """The model has no adders that take time: all edges go to one sum of one word, which takes one in eight cycles."""
    edges = np.arange(400)
    case = case_with(layer(400, 1, (edges, 0 * edges), (16, 16)))
    aggregate, _ = forward(Design(4, 64), simulate(accelerator(4, 64), case)[1])
    assert aggregate.modeled == 400
    assert 8 * 399 <= aggregate.counted <= 8 * 399 + FILL


@pytest.mark.parametrize("depth", [128, 32, 8])
@pytest.mark.parametrize("multipliers", [64, pytest.param(2048, marks=SLOW), pytest.param(16, marks=WEEKLY)])
def test_updates_take_what_the_model_says_or_writing_takes(
    multipliers: int, depth: int, accelerator: Accelerator
) -> None:
    """A block of 128 rows by `columns` takes `8 * depth` cycles, and a cycle per word that is written."""
    none = np.empty(0, dtype=int)
    case = case_with(layer(1, 256, (none, none), (depth, 128)))
    _, update = forward(Design(4, multipliers), simulate(accelerator(4, multipliers), case)[1])
    columns = multipliers // 16
    array_and_tile = 16 + columns + 128  # cycles until the last multiplier has its first entries
    blocks, words = 256 // 128 * (128 // columns), 128 * -(-columns // 16)
    assert update.computing == 256 * depth * 128 / multipliers
    bound = max(update.computing, blocks * words)
    assert (bound > update.computing) == (depth < max(columns, 16))
    assert bound <= update.counted <= bound + array_and_tile
    assert update.counted <= update.written <= bound + array_and_tile + words


def test_an_update_takes_as_long_as_writing_it() -> None:
    """What the simulation of (8, 2048) says of 1,024 x 32 times 32 x 128: eight blocks of 1,024 words."""
    sizes = {"rows": 1024, "depth": 32, "columns": 128}
    call = KernelCall(0, "forward", "update", 8692, sizes, {"write_block": 8192}, {"multiply_add": 2320}, {}, {}, {})
    (update,) = compare_cycles(Design(8, 2048), [call])
    assert (update.counted, update.modeled, update.written) == (8192, 2048, 8692)


def test_blocks_that_are_not_filled_take_as_long(accelerator: Accelerator) -> None:
    none = np.empty(0, dtype=int)
    counted = []
    for rows, columns in ((128, 8), (3, 5)):  # a block of 64 multipliers has 128 x 4 sums
        case = case_with(layer(1, rows, (none, none), (128, columns)))
        counted.append(forward(Design(4, 64), simulate(accelerator(4, 64), case)[1])[1].counted)
    assert counted[0] == counted[1] >= 2 * 128 * 8


def test_the_network_holds_little_where_words_spread_over_the_units(accelerator: Accelerator) -> None:
    _, calls = simulate(accelerator(4, 64), spread(sources=60, degree=40, destinations=500))
    assert 1 <= calls[0].depths["network"] <= 8

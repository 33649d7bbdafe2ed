import numpy as np
import pytest

from a3gnn.loader.memory_model import MOST_GROWTH, MemoryModel, Size

MIB = 1 << 20


def taken(size: Size) -> float:
    """A pass like those of a GNN: a constant, and the larger of two sums."""
    return 4 * MIB + max(900.0 * size.nodes + 300.0 * size.edges, 400.0 * size.nodes + 700.0 * size.edges)


def sizes(count: int, seed: int) -> list[Size]:
    rng = np.random.default_rng(seed)
    nodes = rng.integers(20_000, 80_000, count)
    return [Size(int(n), int(n * ratio)) for n, ratio in zip(nodes, rng.uniform(1.2, 3, count), strict=True)]


def test_a_first_pass_bounds_larger_ones() -> None:
    model = MemoryModel()
    model.add(Size(10_000, 20_000), taken(Size(10_000, 20_000)))
    for size in (Size(40_000, 60_000), Size(20_000, 80_000), Size(11_000, 20_000), Size(40_000, 80_000)):
        assert model.within_reach(size)
        assert taken(size) <= model.predict(size) <= 3 * taken(size)


def test_far_larger_ones_are_out_of_reach() -> None:
    model = MemoryModel()
    model.add(Size(1000, 2000), MIB)
    assert model.within_reach(Size(int(1000 * MOST_GROWTH), 2000))
    assert not model.within_reach(Size(int(1000 * MOST_GROWTH) + 1, 2000))
    assert not model.within_reach(Size(1000, int(2000 * MOST_GROWTH) + 1))


@pytest.mark.parametrize("seed", range(5))
def test_it_learns_a_pass(seed: int) -> None:
    """After some passes it is right to three tenths, and never too low by more than the noise."""
    model, noise = MemoryModel(), np.random.default_rng(seed)
    for size in sizes(30, seed):
        model.add(size, taken(size) * noise.uniform(0.97, 1.03))
    for size in sizes(30, seed + 100):
        assert taken(size) < model.predict(size) < 1.3 * taken(size)


def test_an_error_widens_the_margin_for_such_sizes() -> None:
    model, size = MemoryModel(), Size(10_000, 20_000)
    for _ in range(10):
        model.add(size, 100 * MIB)
    before, margin = model.predict(size), model.margin(size)
    model.add(size, 130 * MIB)
    assert model.margin(size) - margin == pytest.approx(0.3, abs=0.01)
    assert model.predict(size) >= 130 * MIB > before
    tiny = MemoryModel()
    tiny.add(Size(10, 20), 2 * MIB)
    tiny.add(Size(10, 20), 8 * MIB)
    assert tiny.margin(Size(10, 20)) > 1 > tiny.margin(Size(1000, 2000))


def test_several_passes_of_about_a_size_make_it_known() -> None:
    model = MemoryModel()
    for _ in range(4):
        assert not model.knows(Size(1000, 2000))
        model.add(Size(1000, 2000), MIB)
    assert model.knows(Size(1200, 2000))
    assert not model.knows(Size(1300, 2000))
    assert not model.knows(Size(500, 1000))


def test_what_was_exceeded_widens_the_margin_by_that() -> None:
    model, size = MemoryModel(), Size(10_000, 20_000)
    for _ in range(10):
        model.add(size, 100 * MIB)
    before = model.predict(size)
    model.exceed(size, 10 * MIB)
    assert model.predict(size) == pytest.approx(before + 10 * MIB, rel=0.01)
    assert len(model) == 10


def test_it_lacks_what_is_larger_than_all_that_was_measured() -> None:
    model = MemoryModel()
    for _ in range(4):
        assert model.lacks(Size(1000, 2000))
        model.add(Size(1000, 2000), MIB)
    assert not model.lacks(Size(1000, 2000))
    assert not model.lacks(Size(10, 20))
    assert model.lacks(Size(1300, 2000))


def test_a_spike_is_forgotten_after_passes_that_keep_the_limit() -> None:
    model, size = MemoryModel(), Size(10_000, 20_000)
    for _ in range(10):
        model.add(size, 100 * MIB)
    before = model.predict(size)
    for _ in range(3):  # evaluations between epochs, say
        model.exceed(size, 200 * MIB)
        assert model.predict(size) > before + 190 * MIB
        for _ in range(3):
            model.keep()
        assert model.predict(size) > before + 190 * MIB
        for _ in range(7):
            model.keep()
        assert model.predict(size) == before


def test_an_excess_that_returns_at_once_is_kept() -> None:
    model, size = MemoryModel(), Size(10_000, 20_000)
    for _ in range(10):
        model.add(size, 100 * MIB)
    before = model.predict(size)
    for kept in (5, 20):
        model.exceed(size, 50 * MIB)
        for _ in range(kept):
            model.keep()
    assert model.predict(size) > before + 40 * MIB

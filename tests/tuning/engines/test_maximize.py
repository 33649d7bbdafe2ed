"""Local search over the configurations of a space, against all of them."""

import numpy as np
import pytest

from a3gnn.space import SearchSpace
from a3gnn.tuning.engines.improvement import CLIMBERS, maximize

SPACE = SearchSpace.from_dict(
    {"batch_size": (64, 128, 256, 512, 1024), "deep_fanout": (None,), "learning_rate_scale": (1.0, 2.0)}
)


def rugged(seed: int, slope: float = 1.0):
    """Returns a value that is a sum over the knobs, with some noise of each row's own."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(len(SPACE.knobs), 32))
    keys = rng.integers(1 << 62, size=len(SPACE.knobs)) | 1

    def value(rows: np.ndarray) -> np.ndarray:
        own = weights[np.arange(rows.shape[1]), rows].sum(axis=1)
        mixed = ((rows + 1) * keys).sum(axis=1)  # integers wrap around, so near rows have other noise
        noise = 3.46 * (((mixed ^ (mixed >> 29)) >> 20) % 4096 / 4096 - 0.5)  # as wide as a normal one of deviation 1
        return slope * own + 0.1 * noise

    return value


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_the_best_of_a_small_space(seed: int) -> None:
    value = rugged(seed)
    every = SPACE.enumerate()
    rows, values = maximize(SPACE, value, SPACE.sample(64, seed))
    assert len(rows) < len(every)
    assert values[0] >= np.quantile(value(every), 0.9999)
    assert (np.diff(values) <= 0).all()
    np.testing.assert_allclose(values, value(rows))


def test_rows_are_canonical_and_evaluated_once() -> None:
    calls: list[bytes] = []

    def value(rows: np.ndarray) -> np.ndarray:
        calls.extend(row.tobytes() for row in rows)
        return rugged(0)(rows)

    rows, _ = maximize(SPACE, value, SPACE.sample(8, 0))
    assert len(calls) == len(set(calls)) == len(rows)
    np.testing.assert_array_equal(rows, SPACE.canonical(rows))


def test_the_end_is_no_worse_than_any_neighbor() -> None:
    value = rugged(3)
    rows, values = maximize(SPACE, value, SPACE.sample(1, 1))
    assert value(SPACE.neighbors(rows[0])).max() <= values[0]


def test_a_plateau_ends_it() -> None:
    rows, values = maximize(SPACE, lambda rows: np.zeros(len(rows)), SPACE.sample(100, 0))
    assert (values == 0).all()
    assert len(rows) <= 100 + CLIMBERS * 64

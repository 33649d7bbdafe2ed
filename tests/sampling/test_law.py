"""The sampler against the exact distribution of weighted sampling without replacement, by chi-square, seeds fixed."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from a3gnn.graphs.edges import Edges
from a3gnn.sampling.sampler import Sampler

REPEATS = 20_000
DEGREE = 6


@pytest.fixture
def draw(repeated_row: Callable[[int, int], tuple[np.ndarray, np.ndarray]]) -> Callable[..., np.ndarray]:
    """Draws `fanout` of `degree` in-neighbors REPEATS times; in each row of the result, which were picked."""

    def picked(degree: int, cached: list[int], fanout: int, bias: float, seed: int = 5) -> np.ndarray:
        indptr, indices = repeated_row(degree, REPEATS)
        mask = np.zeros(len(indptr) - 1, dtype=bool)
        mask[cached] = True
        sampler = Sampler(Edges(indptr, indices), (fanout,), seed=seed, bias_rate=bias, cached=mask)
        subgraph = sampler.sample(np.arange(degree, degree + REPEATS, dtype=np.int32), epoch=0, batch=0)
        rows = np.zeros((REPEATS, degree), dtype=bool)
        rows[np.repeat(np.arange(REPEATS), fanout), subgraph.n_id[subgraph.indices]] = True
        assert (rows.sum(axis=1) == fanout).all()
        return rows

    return picked


def pvalue(rows: np.ndarray, distribution: dict[frozenset[int], float]) -> float:
    codes = rows @ (1 << np.arange(rows.shape[1]))
    observed = np.array([(codes == sum(1 << item for item in chosen)).sum() for chosen in distribution])
    return float(chisquare(observed, np.array(list(distribution.values())) * len(rows)).pvalue)


@pytest.mark.parametrize("bias", [1.0, 2.0, 8.0])
@pytest.mark.parametrize("fanout", [2, 3, 5])
@pytest.mark.parametrize("cached", [[1, 4], [0, 2, 5], [0, 1, 3, 5]])
def test_small_rows_keep_the_exact_distribution(
    bias: float, fanout: int, cached: list[int], draw, exact_distribution
) -> None:
    distribution = exact_distribution([bias if item in cached else 1.0 for item in range(DEGREE)], fanout)
    assert pvalue(draw(DEGREE, cached, fanout, bias), distribution) > 1e-3


@pytest.mark.parametrize("bias", [2.0, 8.0, 64.0])
@pytest.mark.parametrize("cached", [[3], [0, 2, 5, 6]])
def test_rows_of_four_fanouts_keep_the_exact_distribution(
    bias: float, cached: list[int], draw, exact_distribution
) -> None:
    distribution = exact_distribution([bias if item in cached else 1.0 for item in range(8)], 2)
    assert pvalue(draw(8, cached, 2, bias), distribution) > 1e-3


def test_the_chi_square_test_sees_a_wrong_bias(draw, exact_distribution) -> None:
    rows = draw(DEGREE, [1, 4], 2, 2.0)
    assert pvalue(rows, exact_distribution([2.2 if item in (1, 4) else 1.0 for item in range(DEGREE)], 2)) < 1e-3


@pytest.mark.parametrize(
    ("degree", "cached", "fanout", "bias"), [(60, 15, 10, 3.0), (200, 20, 25, 8.0), (30, 28, 10, 2.0)]
)
def test_as_many_cached_are_picked_as_by_a_res(degree: int, cached: int, fanout: int, bias: float, draw) -> None:
    drawn = draw(degree, list(range(cached)), fanout, bias)
    # The reference: the largest keys u ** (1 / w) of the whole row (Efraimidis and Spirakis, 2006).
    keys = np.log(np.random.default_rng(7).random((REPEATS, degree)))
    keys[:, :cached] /= bias
    reference = np.argsort(-keys, axis=1)[:, :fanout] < cached
    found = drawn[:, :cached].sum(axis=1), reference.sum(axis=1)
    table = np.array([np.bincount(counts, minlength=fanout + 1) for counts in found])
    assert chi2_contingency(table[:, table.min(axis=0) >= 5]).pvalue > 1e-3


def test_within_a_bucket_all_are_equal(draw) -> None:
    rows = draw(40, list(range(12)), 10, 4.0)
    # Picks of one row exclude each other, so the counts vary less than independent ones: the test is one-sided.
    assert chisquare(rows[:, :12].sum(axis=0)).pvalue > 1e-3
    assert chisquare(rows[:, 12:].sum(axis=0)).pvalue > 1e-3

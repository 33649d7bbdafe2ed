"""Fanouts and buckets above 64 offsets, where a one-word bitmap no longer detects duplicates, by chi-square."""

from collections.abc import Callable
from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.stats import chisquare, hypergeom

from a3gnn.graphs.edges import Edges
from a3gnn.pipeline.device_sampler import DeviceSampler
from a3gnn.sampling.random import below
from a3gnn.sampling.sampler import Sampler

REPEATS = 10_000
Arrays = tuple[np.ndarray, np.ndarray]
Draw = Callable[..., np.ndarray]
SAMPLERS = {"two_bucket": Sampler, "device": DeviceSampler}
samplers = pytest.mark.parametrize("sampler", SAMPLERS)


@pytest.fixture
def draw(repeated_row: Callable[[int, int], Arrays]) -> Draw:
    """Draws `fanout` of `degree` in-neighbors again and again; in each row of the result, which were picked."""

    def picked(sampler: str, degree: int, fanout: int, cached: int = 0, bias: float = 1.0, repeats: int = REPEATS):
        indptr, indices = repeated_row(degree, repeats)
        mask = np.arange(len(indptr) - 1) < cached
        made = SAMPLERS[sampler](Edges(indptr, indices), (fanout,), seed=11, bias_rate=bias, cached=mask)
        subgraph = made.sample(np.arange(degree, degree + repeats, dtype=np.int32), epoch=0, batch=0)
        assert len(subgraph.indices) == repeats * fanout
        rows = np.zeros((repeats, degree), dtype=bool)
        rows[np.repeat(np.arange(repeats), fanout), subgraph.n_id[subgraph.indices]] = True
        assert (rows.sum(axis=1) == fanout).all()  # distinct
        return rows

    return picked


def pvalue_of_sets(left: np.ndarray) -> float:
    """Of the hypothesis that each row's set of offsets not picked is uniform among sets of its size."""
    size, degree = int(left[0].sum()), left.shape[1]
    places = np.nonzero(left)[1].reshape(-1, size)
    of = {chosen: i for i, chosen in enumerate(combinations(range(degree), size))}
    counts = np.bincount([of[tuple(row)] for row in places.tolist()], minlength=comb(degree, size))
    return float(chisquare(counts).pvalue)


@samplers
@pytest.mark.parametrize("cached", ["none", "all"])
@pytest.mark.parametrize(("degree", "fanout"), [(65, 64), (66, 65), (130, 129), (70, 68)])
def test_the_set_of_what_is_not_picked_is_uniform(
    sampler: str, degree: int, fanout: int, cached: str, draw: Draw
) -> None:
    rows = draw(sampler, degree, fanout, cached=degree if cached == "all" else 0, bias=2.0)
    assert pvalue_of_sets(~rows) > 1e-3


def test_that_test_sees_a_set_that_is_nearly_uniform() -> None:
    # Floyd's algorithm with a bound too small by one: the range's upper end is picked only in place of a duplicate.
    left = np.ones((REPEATS, 66), dtype=bool)
    for row in range(REPEATS):
        for i in range(65):
            pick = int(below(np.uint64(row), i, 1 + i))
            left[row, pick if left[row, pick] else 1 + i] = False
    assert (left.sum(axis=1) == 1).all()
    assert pvalue_of_sets(left) < 1e-3


@samplers
@pytest.mark.parametrize("fanout", [150, 100])
@pytest.mark.parametrize("bias", [2.0, 8.0])
def test_both_buckets_of_a_long_row_are_uniform_within(sampler: str, bias: float, fanout: int, draw: Draw) -> None:
    rows = draw(sampler, 300, fanout, cached=120, bias=bias)
    # Picks of one row exclude each other, so the counts vary less than independent ones: the test is one-sided.
    assert chisquare(rows[:, :120].sum(axis=0)).pvalue > 1e-3
    assert chisquare(rows[:, 120:].sum(axis=0)).pvalue > 1e-3


@samplers
@pytest.mark.parametrize("cached", [0, 5000])
def test_halves_of_a_long_row_hold_what_chance_gives_them(sampler: str, cached: int, draw: Draw) -> None:
    # Offsets below 4,096 and above share bits in both words that detect duplicates.
    rows = draw(sampler, 5000, 80, cached=cached, bias=2.0, repeats=2000)
    counts = np.bincount(rows[:, :4096].sum(axis=1), minlength=81)
    distribution = hypergeom(5000, 4096, 80)
    common = 2000 * distribution.pmf(np.arange(81)) >= 5
    few, many = np.arange(81) < np.flatnonzero(common)[0], np.arange(81) > np.flatnonzero(common)[-1]
    observed = [*counts[common], counts[few].sum(), counts[many].sum()]
    chances = distribution.pmf(np.arange(81))
    expected = 2000 * np.array([*chances[common], chances[few].sum(), chances[many].sum()])
    assert chisquare(observed, expected * sum(observed) / expected.sum()).pvalue > 1e-3

import numpy as np
from scipy.stats import chisquare, kstest

from a3gnn.sampling.random import below, fold, hop_key, uniform


def test_the_first_draws_are_splitmix64s() -> None:
    # The reference implementation's outputs for the state 1234567.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [int(fold(np.uint64(1234567), np.uint64(i))) for i in range(3)] == expected


def test_keys_differ_in_every_coordinate() -> None:
    words = [(seed, epoch, batch, hop) for seed in (0, 1) for epoch in range(3) for batch in range(3) for hop in (0, 1)]
    keys = {int(hop_key(*(np.uint64(word) for word in coordinates))) for coordinates in words}
    assert len(keys) == len(words)


def test_uniform_is_uniform() -> None:
    draws = [uniform(np.uint64(7), i) for i in range(20_000)]
    assert min(draws) >= 0
    assert max(draws) < 1
    assert kstest(draws, "uniform").pvalue > 1e-3


def test_below_covers_its_range_evenly() -> None:
    counts = np.bincount([below(np.uint64(11), i, 7) for i in range(20_000)], minlength=7)
    assert len(counts) == 7
    assert chisquare(counts).pvalue > 1e-3


def test_below_reaches_large_bounds() -> None:
    bound = 2**31 - 1
    draws = np.array([below(np.uint64(3), i, bound) for i in range(2_000)])
    assert draws.min() >= 0
    assert draws.max() < bound
    assert kstest(draws / bound, "uniform").pvalue > 1e-3

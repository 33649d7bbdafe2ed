"""Graphs as bare arrays, and the distribution that every sampler must have."""

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest

Arrays = tuple[np.ndarray, np.ndarray]


@pytest.fixture
def repeated_row() -> Callable[[int, int], Arrays]:
    """Makes a graph of `degree` sources and `repeats` nodes after them, each with all sources as in-neighbors."""

    def make(degree: int, repeats: int) -> Arrays:
        indptr = np.concatenate([np.zeros(degree, dtype=np.int64), np.arange(repeats + 1) * degree])
        return indptr, np.tile(np.arange(degree, dtype=np.int32), repeats)

    return make


@pytest.fixture
def exact_distribution() -> Callable[[list[float], int], dict[frozenset[int], float]]:
    """Enumerates the probability of each set of `k`, drawn one by one by their shares of the remaining weight."""

    def distribution(weights: list[float], k: int) -> dict[frozenset[int], float]:
        sets: dict[frozenset[int], float] = {}
        for order in permutations(range(len(weights)), k):
            left, probability = sum(weights), 1.0
            for item in order:
                probability *= weights[item] / left
                left -= weights[item]
            sets[frozenset(order)] = sets.get(frozenset(order), 0.0) + probability
        return sets

    return distribution


@pytest.fixture
def random_graph() -> Callable[..., Arrays]:
    """Makes a graph of `nodes` nodes with degrees up to `most`, without repeated edges, each row sorted."""

    def make(nodes: int, most: int, seed: int) -> Arrays:
        draw = np.random.default_rng(seed)
        degrees = draw.integers(0, min(most, nodes) + 1, size=nodes)
        rows = [np.sort(draw.choice(nodes, size=degree, replace=False)) for degree in degrees]
        indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
        return indptr, np.concatenate([*rows, []]).astype(np.int32)

    return make

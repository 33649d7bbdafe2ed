"""Picks of different rows, hops, mini-batches, epochs and seeds are independent, by chi-square."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from a3gnn.graphs.edges import Edges
from a3gnn.pipeline import device_sampler
from a3gnn.pipeline.device_sampler import DeviceSampler
from a3gnn.sampling.sampler import Sampler

ROWS = 20_000
DEGREE = 8
SAMPLERS = {"two_bucket": Sampler, "device": DeviceSampler}
samplers = pytest.mark.parametrize("sampler", SAMPLERS)
Picks = Callable[..., np.ndarray]


@pytest.fixture
def picks() -> Picks:
    """Samples one of `DEGREE` in-neighbors in each of `ROWS` rows: which, at hop 0, or one hop after their roots.

    A root has one in-neighbor: its row.
    """
    rows = np.concatenate([np.zeros(DEGREE, dtype=np.int64), np.full(ROWS, DEGREE), np.ones(ROWS, dtype=np.int64)])
    indptr = np.concatenate([[0], np.cumsum(rows)])
    own = np.arange(DEGREE, DEGREE + ROWS, dtype=np.int32)
    indices = np.concatenate([np.tile(np.arange(DEGREE, dtype=np.int32), ROWS), own])

    def sample(sampler: str, *, hop: int = 0, seed: int = 3, epoch: int = 0, batch: int = 0) -> np.ndarray:
        # The bias changes no probability, as all are cached, but reads the cache.
        cached = np.ones(len(rows), dtype=bool)
        made: Any = SAMPLERS[sampler](Edges(indptr, indices), (1,) * (hop + 1), seed=seed, bias_rate=2.0, cached=cached)
        subgraph = made.sample(own + ROWS * hop, epoch, batch)
        return np.asarray(subgraph.n_id[subgraph.indices[ROWS * hop :]])

    return sample


def pvalue(one: np.ndarray, other: np.ndarray) -> float:
    """Of the hypothesis that the picks of `one` and of `other` are independent, pair by pair."""
    table = np.zeros((DEGREE, DEGREE), dtype=np.int64)
    np.add.at(table, (one, other), 1)
    return float(chi2_contingency(table).pvalue)


@samplers
@pytest.mark.parametrize("apart", [1, 2, 7, 64, 4096])
def test_rows_are_independent(sampler: str, apart: int, picks: Picks) -> None:
    drawn = picks(sampler)
    assert pvalue(drawn[:-apart], drawn[apart:]) > 1e-3


_OTHERS: dict[str, dict[str, int]] = {
    "hop": {"hop": 1},
    "batch": {"batch": 1},
    "far batch": {"batch": 2**20},
    "epoch": {"epoch": 1},
    "seed": {"seed": 4},
}


@samplers
@pytest.mark.parametrize("other", _OTHERS)
def test_hops_batches_epochs_and_seeds_are_independent(sampler: str, other: str, picks: Picks) -> None:
    assert pvalue(picks(sampler), picks(sampler, **_OTHERS[other])) > 1e-3


@samplers
def test_what_swaps_its_places_is_independent(sampler: str, picks: Picks) -> None:
    places = [
        {"seed": 1, "epoch": 2, "batch": 3},
        {"seed": 2, "epoch": 1, "batch": 3},
        {"seed": 1, "epoch": 3, "batch": 2},
    ]
    first, *others = (picks(sampler, **place) for place in places)
    assert min(pvalue(first, other) for other in others) > 1e-3


def test_the_same_place_is_not_independent_of_itself(picks: Picks) -> None:
    assert pvalue(picks("two_bucket"), picks("two_bucket")) < 1e-9


@pytest.mark.parametrize(("word", "other"), [(1, {"epoch": 1}), (2, {"batch": 1}), (3, {"hop": 1})])
def test_a_key_that_leaves_a_word_out_is_seen(
    word: int, other: dict[str, int], picks: Picks, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = device_sampler.hop_key
    monkeypatch.setattr(device_sampler, "hop_key", lambda *words: key(*words[:word], np.uint64(0), *words[word + 1 :]))
    assert pvalue(picks("device"), picks("device", **other)) < 1e-9


def test_a_twentieth_of_shared_picks_is_seen(picks: Picks) -> None:
    one, other = picks("two_bucket"), picks("two_bucket", batch=1)
    other[::20] = one[::20]
    assert pvalue(one, other) < 1e-3

"""Which mini-batches ranks train: each once, the same ones whatever the schedule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.hitgnn.algorithms.iterations import Iterations


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int, int]:
    ranks = draw(st.integers(1, 5))
    num_nodes = draw(st.integers(1, 60))
    parts = np.array(draw(st.lists(st.integers(0, ranks - 1), min_size=num_nodes, max_size=num_nodes)), dtype=np.int32)
    train_ids = np.flatnonzero(draw(st.lists(st.booleans(), min_size=num_nodes, max_size=num_nodes))).astype(np.int32)
    return train_ids, parts, ranks, draw(st.integers(1, 9))


@given(cases(), st.booleans(), st.integers(0, 3))
def test_every_seed_is_trained_once_with_others_of_its_part(case, balanced, epoch):
    train_ids, parts, ranks, size = case
    made = Iterations(train_ids, parts, ranks, size, 5, balanced=balanced)
    rows = made.of(epoch)
    batches = [batch for row in rows for batch in row if len(batch.seeds)]
    seeds = np.concatenate([np.empty(0, dtype=np.int32), *(batch.seeds for batch in batches)])
    assert np.array_equal(np.sort(seeds), train_ids)
    assert all(len(set(parts[batch.seeds].tolist())) == 1 and len(batch.seeds) <= size for batch in batches)
    assert sorted(batch.index for batch in batches) == list(range(len(batches)))
    assert all(len(row) == ranks and any(len(batch.seeds) for batch in row) for row in rows)
    least = -(-len(batches) // ranks) if balanced else max(_counts(batches, parts), default=0)
    assert len(made) == len(rows) == least


def _counts(batches, parts):
    return np.unique([parts[batch.seeds[0]] for batch in batches], return_counts=True)[1].tolist()


@given(cases())
def test_the_schedule_does_not_change_mini_batches(case):
    train_ids, parts, ranks, size = case
    found = []
    for balanced in (True, False):
        rows = Iterations(train_ids, parts, ranks, size, 5, balanced=balanced).of(1)
        found.append({batch.index: batch.seeds.tolist() for row in rows for batch in row if len(batch.seeds)})
    assert found[0] == found[1]


@pytest.mark.parametrize("balanced", [True, False])
def test_epochs_have_other_mini_batches_and_the_same_epoch_the_same(balanced):
    train_ids, parts = np.arange(100, dtype=np.int32), np.arange(100, dtype=np.int32) % 3
    made = Iterations(train_ids, parts, 3, 10, 5, balanced=balanced)
    first, other = (made.of(epoch)[0][0].seeds.tolist() for epoch in (0, 1))
    assert first != other
    assert made.of(0)[0][0].seeds.tolist() == first

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.graphs.edges import Edges
from a3gnn.pipeline.divided import repeated_work
from a3gnn.pipeline.plan import PlannedBatch
from a3gnn.sampling.sampler import Sampler

#: Seeds 0 to 3 have the in-neighbor 4, and that one has 5.
INDPTR = np.array([0, 1, 2, 3, 4, 5, 5], dtype=np.int64)
INDICES = np.array([4, 4, 4, 4, 5], dtype=np.int32)


@pytest.mark.parametrize(
    ("weights", "shared", "rows"), [((1,), 5 / 5, 6 / 6), ((2, 2), 6 / 5, 8 / 6), ((3, 0, 1), 6 / 5, 8 / 6)]
)
def test_what_shares_reach_together_is_counted_in_each(weights, shared, rows):
    sampler = Sampler(Edges(INDPTR, INDICES), (2, 2), seed=0)
    planned = [PlannedBatch(index=0, part=0, seeds=np.arange(4, dtype=np.int32))]
    cut = repeated_work(sampler, planned, weights, independent=False)
    assert (cut.sampled_edges, cut.trained_edges, cut.rows) == (1.0, shared, rows)
    alone = repeated_work(sampler, planned, weights, independent=True)
    assert (alone.sampled_edges, alone.trained_edges, alone.rows) == (shared, shared, rows)


def test_a_graph_without_edges_repeats_nothing():
    sampler = Sampler(Edges(np.zeros(5, dtype=np.int64), np.empty(0, dtype=np.int32)), (2,), seed=0)
    found = repeated_work(
        sampler, [PlannedBatch(index=0, part=0, seeds=np.arange(4, dtype=np.int32))], (1, 1), independent=True
    )
    assert (found.sampled_edges, found.trained_edges, found.rows) == (1.0, 1.0, 1.0)

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from a3gnn.pipeline.divided import side_by_side
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.share import cut
from a3gnn.sampling.subgraph import Subgraph
from tests.training.loops import with_self_loops


def parts(graph, fanouts: tuple[int, ...], sizes: tuple[int, ...]) -> list[Subgraph]:
    sampler = Sampler(graph.edges, fanouts, seed=3)
    ids = np.random.default_rng(0).permutation(graph.num_nodes).astype(np.int32)
    ends = np.cumsum([0, *sizes])
    return [sampler.sample(ids[low:high], 0, 0) for low, high in pairwise(ends)]


@pytest.mark.parametrize("fanouts", [(4,), (5, 3), (4, 3, 2)])
@pytest.mark.parametrize("sizes", [(7,), (1, 1), (20, 3, 50)])
def test_cutting_gives_each_part_back(fanouts, sizes, small_graph):
    given = parts(with_self_loops(small_graph), fanouts, sizes)
    whole = side_by_side(given)
    assert whole.num_nodes == sum(part.num_nodes for part in given)
    assert whole.num_edges == sum(part.num_edges for part in given)
    low = 0
    owned = np.zeros(whole.num_nodes, dtype=int)
    for part in given:
        found = cut(whole, low, low + part.num_seeds)
        low += part.num_seeds
        assert found.hop_sizes == part.hop_sizes
        for name in ("n_id", "indptr", "indices"):
            assert np.array_equal(getattr(found, name), getattr(part, name)), name
            assert getattr(found, name).dtype == np.int32
        assert found.share is not None
        assert found.share.owned.all()
        owned[found.share.places] += 1
    assert (owned == 1).all()


def test_the_layers_of_the_whole_are_those_of_the_parts(small_graph):
    given = parts(small_graph, (4, 3), (9, 5))
    whole = side_by_side(given)
    for layer in range(2):
        assert whole.layer_sizes(layer) == tuple(map(sum, zip(*(p.layer_sizes(layer) for p in given), strict=True)))
        assert len(whole.block(layer).indices) == sum(len(part.block(layer).indices) for part in given)

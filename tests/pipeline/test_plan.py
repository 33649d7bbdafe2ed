from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition
from a3gnn.pipeline.plan import count_batches, epoch_plan
from a3gnn.pipeline.proximity import ProximityOrder


@settings(deadline=None)
@given(
    count=st.integers(0, 60), batch_size=st.integers(1, 20), num_parts=st.integers(1, 4), epoch=st.integers(0, 3),
    shuffle=st.booleans(),
)  # fmt: skip
def test_every_seed_is_in_one_batch_of_one_part(count, batch_size, num_parts, epoch, shuffle) -> None:
    draw = np.random.default_rng(count)
    ids = np.sort(draw.choice(100, size=count, replace=False)).astype(np.int32)
    parts = draw.integers(0, num_parts, size=100).astype(np.int32) if num_parts > 1 else None
    plan = epoch_plan(ids, batch_size, 5, epoch, parts, shuffle=shuffle)
    assert len(plan) == count_batches(ids, batch_size, parts)
    assert [batch.index for batch in plan] == list(range(len(plan)))
    assert sorted(np.concatenate([*(batch.seeds for batch in plan), []])) == ids.tolist()
    for batch in plan:
        assert 1 <= len(batch.seeds) <= batch_size
        assert batch.seeds.dtype == np.int32
        assert parts is None or (parts[batch.seeds] == batch.part).all()
    visits = [batch.part for batch in plan]
    assert len([part for part, _ in groupby(visits)]) == len(set(visits))


def test_order_depends_on_seed_and_epoch_alone() -> None:
    ids = np.arange(100, dtype=np.int32)
    order = lambda seed, epoch: np.concatenate([b.seeds for b in epoch_plan(ids, 7, seed, epoch)]).tolist()  # noqa: E731
    assert order(1, 2) == order(1, 2)
    assert len({tuple(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4
    assert np.concatenate([b.seeds for b in epoch_plan(ids, 7, 0, 0, shuffle=False)]).tolist() == ids.tolist()


def test_part_order_changes_with_the_epoch() -> None:
    ids, parts = np.arange(64, dtype=np.int32), np.repeat(np.arange(8, dtype=np.int32), 8)
    orders = {tuple(batch.part for batch in epoch_plan(ids, 8, 0, epoch, parts)) for epoch in range(4)}
    assert len(orders) == 4


@pytest.mark.parametrize(("sizes", "expected"), [((5,), 3), ((4, 1), 3), ((1, 1, 1, 2), 4)])
def test_parts_round_up_each(sizes: tuple[int, ...], expected: int) -> None:
    parts = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    assert count_batches(np.arange(5, dtype=np.int32), 2, parts) == expected


@pytest.mark.parametrize("num_parts", [1, 3])
def test_an_order_moves_seeds_within_their_part_alone(small_graph: Graph, num_parts: int) -> None:
    graph, ids = small_graph, small_graph.train_ids
    parts = partition(graph, num_parts)
    order = ProximityOrder(graph.indptr, graph.indices, graph.labels, graph.num_classes, ids, 64, 7, parts)
    for epoch in range(3):
        random = epoch_plan(ids, 64, 7, epoch, parts)
        ordered = epoch_plan(ids, 64, 7, epoch, parts, order=order)
        assert [batch.part for batch in ordered] == [batch.part for batch in random]
        assert all((parts[batch.seeds] == batch.part).all() for batch in ordered)
        assert sorted(np.concatenate([batch.seeds for batch in ordered])) == ids.tolist()
        rank = {node: i for i, node in enumerate(order.permutation(epoch))}
        for part in range(num_parts):
            seeds = [rank[node] for batch in ordered if batch.part == part for node in batch.seeds]
            assert seeds == sorted(seeds)
    plain = epoch_plan(ids, 64, 7, 0, parts, shuffle=False, order=order)
    kept = epoch_plan(ids, 64, 7, 0, parts, shuffle=False)
    assert [batch.seeds.tolist() for batch in plain] == [batch.seeds.tolist() for batch in kept]

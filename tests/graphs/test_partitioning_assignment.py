"""The greedy assignment against values worked by hand, and against the formula written with sets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array

from a3gnn.graphs.partition import BlockAffinity, BlockGraph, greedy_parts

Edges = dict[tuple[int, int], int]


def _blocks(nodes: list[int], trains: list[int], edges: Edges) -> BlockGraph:
    ends = np.array(list(edges), dtype=np.int64).reshape(-1, 2)
    weights = np.array(list(edges.values()), dtype=np.int64)
    one_way = coo_array((weights, (ends[:, 0], ends[:, 1])), shape=(len(nodes),) * 2)
    rows = (one_way + one_way.T).tocsr()
    return BlockGraph(
        rows.indptr.astype(np.int64),
        rows.indices.astype(np.int32),
        rows.data.astype(np.int64),
        np.array(nodes, dtype=np.int32),
        np.array(trains, dtype=np.int64),
    )


def test_a_path_of_blocks_by_hand() -> None:
    # C = 12 / 2 = 6 nodes, C_T = 6 / 2 = 3 train nodes.
    blocks = _blocks([4, 3, 2, 2, 1], [2, 1, 1, 1, 1], {(0, 1): 1, (1, 2): 1, (2, 3): 1, (3, 4): 1})
    # 0: 1 * 1 * 1 in both, the lower. 1: 4 + 3 > 6 nodes in part 0, so part 1.
    # 2: part 0 has 0 (two hops): 2 * 2/6 * 1/3; part 1 has 1: 2 * 3/6 * 2/3, which is more.
    # 3: part 1 would have 5 + 2 > 6 nodes; part 0. 4: part 0 is full; part 1.
    np.testing.assert_array_equal(greedy_parts(blocks, 2), [0, 1, 1, 0, 1])


def test_blocks_two_hops_away_count() -> None:
    # Blocks of one node fill up the total, so that nothing is full: C = 20.
    blocks = _blocks([10, 10, 5, 1, *[1] * 14], [0] * 18, {(1, 3): 1, (3, 2): 1})
    # 2: its neighbor 3 has no part yet; behind it is 1, in part 1: 2 * 1/2 against 1 * 1/2.
    assert greedy_parts(blocks, 2)[2] == 1
    assert greedy_parts(blocks, 2, "edges")[2] == 0  # one hop shows nothing: a tie


@pytest.mark.parametrize(("affinity", "part"), [("blocks", 1), ("edges", 0)])
def test_blocks_count_as_one_and_edges_by_their_number(affinity: BlockAffinity, part: int) -> None:
    # C = 20. 1 doesn't fit beside 0, and 2 is drawn to 1. Then 3 is joined to part 0 by nine edges to one block:
    # 2 * 5/20 or 10 * 5/20; and to part 1 by an edge to each of two: 3 * 9/20 either way.
    blocks = _blocks([15, 6, 5, 3, *[1] * 11], [0] * 15, {(1, 2): 4, (0, 3): 9, (1, 3): 1, (2, 3): 1})
    parts = greedy_parts(blocks, 2, affinity)
    np.testing.assert_array_equal(parts[:4], [0, 1, 1, part])


def test_a_block_that_fits_nowhere_overfills_by_the_least() -> None:
    blocks = _blocks([5, 4, 3], [0, 0, 0], {(0, 2): 1})  # C = 6
    np.testing.assert_array_equal(greedy_parts(blocks, 2), [0, 1, 1])


def test_train_nodes_are_dealt_out_like_nodes() -> None:
    # All are neighbors. C = 5, C_T = 2: with 0 and its two train nodes part 0 takes no more of them.
    everyone = {(a, b): 1 for b in range(6) for a in range(b)}
    parts = greedy_parts(_blocks([2, 2, 2, 2, 1, 1], [2, 1, 1, 0, 0, 0], everyone), 2)
    np.testing.assert_array_equal(np.bincount(parts, [2, 2, 2, 2, 1, 1]), [5, 5])
    np.testing.assert_array_equal(np.bincount(parts, [2, 1, 1, 0, 0, 0]), [2, 2])


def _by_sets(nodes: list[int], trains: list[int], edges: Edges, num_parts: int) -> list[int]:
    """The assignment as the docstring has it."""
    near: list[set[int]] = [set() for _ in nodes]
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    capacity, train_capacity = max(sum(nodes) / num_parts, 1), max(sum(trains) / num_parts, 1)
    parts: list[set[int]] = [set() for _ in range(num_parts)]
    for block in sorted(range(len(nodes)), key=lambda b: -nodes[b]):
        reach = near[block].union(*(near[other] for other in near[block])) - {block}
        keys = []
        for part in parts:
            held, held_trains = sum(nodes[b] for b in part), sum(trains[b] for b in part)
            room, train_room = 1 - held / capacity, 1 - held_trains / train_capacity
            train_after = 1 - (held_trains + trains[block]) / train_capacity if trains[block] else np.inf
            after = min(1 - (held + nodes[block]) / capacity, train_after)
            score = (1 + len(reach & part)) * room * train_room
            keys.append((1, score, 0) if after >= 0 and score > 0 else (0, after, room + train_room))
        parts[keys.index(max(keys))].add(block)
    return [next(i for i, part in enumerate(parts) if block in part) for block in range(len(nodes))]


@pytest.mark.parametrize("seed", range(20))
def test_assignment_equals_the_formula_with_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, num_parts = int(rng.integers(5, 60)), int(rng.integers(2, 6))
    nodes = rng.integers(1, 30, size=count).tolist()
    trains = [int(rng.integers(size + 1)) for size in nodes]
    drawn = rng.integers(count, size=(int(rng.integers(3 * count)), 2)).tolist()
    edges = {(min(pair), max(pair)): int(rng.integers(1, 9)) for pair in drawn if pair[0] != pair[1]}
    found = greedy_parts(_blocks(nodes, trains, edges), num_parts)
    assert found.tolist() == _by_sets(nodes, trains, edges, num_parts)

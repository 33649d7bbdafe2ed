import numpy as np
import pytest

from a3gnn.features import cache_ranking as presample
from a3gnn.features.cache_ranking import cached_nodes, most_needed_first, presampled
from a3gnn.graphs.describe import hottest_first
from a3gnn.graphs.graph import Graph
from a3gnn.sampling.sampler import Sampler


def test_an_epoch_is_drawn_once_and_alike_every_time(small_graph: Graph) -> None:
    first, again = (list(presampled(small_graph, (4, 3), 150, 7)) for _ in range(2))
    assert len(first) == -(-len(small_graph.train_ids) // 150)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    seeds = np.concatenate([ids[:150] for ids in first[:-1]])
    assert np.isin(seeds, small_graph.train_ids).all()
    assert len(np.unique(seeds)) == len(seeds)
    other = next(presampled(small_graph, (4, 3), 150, 8))
    assert not np.array_equal(first[0], other)


def test_seeds_may_be_given_and_cut_short(small_graph: Graph) -> None:
    seeds = [small_graph.train_ids[:9], small_graph.train_ids[9:30], small_graph.train_ids[30:33]]
    drawn = list(presampled(small_graph, (4,), 1, 0, seeds=seeds, most=2))
    assert [ids[: len(chosen)].tolist() for ids, chosen in zip(drawn, seeds, strict=False)] == [
        chosen.tolist() for chosen in seeds[:2]
    ]
    assert list(presampled(small_graph, (4,), 1, 0, most=0)) == []


def test_ranks_are_counts_and_then_degrees(small_graph: Graph) -> None:
    needed = np.zeros(small_graph.num_nodes, dtype=np.int64)
    for ids in presampled(small_graph, (2,), 300, 5):
        needed[ids] += 1
    ranked = most_needed_first(small_graph, (2,), 300, 5)
    assert (np.diff(needed[ranked]) <= 0).all()
    unseen = ranked[needed[ranked] == 0]
    by_degree = hottest_first(small_graph)
    assert len(unseen) > 1
    assert np.array_equal(unseen, by_degree[needed[by_degree] == 0])


def test_presampled_rows_serve_more_reads_than_as_many_at_random(small_graph: Graph) -> None:
    room = small_graph.features.nbytes // 5 + 4 * small_graph.num_nodes
    chosen = cached_nodes(small_graph, room, "presample", fanouts=(4, 3), batch_size=60, seed=1)
    cached = np.zeros(small_graph.num_nodes, dtype=bool)
    cached[chosen] = True
    sampler = Sampler(small_graph.edges, (4, 3), seed=9)
    hits = [cached[sampler.sample(small_graph.train_ids[i : i + 60], 0, i).n_id].mean() for i in range(0, 600, 60)]
    assert np.mean(hits) > 1.2 * cached.mean()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_cache_is_a_function_of_its_seed(seed: int, small_graph: Graph) -> None:
    room = small_graph.features.nbytes // 5 + 4 * small_graph.num_nodes
    how = {"fanouts": (3, 2), "batch_size": 50}
    first = cached_nodes(small_graph, room, "presample", seed=seed, **how)
    assert np.array_equal(first, cached_nodes(small_graph, room, "presample", seed=seed, **how))
    assert not np.array_equal(first, cached_nodes(small_graph, room, "presample", seed=seed + 2, **how))


def test_mini_batches_of_a_long_epoch_are_counted_far_apart(small_graph: Graph, monkeypatch) -> None:
    monkeypatch.setattr(presample, "_MAX_SEEDS", 40)
    seeds = [small_graph.train_ids[start : start + 10] for start in range(0, 160, 10)]
    ranked = most_needed_first(small_graph, (1,), 10, 0, seeds=seeds)
    needed = {int(node) for ids in presampled(small_graph, (1,), 10, 0, seeds=seeds[::4]) for node in ids}
    assert set(ranked[: len(needed)].tolist()) == needed

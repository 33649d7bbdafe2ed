import dataclasses
from functools import partial

import numpy as np
import pytest

from a3gnn.config import CACHE_POLICIES, STATIC_POLICIES, TrainConfig
from a3gnn.features import auto
from a3gnn.features.auto import CachePlacement, RowSeconds, choose_policy, replay, replay_batches, row_seconds
from a3gnn.features.cache_ranking import cached_nodes
from a3gnn.features.opening import open_features
from a3gnn.features.stored_rows import rows_of
from a3gnn.graphs.graph import Graph


def place(graph: Graph, cache_bytes: int) -> CachePlacement:
    rank = partial(cached_nodes, graph, cache_bytes, fanouts=(4, 3), batch_size=100)
    return CachePlacement(rows_of(graph.features), graph.num_nodes, graph.num_features, cache_bytes, rank, "cpu")


def windows(num_nodes: int, width: int) -> list[np.ndarray]:
    """Mini-batches that move through the nodes slowly: what was read last is read again, what is hot never."""
    return [(np.arange(start, start + width) % num_nodes).astype(np.int32) for start in range(0, 24 * 20, 20)]


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch):
    """Sets what a row takes to read, in nanoseconds, and look-ups to nothing: no clock of the machine is asked."""

    def set_costs(base: float, cache: float) -> None:
        monkeypatch.setattr(auto, "row_seconds", lambda batches, place: RowSeconds(base * 1e-9, cache * 1e-9))
        monkeypatch.setattr(auto, "replay", lambda *given, **named: replay(*given, **named)._replace(overhead_ms=0.0))

    return set_costs


def test_a_policy_that_keeps_what_was_read_last_wins_where_reads_move_on(small_graph: Graph, costs) -> None:
    costs(base=1e6, cache=100)
    room = 4 * small_graph.num_nodes + 300 * (4 * small_graph.num_features + 40)
    choice = choose_policy(windows(small_graph.num_nodes, 200), place(small_graph, room))
    assert choice.policy in {"fifo", "lru", "clock"}
    assert choice.reason.startswith(f"auto took {choice.policy}: reading a row takes 1000000 ns without the cache")
    assert all(f"{policy} " in choice.reason for policy in CACHE_POLICIES if policy != "auto")


def test_degree_stays_where_a_cache_saves_nothing(small_graph: Graph, costs) -> None:
    costs(base=100, cache=100)
    room = small_graph.features.nbytes // 2
    assert choose_policy(windows(small_graph.num_nodes, 200), place(small_graph, room)).policy == "degree"


def test_degree_wins_a_tie(small_graph: Graph, costs) -> None:
    costs(base=1e6, cache=100)
    everything = 2 * small_graph.features.nbytes + 40 * small_graph.num_nodes
    batches = replay_batches(small_graph, (4, 3), 100, 0, slots=0)
    assert choose_policy(batches, place(small_graph, everything)).policy == "degree"


def test_trials_go_on_from_epoch_to_epoch(small_graph: Graph) -> None:
    batches = replay_batches(small_graph, (4, 3), 500, 0, slots=0)
    per_epoch = -(-len(small_graph.train_ids) // 500)
    assert len(batches) == 24 > 2 * per_epoch
    assert not np.array_equal(batches[0], batches[per_epoch])
    again = replay_batches(small_graph, (4, 3), 500, 0, slots=0)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))


def test_trials_last_until_a_cache_is_full(small_graph: Graph) -> None:
    batches = replay_batches(small_graph, (2,), 10, 0, slots=100)
    needed = np.cumsum([len(ids) for ids in batches])
    assert needed[-2] < 3_200 <= needed[-1]


def test_seeds_are_tried_in_the_order_they_are_given_in(small_graph: Graph) -> None:
    seeds = [small_graph.train_ids[start : start + 20] for start in range(0, 200, 20)]
    batches = replay_batches(small_graph, (2,), 20, 0, slots=0, seeds=seeds)
    for ids, chosen in zip(batches, seeds * 3, strict=False):
        assert np.array_equal(ids[:20], chosen)


def test_without_train_nodes_degree_it_is(small_graph: Graph) -> None:
    graph = dataclasses.replace(small_graph, train_ids=small_graph.train_ids[:0])
    store = open_features(graph, TrainConfig(cache_bytes=graph.features.nbytes // 2, cache_policy="auto"))
    assert store.stats.policy == "degree"
    assert "no mini-batches" in store.stats.reason


def test_sparse_features_are_tried_with_static_policies(sparse_graph: Graph) -> None:
    config = TrainConfig(cache_bytes=sparse_graph.features.nbytes // 2, cache_policy="auto", batch_size=30)
    stats = open_features(sparse_graph, config, fanouts=(3, 2)).stats
    assert stats.policy in STATIC_POLICIES
    assert "access" in stats.reason
    assert "fifo" not in stats.reason


def test_reading_is_measured_on_the_rows_themselves(small_folder_graph: Graph) -> None:
    batches = replay_batches(small_folder_graph, (4, 3), 100, 0, slots=0)
    row = row_seconds(batches[:3], place(small_folder_graph, 10**6))
    assert 0 < row.base < 1
    assert 0 < row.cache < 1

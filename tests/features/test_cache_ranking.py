from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a3gnn.config import CachePolicy, TrainConfig
from a3gnn.errors import GraphError, UsageError
from a3gnn.features import cache_ranking
from a3gnn.features.cache_ranking import cached_nodes, expected_access
from a3gnn.features.opening import open_features
from a3gnn.features.stored_rows import rows_of
from a3gnn.graphs import derived
from a3gnn.graphs.describe import hottest_first
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.verify import verify
from a3gnn.sampling.sampler import Sampler
from a3gnn.storage.cache_content import _GRAPH_FILES

HOW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@HOW
@given(form=st.sampled_from(["dense-float32", "dense-float16", "sparse-float32"]), asked=st.integers(0, 20_000))
def test_a_cache_takes_what_it_may_and_not_a_row_less(form: str, asked: int, tiny_graph: Graph, with_features) -> None:
    graph, _ = with_features(tiny_graph, form)
    store = open_features(graph, TrainConfig(cache_bytes=asked))
    assert store.cache_bytes <= asked
    held, ranked = len(store.cached), hottest_first(graph)
    assert np.array_equal(store.cached, np.sort(ranked[:held]))
    if held < graph.num_nodes:
        next_row = ranked[held : held + 1]
        empty = 4 * graph.num_nodes + (8 if graph.features.is_sparse else 0)
        assert (store.cache_bytes or empty) + rows_of(graph.features).take(next_row).nbytes > asked


def test_a_cache_that_cannot_hold_its_map_is_empty(tiny_graph: Graph) -> None:
    store = open_features(tiny_graph, TrainConfig(cache_bytes=4 * tiny_graph.num_nodes + 63))
    assert (store.cache_bytes, len(store.cached)) == (0, 0)
    store = open_features(tiny_graph, TrainConfig(cache_bytes=4 * tiny_graph.num_nodes + 64))
    assert (store.cache_bytes, len(store.cached)) == (4 * tiny_graph.num_nodes + 64, 1)


def test_expected_access_is_what_sampling_does(small_graph: Graph) -> None:
    fanouts, batch_size, rounds = (4, 3), 40, 400
    sampler = Sampler(small_graph.edges, fanouts, seed=3)
    draw = np.random.default_rng(0)
    seen = np.zeros(small_graph.num_nodes)
    for batch in range(rounds):
        seeds = draw.choice(small_graph.train_ids, size=batch_size, replace=False)
        seen[sampler.sample(seeds, 0, batch).n_id] += 1
    expected = expected_access(small_graph, fanouts, batch_size)
    assert expected.min() >= 0
    assert expected.max() <= 1
    # The formula takes hops and in-neighbors as independent, which costs about a tenth.
    assert expected.sum() == pytest.approx(seen.sum() / rounds, rel=0.15)
    assert np.corrcoef(expected, seen / rounds)[0, 1] > 0.95


def test_access_policy_serves_more_reads_than_the_coldest_rows(small_graph: Graph) -> None:
    room = small_graph.features.nbytes // 4 + 4 * small_graph.num_nodes
    access = expected_access(small_graph, (4, 3), 40)
    chosen = cached_nodes(small_graph, room, "access", fanouts=(4, 3), batch_size=40)
    assert access[chosen].min() >= np.delete(access, chosen).max()


@pytest.mark.parametrize(("arguments", "message"), [((-1,), "must be >= 0, got -1"), ((9, "degre"), "'degree'")])
def test_wrong_arguments_are_refused(arguments: tuple, message: str, tiny_graph: Graph) -> None:
    with pytest.raises(UsageError, match=message):
        cached_nodes(tiny_graph, *arguments)


@pytest.mark.parametrize("policy", ["degree", "access"])
def test_a_large_graph_on_disk_keeps_the_order_of_its_nodes(
    policy: CachePolicy, tiny_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, size = tiny_graph.on_disk(tmp_path), 4 * tiny_graph.num_nodes + 64 * 40
    expected = cached_nodes(graph, size, policy)
    assert len(expected)
    assert not (graph.folder / "derived").exists(), "a small graph is counted each time"
    monkeypatch.setattr(derived, "_LEAST_EDGES", 0)
    assert np.array_equal(cached_nodes(graph, size, policy), expected)
    (path,) = (graph.folder / "derived").glob("order-*.npy")
    for name in ("hottest_first", "expected_access"):
        monkeypatch.setattr(cache_ranking, name, None)
    assert np.array_equal(cached_nodes(graph, size, policy), expected)
    assert not [finding for finding in verify(graph.folder) if finding.problem]
    assert _GRAPH_FILES.fullmatch(f"derived/{path.name}"), "`a3gnn cache clean` knows it"
    order = np.load(path)
    order[7] = graph.num_nodes
    np.save(path, order)
    with pytest.raises(GraphError, match=r"order-.* is damaged: nodes must be in \[0, 300\); delete it"):
        cached_nodes(graph, size, policy)
    assert [finding.name for finding in verify(graph.folder) if finding.problem] == [f"derived/{path.name}"]

"""Characteristics against plain Python on small graphs, and against what is known of real ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a3gnn.characteristics import CACHE_FRACTIONS
from a3gnn.graphs.describe import cached_edge_mass, gini, hottest_first, neighbor_entries, percentile, tally
from a3gnn.graphs.graph import Graph

Arrays = dict[str, np.ndarray]


def _components(nodes: int, edges: set[tuple[int, int]]) -> list[set[int]]:
    components = [{v} for v in range(nodes)]
    for s, t in edges:
        joined = [c for c in components if s in c or t in c]
        components = [c for c in components if c not in joined] + [set().union(*joined)]
    return components


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_against_plain_python(arrays: Arrays, npz: Callable[..., Path], data: st.DataObject) -> None:
    ends = st.integers(0, 5)
    edges = data.draw(st.sets(st.tuples(ends, ends), min_size=1))
    graph = Graph.load(npz(arrays, edge_index=np.array(sorted(edges)).T))
    c = graph.characteristics()
    y = arrays["y"]
    in_degrees = [sum(t == v for _, t in edges) for v in range(6)]
    labeled = [(s, t) for s, t in edges if y[s] >= 0 and y[t] >= 0]
    components = _components(6, edges)
    assert (c.num_nodes, c.num_edges, c.max_degree) == (6, len(edges), max(in_degrees))
    assert c.mean_degree == pytest.approx(len(edges) / 6)
    assert c.homophily == pytest.approx(sum(y[s] == y[t] for s, t in labeled) / max(len(labeled), 1))
    assert c.num_components == len(components)
    assert c.largest_component == pytest.approx(max(map(len, components)) / 6)
    differences = sum(abs(a - b) for a in in_degrees for b in in_degrees)
    assert c.degree_gini == pytest.approx(differences / (2 * 6 * sum(in_degrees)))
    out_degrees = [sum(s == v for s, _ in edges) for v in range(6)]
    assert neighbor_entries(graph).tolist() == out_degrees
    assert hottest_first(graph).tolist() == sorted(range(6), key=lambda v: (-out_degrees[v], v))


def test_gini_of_known_shares() -> None:
    assert gini([(3, 3)]) == 0
    assert gini([(0, 3), (8, 1)]) == 0.75
    assert gini([(0, 2)]) == 0


@settings(max_examples=60)
@given(
    numbers=st.lists(st.integers(0, 9) | st.integers(0, 2**40), min_size=1, max_size=80),
    cuts=st.lists(st.integers(0, 80), max_size=3),
    percent=st.sampled_from([0, 5, 50, 95, 99.5, 100]),
)
def test_a_tally_gives_the_figures_of_the_sorted_numbers(numbers: list[int], cuts: list[int], percent: float) -> None:
    values = np.array(numbers, dtype=np.int64)
    found = tally(np.split(values, sorted(cuts)))
    assert found == sorted(Counter(numbers).items())
    assert percentile(found, percent) == np.percentile(values, percent)
    ordered, n = np.sort(values).astype(np.float64), len(values)
    expected = (np.arange(1 - n, n, 2.0) @ ordered) / (n * ordered.sum()) if ordered.any() else 0.0
    assert gini(found) == pytest.approx(expected, abs=1e-12)
    reach = np.cumsum(np.sort(values)[::-1]) / max(values.sum(), 1)
    mass = np.interp(np.array(CACHE_FRACTIONS) * n, np.arange(n + 1), [0, *reach])
    np.testing.assert_allclose(cached_edge_mass(found), mass, atol=1e-12)


def test_cached_edge_mass_takes_the_hottest_first() -> None:
    entries = np.zeros(100, dtype=np.int64)
    entries[[7, 50]] = 30, 10
    entries[60:100] = 1
    mass = dict(zip(CACHE_FRACTIONS, cached_edge_mass(tally([entries])), strict=True))
    assert mass[0.01] == pytest.approx(30 / 80)
    assert mass[0.05] == pytest.approx((30 + 10 + 3) / 80)
    assert mass[0.8] == pytest.approx(1)


def test_the_numbers_of_the_ring(arrays: Arrays, npz: Callable[..., Path]) -> None:
    c = Graph.load(npz(arrays)).characteristics()
    assert (c.num_train, c.num_val, c.num_test, c.num_classes, c.num_features) == (2, 2, 1, 2, 3)
    assert c.label_rate == pytest.approx(2 / 6)
    assert (c.row_bytes, c.feature_bytes, c.feature_density, c.sparse_features) == (12, 72, 1, False)


def test_sparse_rows_cost_what_they_store(sparse_graph: Graph) -> None:
    c = sparse_graph.characteristics()
    assert c.row_bytes == pytest.approx((c.feature_density * 200) * 8 + 8 * 301 / 300)
    assert c.feature_bytes == pytest.approx(c.row_bytes * 300)


@pytest.mark.parametrize("name", ["cora", "citeseer", "tolokers", "nell"])
def test_real_graphs_are_as_their_notes_say(data_folder: Path, name: str) -> None:
    path = data_folder / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path} is missing")
    said = json.loads(path.with_suffix(".json").read_text())
    graph = Graph.load(path)
    c = graph.characteristics()
    assert graph.notes == ()
    assert (c.num_nodes, c.num_edges) == (said["nodes"], said["edges_directed"])
    assert (c.num_features, c.num_classes) == (said["features"], said["classes"])
    assert (c.num_train, c.num_val, c.num_test) == (said["train"], said["val"], said["test"])
    assert (c.max_degree, c.num_components) == (said["max_degree"], said["components"])
    assert c.largest_component == pytest.approx(said["largest_component_fraction"], abs=1e-4)
    assert c.homophily == pytest.approx(said["edge_homophily"] or 0, abs=1e-3)  # nell: no edge joins labeled nodes
    assert c.sparse_features == ("csr" in said["feature_format"].lower())

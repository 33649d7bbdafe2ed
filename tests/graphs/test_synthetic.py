from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.synthetic_recipe import Recipe

SPEC = "synthetic:nodes=3000,degree=12,classes=6,seed=5"


@pytest.fixture(scope="module")
def default() -> Graph:
    return Graph.load("synthetic:")


def test_the_default_is_the_documented_one(default: Graph) -> None:
    c = default.characteristics()
    assert (c.name, c.num_nodes, c.num_features, c.num_classes) == ("synthetic", 20_000, 64, 8)
    assert (c.num_train, c.num_val, c.num_test) == (6_000, 2_000, 12_000)
    assert 12.5 < c.mean_degree < 15
    assert c.largest_component > 0.95


def test_edges_run_both_ways_once_and_never_to_the_node_itself(default: Graph) -> None:
    targets = np.repeat(np.arange(default.num_nodes), np.diff(default.indptr))
    sources = default.indices.astype(np.int64)
    assert (targets != sources).all()
    forward, backward = targets * default.num_nodes + sources, sources * default.num_nodes + targets
    assert (np.diff(forward) > 0).all()  # ascending in each row, no duplicates
    np.testing.assert_array_equal(forward, np.sort(backward))


@pytest.mark.parametrize("asked", [0.2, 0.5, 0.9])
def test_homophily_is_close_to_what_is_asked(asked: float) -> None:
    c = Graph.load(f"synthetic:nodes=20000,degree=8,features=2,homophily={asked}").characteristics()
    assert c.homophily == pytest.approx(asked, abs=0.03)


def test_hubs_join_communities(default: Graph) -> None:
    targets = np.repeat(np.arange(default.num_nodes), np.diff(default.indptr))
    degree = np.diff(default.indptr)
    hot = np.minimum(degree[targets], degree[default.indices]) > 100
    cold = np.maximum(degree[targets], degree[default.indices]) < 10
    same = default.labels[targets] == default.labels[default.indices]
    assert same[hot].mean() < default.characteristics().homophily < same[cold].mean()


@pytest.mark.parametrize("power", [2.1, 3.0])
def test_degrees_have_a_power_law_tail(power: float) -> None:
    degrees = np.diff(Graph.load(f"synthetic:nodes=50000,degree=10,features=1,power={power}").indptr)
    least = 15  # the tail, below the cap of half the square root of the nodes times the mean
    tail = degrees[(degrees >= least) & (degrees < 500)]
    hill = 1 + len(tail) / np.log(tail / (least - 0.5)).sum()
    assert hill == pytest.approx(power, abs=0.35)


def test_neighbors_tell_more_than_a_nodes_own_features(default: Graph) -> None:
    x, y = default.features.arrays()["x"], default.labels
    targets = np.repeat(np.arange(default.num_nodes), np.diff(default.indptr))
    mean = np.zeros_like(x)
    np.add.at(mean, targets, x[default.indices])
    mean /= np.maximum(np.diff(default.indptr), 1)[:, None]

    def centroid_accuracy(rows: np.ndarray) -> float:
        train, test = default.train_ids, default.test_ids
        centroids = np.stack([rows[train][y[train] == k].mean(axis=0) for k in range(8)])
        scores = rows[test] @ centroids.T - 0.5 * (centroids**2).sum(axis=1)
        return float((scores.argmax(axis=1) == y[test]).mean())

    alone, together = centroid_accuracy(x), centroid_accuracy(mean)
    assert 0.2 < alone < 0.5
    assert alone + 0.2 < together < 0.9


def test_sparse_features_have_the_asked_density(sparse_graph: Graph) -> None:
    c = sparse_graph.characteristics()
    assert c.sparse_features
    assert c.feature_density == pytest.approx(0.1, abs=0.02)
    stored = sparse_graph.features.arrays()
    rows = np.repeat(np.arange(300), np.diff(stored["x_indptr"]))
    assert (np.diff(rows * 200 + stored["x_indices"]) > 0).all()


@pytest.mark.parametrize("spec", [SPEC, SPEC + ",density=0.05"])
def test_the_same_here_twice_and_in_another_process(spec: str) -> None:
    code = f"from a3gnn.graphs.graph import Graph; print(Graph.load({spec!r}).fingerprint)"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert Graph.load(spec).fingerprint == Graph.load(spec).fingerprint == there
    assert Graph.load(spec.replace("seed=5", "seed=6")).fingerprint != there


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodez=5", r"a parameter of synthetic must be one of classes, .*got 'nodez'; did you mean 'nodes'"),
        ("nodes", r"nodes must be an integer \(default 20000\), got ''"),
        ("nodes=many", r"nodes must be an integer \(default 20000\), got 'many'"),
        ("nodes=1.5", r"nodes must be an integer"),
        ("degree=x", r"degree must be a number"),
        ("nodes=3", r"nodes must be in \[10, "),
        ("power=nan", r"power must be in \[2\.01, 10\], got nan"),
        ("homophily=1.5", r"homophily must be in \[0, 1\], got 1\.5"),
        ("train=0.9,val=0.1", r"train \+ val must be below 1, got 0\.9 \+ 0\.1"),
        ("nodes=20,degree=20", r"degree must be below nodes, got 20 and 20"),
        ("seed=1,seed=2", r"seed is given twice"),
    ],
)
def test_a_wrong_parameter_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Graph.load(f"synthetic:{text}")


def test_parameters_may_have_spaces_and_scientific_numbers() -> None:
    assert Recipe.parse("nodes = 500, noise=1e-1") == Recipe(nodes=500, noise=0.1)

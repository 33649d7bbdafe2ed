from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from a3gnn.graphs.graph import Graph
from a3gnn.notify import ConversionProgress
from benchmarks.scale.kronecker import Kronecker, draw_edges, shuffled, unshuffled
from benchmarks.scale.whole import accuracies, whole

QUIET = ConversionProgress(lambda line: None)


@pytest.mark.parametrize("scale", [8, 9, 13])
def test_the_shuffle_is_a_bijection_without_a_table(scale: int) -> None:
    ids = np.arange(1 << scale)
    nodes = shuffled(ids, scale, seed=3)
    assert np.array_equal(np.sort(nodes), ids)
    assert not np.array_equal(nodes, ids)
    assert np.array_equal(unshuffled(nodes, scale, seed=3), ids)


def test_each_quadrant_gets_its_share_at_every_level() -> None:
    ends = np.empty((2, 200_000), dtype=np.int64)
    draw_edges(5, 0, 10, ends)
    for level in range(10):
        bits = ends >> level & 1
        found = np.bincount(2 * bits[0] + bits[1], minlength=4) / ends.shape[1]
        np.testing.assert_allclose(found, (0.57, 0.19, 0.19, 0.05), atol=0.006)
    later = np.empty((2, 100), dtype=np.int64)
    draw_edges(5, 1_000, 10, later)
    assert np.array_equal(later, ends[:, 1_000:1_100])


def test_a_seed_gives_the_same_bits_under_any_budget_and_classes_can_be_learned(tmp_path: Path) -> None:
    written = [
        Kronecker(10, features=16).write(tmp_path / str(budget), budget, QUIET).fingerprint
        for budget in (2_000, 1 << 20)
    ]
    assert written[0] == written[1]
    assert Kronecker(10, features=16, seed=1).write(tmp_path / "other", 1 << 20, QUIET).fingerprint != written[0]
    graph = Graph.load(str(tmp_path / "2000"))
    assert (graph.num_nodes, graph.features.array.dtype) == (1024, np.float16)
    assert [len(ids) for ids in (graph.train_ids, graph.val_ids, graph.test_ids)] == [16, 8, 16]
    rows, labels = graph.features.array.astype(np.float32), graph.labels
    means = np.stack([rows[labels == one].mean(axis=0) for one in range(graph.num_classes)])
    nearest = ((rows[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == labels).mean() > 3 / graph.num_classes
    assert graph.characteristics().homophily > 1.5 / graph.num_classes


@pytest.mark.weekly
def test_every_step_from_a_generated_graph_to_its_predictions(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("A3GNN_QUICK", "1")
    steps = whole(tmp_path, 12, "2GiB", "1GiB", "20s")
    assert [(step.name, step.status) for step in steps] == [
        (name, 0) for name in ("generate", "open", "tune", "train", "predict")
    ], (tmp_path / "log.txt").read_text()
    assert all(step.peak_bytes < 2 << 30 for step in steps)
    found, trained = accuracies(tmp_path)
    assert found == pytest.approx(trained)

"""Classes, several labels per node, and values: read, kept, described, and stood for by classes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import TrainConfig
from a3gnn.errors import GraphError
from a3gnn.graphs.convert import convert
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.labels import as_classes, is_labeled, label_spread
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions

_KINDS = ["labels_graph", "values_graph"]


def arrays_of(graph: Graph, labels: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Returns what an .npz file of `graph` with other labels holds."""
    targets = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    masks = {f"{name}_mask": np.zeros(graph.num_nodes, dtype=bool) for name in ("train", "val", "test")}
    for name, mask in masks.items():
        mask[getattr(graph, name.replace("mask", "ids"))] = True
    masks["test_mask"] &= is_labeled(labels)  # whoever is in a mask has a label
    return {"edge_index": np.stack([graph.indices, targets]), "x": graph.features.arrays()["x"], "y": labels, **masks}


@pytest.mark.parametrize("kind", _KINDS)
def test_every_reader_gives_the_same_graph(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    graph: Graph = request.getfixturevalue(kind)
    arrays = arrays_of(graph, graph.labels)
    np.savez(tmp_path / "graph.npz", **arrays)
    loaded = Graph.load(tmp_path / "graph.npz")
    assert loaded.target == graph.target
    assert loaded.labels.dtype == graph.labels.dtype
    np.testing.assert_array_equal(loaded.labels, graph.labels)
    assert loaded.num_classes == graph.num_classes
    streamed = convert(tmp_path / "graph.npz", tmp_path / "streamed")
    data = Data(**{name: torch.from_numpy(array) for name, array in arrays.items() if name != "edge_index"})
    data.edge_index = torch.from_numpy(arrays["edge_index"].astype(np.int64))
    again = (loaded.save(tmp_path / "saved"), streamed, Graph.from_pyg(data), loaded.on_disk(tmp_path / "cache"))
    assert {one.fingerprint for one in again} == {loaded.fingerprint}
    assert {one.target for one in again} == {graph.target}
    described = streamed.characteristics()
    assert (described.target, described.homophily) == (graph.target, 0.0)
    assert GraphCharacteristics.from_dict(described.to_dict()) == described


@pytest.mark.parametrize("dtype", [bool, np.int64, np.uint8, np.float64])
def test_rows_of_any_type_are_stored_alike(labels_graph: Graph, dtype: type, tmp_path: Path) -> None:
    labels = np.maximum(labels_graph.labels, 0)
    np.savez(tmp_path / "graph.npz", **arrays_of(labels_graph, labels.astype(dtype)))
    np.testing.assert_array_equal(Graph.load(tmp_path / "graph.npz").labels, labels)


def test_rows_of_nan_are_unlabeled(labels_graph: Graph, tmp_path: Path) -> None:
    labels = np.where(labels_graph.labels < 0, np.nan, labels_graph.labels)
    np.savez(tmp_path / "graph.npz", **arrays_of(labels_graph, labels))
    np.testing.assert_array_equal(Graph.load(tmp_path / "graph.npz").labels, labels_graph.labels)


def test_floats_are_values_and_a_note_says_so(values_graph: Graph, tmp_path: Path) -> None:
    np.savez(tmp_path / "graph.npz", **arrays_of(values_graph, values_graph.labels.astype(np.float64)))
    assert any(
        note.startswith("y holds floats, so the model predicts values")
        for note in Graph.load(tmp_path / "graph.npz").notes
    )


@pytest.mark.parametrize("kind", _KINDS)
def test_a_train_node_without_a_label_is_refused(kind: str, request: pytest.FixtureRequest) -> None:
    graph: Graph = request.getfixturevalue(kind)
    labels = graph.labels.copy()
    labels[graph.train_ids[:2]] = np.nan if kind == "values_graph" else -1
    with pytest.raises(GraphError, match="train_ids must be labeled nodes, got 2 with label"):
        dataclasses.replace(graph, labels=labels)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("labels_graph", {"num_classes": 5}, "labels must have a column per label, got 4 for 5"),
        ("labels_graph", {"labels": np.full((300, 4), 2, np.int8)}, r"labels must be in \[-1, 2\), got 2 to 2"),
        ("values_graph", {"labels": np.full(300, np.inf, np.float32)}, "labels must be finite or NaN"),
        (
            "values_graph",
            {"num_classes": 2},
            "labels must be finite or NaN with 1 output, got 0 infinite values and 2 outputs",
        ),
    ],
)
def test_labels_that_are_not_sound_are_refused(
    kind: str, change: dict[str, Any], message: str, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(GraphError, match=message):
        dataclasses.replace(request.getfixturevalue(kind), **change)


def test_the_spread_is_the_error_of_the_median(values_graph: Graph, tiny_graph: Graph) -> None:
    values = values_graph.labels[values_graph.train_ids]
    candidates = np.linspace(values.min(), values.max(), 400)
    least = min(float(np.abs(values - one).mean()) for one in candidates)
    assert label_spread(values_graph.labels, values_graph.train_ids) == pytest.approx(least, rel=1e-2)
    assert label_spread(tiny_graph.labels, tiny_graph.train_ids) is None


def test_the_rarest_label_or_the_tenth_stands_for_a_class(labels_graph: Graph, values_graph: Graph) -> None:
    labels = np.array([[1, 1], [1, 0], [0, 0], [-1, -1], [1, 0]], dtype=np.int8)
    found, count = as_classes(labels, 2)
    assert (found.tolist(), count) == ([0, 1, 2, -1, 1], 3)
    found, count = as_classes(values_graph.labels, 1)
    assert count == 10
    np.testing.assert_array_equal(found < 0, np.isnan(values_graph.labels))
    sizes = np.bincount(found[found >= 0])
    assert sizes.max() - sizes.min() <= 3
    assert (np.diff(values_graph.labels[found >= 0][np.argsort(found[found >= 0], kind="stable")][::40]) > -1e-6).all()


@pytest.mark.parametrize("kind", ["tiny_graph", *_KINDS])
def test_seeds_are_ordered_by_proximity_whatever_labels_are(kind: str, request: pytest.FixtureRequest) -> None:
    graph: Graph = request.getfixturevalue(kind)
    with_order = Pipeline(graph, TrainConfig(batch_size=16, seed_order="proximity"), (3, 3), PipelineOptions(seed=0))
    seen = []
    for batch in with_order.epoch(0):
        ids = batch.subgraph.n_id[: batch.num_seeds]
        np.testing.assert_array_equal(batch.y.numpy(), graph.labels[ids])
        seen.append(ids)
    with_order.close()
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), graph.train_ids)

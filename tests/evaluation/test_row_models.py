"""Models of nodes without a graph network: what they read, that they find what there is, and what is left out."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, issparse
from torch_geometric.data import HeteroData

from a3gnn import predict
from a3gnn.apply.train import train
from a3gnn.cli.main import main
from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, UsageError
from a3gnn.evaluation import node_rows
from a3gnn.evaluation import references as module
from a3gnn.evaluation.evaluate import unlearnt
from a3gnn.evaluation.node_rows import NodeRows
from a3gnn.evaluation.references import row_references
from a3gnn.evaluation.row_models import fit, quality_on_test
from a3gnn.evaluation.share import Share
from a3gnn.graphs.features import DenseFeatures, SparseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.metric import ROW_MODELS, nearly_as_good
from a3gnn.models.feature_rows import FeatureRows
from a3gnn.task import Task

NODES, COLUMNS, TASK = 1500, 6, Task()


@pytest.fixture(autouse=True)
def trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TRAINED", True)


def made(kind: str, *, sparse: bool = False) -> Graph:
    """A random graph whose labels depend on a node's own features, or on the mean of its in-neighbors' alone."""
    draws = np.random.default_rng(3)
    x = draws.normal(size=(NODES, COLUMNS)).astype(np.float32)
    if sparse:
        x[draws.random(x.shape) < 0.7] = 0
    edges = np.unique(draws.integers(0, NODES - 5, (2, 4 * NODES)), axis=1)  # the last five nodes have no edges
    matrix = csr_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(NODES, NODES))
    around = matrix @ x[:, 0]
    labels: dict[str, Any] = {
        "linear": x[:, :3].argmax(axis=1).astype(np.int64),
        "xor": ((x[:, 0] > 0) ^ (x[:, 1] > 0)).astype(np.int64),
        "neighbors": (around > 0).astype(np.int64),
        "labels": np.stack([x[:, 0] > 0, x[:, 1] > x[:, 2]], axis=1).astype(np.int8),
        "values": (2000 + 50 * x[:, 0] + 5 * x[:, 1]).astype(np.float32),
    }
    own = csr_array(x)
    features = SparseFeatures(own.data, own.indices.astype(np.int32), own.indptr.astype(np.int64), x.shape)
    order = draws.permutation(NODES).astype(np.int32)
    return Graph(
        kind,
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        features if sparse else DenseFeatures(x),
        labels[kind],
        *(np.sort(part) for part in (order[:800], order[800:1100], order[1100:])),
        num_classes={"linear": 3, "labels": 2, "values": 1}.get(kind, 2),
    )


def qualities(graph: Graph, task: Task = TASK, names: Any = ROW_MODELS) -> dict[str, float]:
    share = Share(1e3, 1e9)
    return {name: quality_on_test(fit(name, graph, task, share), graph, task, share) for name in names}


def test_each_model_finds_what_it_can_see_and_no_more() -> None:
    found = qualities(made("linear"))
    assert min(found["linear"], found["mlp"]) > 0.93
    assert min(found.values()) > 0.88
    found = qualities(made("xor"))
    assert found["linear"] < 0.65
    assert min(found["mlp"], found["boosting"]) > 0.85
    found = qualities(made("neighbors"))
    assert found["neighbor boosting"] > 0.85
    assert max(found[name] for name in ("linear", "mlp", "boosting")) < 0.62


@pytest.mark.parametrize(
    ("kind", "metric"),
    [("labels", "micro_f1"), pytest.param("labels", "roc_auc", marks=pytest.mark.weekly), ("values", "mae")],
)
def test_several_labels_and_values_are_predicted_too(kind: str, metric: Any) -> None:
    graph, task = made(kind), Task(metric=metric)
    found = qualities(graph, task)
    assert min(found.values()) > unlearnt(graph, task) + 0.3
    assert found["linear"] > 0.85  # of values: an error of at most a seventh of the median's
    assert found == qualities(graph, task)


def test_sparse_rows_are_those_of_dense_ones_and_learn_as_much() -> None:
    sparse = made("linear", sparse=True)
    dense = dataclasses.replace(sparse, features=DenseFeatures(_plain(sparse)))
    ids = np.sort(np.random.default_rng(0).choice(NODES, 700, replace=False)).astype(np.int32)
    for has_neighbors in (False, True):
        some, same = (NodeRows(one, has_neighbors=has_neighbors).matrix(ids) for one in (sparse, dense))
        assert issparse(some)
        np.testing.assert_allclose(some.toarray(), np.nan_to_num(same), atol=1e-6)
    found, known = (qualities(one) for one in (sparse, dense))
    for name, value in found.items():
        assert value == pytest.approx(known[name], abs=0.02)


def _plain(graph: Graph) -> np.ndarray:
    own = graph.features
    return csr_array((own.data, own.indices, own.indptr), shape=own.shape).toarray()


def test_means_are_those_of_plain_loops_and_nothing_without_neighbors() -> None:
    graph = made("neighbors")
    ids, x = np.arange(3, NODES, 2, dtype=np.int32), graph.features.array
    found = NodeRows(graph, has_neighbors=True).matrix(ids)
    for row, node in zip(found, ids, strict=True):
        around = graph.indices[graph.indptr[node] : graph.indptr[node + 1]]
        mean = x[around].mean(axis=0) if len(around) else np.full(COLUMNS, np.nan)
        np.testing.assert_allclose(row, np.concatenate([x[node], mean]), atol=1e-5)
    assert np.isnan(found[-1, COLUMNS:]).all()


def test_types_give_the_target_rows_and_a_mean_for_each_relation() -> None:
    draws, data = torch.Generator().manual_seed(0), HeteroData()
    data["paper"].x, data["author"].x = (torch.randn(n, 3, generator=draws) for n in (400, 90))
    data["venue"].num_nodes = 4
    ends = {("author", "writes", "paper"): (90, 400), ("paper", "cites", "paper"): (400, 400)}
    for relation, sizes in (ends | {("venue", "has", "paper"): (4, 400)}).items():
        data[relation].edge_index = torch.stack([torch.randint(n, (900,), generator=draws) for n in sizes])
    sums = torch.zeros(400).index_add_(
        0,
        data["author", "writes", "paper"].edge_index[1],
        data["author"].x[data["author", "writes", "paper"].edge_index[0], 0],
    )
    data["paper"].y = (sums > 0).long()
    graph = Graph.from_pyg(data, split=(0.6, 0.2, 0.2))
    assert graph.types is not None
    rows, ids = NodeRows(graph, has_neighbors=True), graph.train_ids
    assert rows.columns == 9
    found = rows.matrix(ids)
    np.testing.assert_array_equal(found[:, :3], data["paper"].x.numpy()[ids - graph.types.first])
    for (source, name, _), columns in zip(ends, (slice(3, 6), slice(6, 9)), strict=True):
        place = [one.name for one in graph.types.schema.relations].index(name)
        assert [one.name for one in graph.types.schema.relations if one.source != "venue"][
            columns.start // 3 - 1
        ] == name
        for row, node in zip(found[:, columns], ids, strict=True):
            at = graph.types.schema.rows(place, np.array([node - graph.types.first]))[0]
            around = graph.indices[graph.types.rows[at] : graph.types.rows[at + 1]]
            near = data[source].x.numpy()[around - graph.types.schema.first_node(source)]
            np.testing.assert_allclose(row, near.mean(axis=0) if len(near) else [np.nan] * 3, atol=1e-5)
    found = qualities(graph)
    assert found["neighbor boosting"] > 0.75 > 0.65 > found["mlp"]


def test_the_seed_decides_everything_and_the_state_of_torch_stays() -> None:
    graph, ids = made("xor"), np.arange(50, dtype=np.int32)
    state = torch.random.get_rng_state()
    for name in ROW_MODELS:
        first, again, other = (fit(name, graph, Task(seed=seed), Share(1e3, 1e9)) for seed in (1, 1, 2))
        assert torch.equal(first.outputs(ids), again.outputs(ids))
        if name != "boosting":
            assert name == "neighbor boosting" or not torch.equal(first.outputs(ids), other.outputs(ids))
    assert torch.equal(state, torch.random.get_rng_state())


def test_what_takes_long_or_much_memory_is_left_out_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, lines = made("linear"), list[str]()
    assert row_references(graph, Task(), 10**9, 0.0, lines.append) == {}
    assert len(lines) == len(ROW_MODELS)
    assert all("is left out: it" in line and "its share of" in line for line in lines)
    assert not any("share of -" in line for line in lines)
    lines.clear()
    assert row_references(graph, Task(), 100, 1e3, lines.append) == {}
    assert all("of memory, and may take 100 B" in line for line in lines)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    lines.clear()
    found = row_references(graph, Task(), 10**9, 1e3, lines.append)
    assert list(found) == ["linear", "mlp"]
    assert "linear has validation accuracy" in lines[0]
    assert "xgboost can't be imported" in lines[-1]


def test_the_cheapest_by_their_first_steps_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, lines, real = made("linear"), list[str](), fit
    whole = {"linear": 30.0, "mlp": 20.0, "boosting": 10.0, "neighbor boosting": 40.0}

    def slower(name: Any, graph: Graph, task: Task, share: Share) -> Any:
        monkeypatch.setattr(share, "need_seconds", lambda *_: type(share).need_seconds(share, 1.0, whole[name]))
        return real(name, graph, task, share)

    monkeypatch.setattr(module, "fit", slower)
    found = row_references(graph, Task(), 10**9, 1e3, lines.append)
    assert list(found) == list(ROW_MODELS)
    shown = [line.removeprefix("without a graph network, ").partition(" has ")[0] for line in lines]
    assert shown == ["boosting", "mlp", "linear", "neighbor boosting"]


def test_only_a_prediction_within_half_a_point_is_nearly_as_good() -> None:
    assert nearly_as_good({"linear": 0.80, "mlp": 0.896}, 0.9) == "mlp"
    assert nearly_as_good({"linear": 0.80, "mlp": 0.894}, 0.9) == ""
    assert (nearly_as_good({}, 0.9), nearly_as_good({"mlp": 0.9}, None)) == ("", "")


def test_a_training_names_it_and_predict_uses_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a3gnn.apply.train._REFERENCES_S", 1e3)
    path = tmp_path / "graph"
    made("xor").save(path)
    task, lines = Task(hidden_channels=4, fanouts=(2,)), list[str]()
    given: dict[str, Any] = {"task": task, "epochs": 1, "notify": lines.append}
    result = train(TrainConfig(), str(path), out=tmp_path / "run", **given)
    assert set(ROW_MODELS) <= set(result.heuristics or {})
    assert list(result.heuristics_validation or {}) == list(ROW_MODELS)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["heuristics"] == result.heuristics
    without = train(TrainConfig(), str(path), out=tmp_path / "without", references=False, **given)
    assert list(without.heuristics or {}) == ["label propagation"]
    assert without.heuristics_validation is None
    words = ["predict", "--heuristic", "boosting", "--dataset", str(path), "--out", str(tmp_path / "found.npy")]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code
    assert "Saved class probabilities" in capsys.readouterr().out
    graph, found = Graph.load(path), np.load(tmp_path / "found.npy")
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert (found[graph.test_ids].argmax(axis=1) == graph.labels[graph.test_ids]).mean() > 0.85
    some = predict(None, graph, heuristic="boosting", nodes=[7, 3], notify=lines.append)
    np.testing.assert_allclose(some.numpy(), found[[7, 3]], atol=1e-6)


def test_what_predict_can_not_do_without_a_network_is_refused(tmp_path: Path) -> None:
    graph = made("linear")
    with pytest.raises(UsageError, match="a model or heuristic, got neither"):
        predict(None, graph)
    with pytest.raises(UsageError, match="device='cuda' needs a model: a heuristic runs on the CPU"):
        predict(None, graph, heuristic="linear", device="cuda")
    with pytest.raises(UsageError, match="did you mean 'linear'"):
        predict(None, graph, heuristic="linar")
    own = made("linear", sparse=True).features
    wide = SparseFeatures(own.data, own.indices, own.indptr, (NODES, 400_000))
    with pytest.raises(A3GNNError, match="mlp can't be trained on linear: it needs"):
        predict(None, dataclasses.replace(graph, features=wide), heuristic="mlp", host_memory_limit="4GiB")


@pytest.mark.parametrize("sparse", [False, True])
def test_in_neighbors_of_hubs_are_read_some_at_a_time(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = made("linear", sparse=sparse)
    rows, ids = NodeRows(graph, has_neighbors=True), np.arange(900, dtype=np.int32)
    whole, most, plain = rows.matrix(ids), [], FeatureRows.read
    monkeypatch.setattr(node_rows, "_MOST", 100)
    monkeypatch.setattr(FeatureRows, "read", lambda self, some, at: most.append(len(some)) or plain(self, some, at))
    parts = [rows.matrix(ids)[:, COLUMNS:], whole[:, COLUMNS:]]
    np.testing.assert_allclose(*(one.toarray() if issparse(one) else one for one in parts), rtol=1e-5, atol=1e-6)
    assert max(most[1:]) == 100


def test_few_train_nodes_suffice_for_a_linear_map() -> None:
    graph = made("values", sparse=True)
    graph = dataclasses.replace(graph, train_ids=graph.train_ids[:150])
    assert qualities(graph, dataclasses.replace(TASK, metric="r2"), ("linear",))["linear"] > 0.99

"""Tasks of values of edges, from the file to predictions: users rate items, and members of one type trust others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from a3gnn import Task, TrainConfig, predict, predict_edges, predict_links, train
from a3gnn.errors import ConfigError, GraphError, UsageError
from a3gnn.evaluation.references import Offsets
from a3gnn.graphs.graph import Graph
from a3gnn.models.links import LinkModel
from a3gnn.training.result import TrainResult
from tests.commands import a3gnn as command
from tests.training.test_links import edges_of, rows_of

USERS, ITEMS, EDGES = 40, 60, 900
RATES = "user,rates,item"


def ratings(folder: Path, within: bool = False, **changes: Any) -> Path:
    """Writes edges with a value, a class and two labels each, of which the ends' tastes and offsets decide."""
    rng = np.random.default_rng(0)
    sizes = (USERS, USERS if within else ITEMS)
    chosen = rng.permutation(sizes[0] * sizes[1])[:EDGES]
    pairs = np.stack(np.divmod(chosen, sizes[1]))
    tastes = [rng.integers(2, size=size) for size in sizes]
    same = tastes[0][pairs[0]] == tastes[1][pairs[1]]
    values = 3 + 1.5 * same + rng.normal(size=sizes[0])[pairs[0]] / 3 + rng.normal(size=EDGES) / 10
    kind = "user__trusts__user" if within else "user__rates__item"
    arrays = {
        "node_types": np.array(["user"] if within else ["user", "item"]),
        "num_nodes": np.array(sizes[: 1 if within else 2]),
        "edge_types": np.array([kind]),
        f"edge_index__{kind}": pairs,
        f"edge_weight__{kind}": values.astype(np.float32),
        f"edge_y__{kind}": same.astype(np.int64),
        f"edge_attr__{kind}": np.stack([same, values > 4], axis=1).astype(np.int8),
        f"edge_split__{kind}": rng.permutation(np.repeat([0, 1, 2], [600, 120, 180])).astype(np.int8),
    }
    path = folder / "ratings.npz"
    np.savez(path, **{name: array for name, array in (arrays | changes).items() if array is not None})
    return path


def run(spec: Any, out: Path, **options: Any) -> TrainResult:
    options = {"epochs": 3, "metric": "auto", "patience": None, "notify": lambda line: None} | options
    fields = {"model": "rsage", "hidden_channels": 16, "fanouts": (5, 3), "learning_rate": 0.02, "dropout": 0.0}
    task = Task(**(fields | options.pop("task", {})))
    return train(TrainConfig(batch_size=128), spec, task=task, out=out, **options)


@torch.no_grad()
def outputs_of(folder: Path, graph: Graph, pairs: np.ndarray) -> torch.Tensor:
    """Returns the outputs for `pairs` by one pass of the trained model over the whole graph."""
    module, (heads, tails) = rows_of(folder, graph)
    return module.outputs(heads[pairs[0]], tails[pairs[1]])


@pytest.mark.parametrize("model", ["rsage", "embedding"])
def test_ratings_are_learnt_and_judged_as_by_hand(tmp_path: Path, model: str) -> None:
    spec = f"target:{RATES}=edge_weight:{ratings(tmp_path)}"
    result = run(spec, tmp_path / "run", epochs=30, task={"model": model}, metric="rmse")
    graph = Graph.load(spec)
    assert graph.target == "values"
    assert graph.links is not None
    assert graph.num_classes == 1
    outputs = outputs_of(tmp_path / "run", graph, graph.links.pairs[:, graph.test_ids])[:, 0].numpy()
    labels = graph.labels[graph.test_ids]
    rmse = np.sqrt(np.mean((outputs - labels) ** 2))
    assert result.metric.number(result.test_accuracy) == pytest.approx(rmse, rel=1e-4)
    assert result.heuristics is not None
    assert list(result.heuristics) == ["mean", "node offsets"]
    constant = np.sqrt(np.mean((graph.labels[graph.train_ids].mean(dtype=np.float64) - labels) ** 2))
    assert result.metric.number(result.heuristics["mean"]) == pytest.approx(constant, rel=1e-5)
    least = {"rsage": 1.0, "embedding": 0.6}[model]  # offsets know no tastes, nor does a row of unknown neighbors
    assert rmse < least * result.metric.number(result.heuristics["node offsets"])


@pytest.mark.parametrize(
    ("name", "metric", "target", "heuristic"),
    [
        ("edge_y", "accuracy", "classes", "majority"),
        ("edge_y", "roc_auc", "classes", "majority"),
        ("edge_attr", "micro_f1", "labels", "majority"),
        ("edge_weight", "r2", "values", "mean"),
        ("edge_weight", "mae", "values", "median"),
    ],
)
def test_metrics_of_nodes_judge_edges(tmp_path: Path, name: str, metric: str, target: str, heuristic: str) -> None:
    from sklearn import metrics

    spec = f"target:{RATES}={name}:{ratings(tmp_path)}"
    result = run(spec, tmp_path / "run", epochs=12, metric=metric)
    graph = Graph.load(spec)
    assert graph.target == target
    assert graph.links is not None
    assert result.heuristics is not None
    assert list(result.heuristics) == [heuristic, "node offsets"]
    outputs = outputs_of(tmp_path / "run", graph, graph.links.pairs[:, graph.test_ids]).numpy()
    labels = graph.labels[graph.test_ids]
    expected = {
        "accuracy": lambda: metrics.accuracy_score(labels, outputs.argmax(axis=1)),
        "roc_auc": lambda: metrics.roc_auc_score(labels, outputs[:, -1] - outputs[:, 0]),
        "micro_f1": lambda: metrics.f1_score(labels, outputs > 0, average="micro"),
        "r2": lambda: metrics.r2_score(labels, outputs[:, 0]),
        "mae": lambda: metrics.mean_absolute_error(labels, outputs[:, 0]),
    }[metric]()
    found = result.test_accuracy if metric != "mae" else result.metric.number(result.test_accuracy)
    assert found == pytest.approx(expected, abs=1e-4)
    worse, better = (result.heuristics[one] for one in result.heuristics)
    assert result.test_accuracy > max(worse, better)


def test_auto_chooses_the_metric_and_the_loss_may_be_weighted(tmp_path: Path) -> None:
    path, lines = ratings(tmp_path), list[str]()
    rare = np.zeros(EDGES, dtype=np.int64)
    rare[::7] = 1
    few = ratings(tmp_path, edge_y__user__rates__item=rare)
    found = run(
        f"target:{RATES}=edge_y:{few}", tmp_path / "rare", task={"class_weights": "balanced"}, notify=lines.append
    )
    assert found.metric.name == "roc_auc"
    assert any("of the validation edges are in one class" in line for line in lines)
    assert run(f"target:{RATES}=edge_weight:{path}", tmp_path / "values", task={"loss": "mae"}).metric.name == "mae"


def test_only_train_edges_with_a_value_are_shown(tmp_path: Path) -> None:
    with np.load(ratings(tmp_path)) as arrays:
        edges, split, values = (arrays[f"edge_{name}__user__rates__item"] for name in ("index", "split", "weight"))
    values[::10] = np.nan
    path = ratings(tmp_path, edge_weight__user__rates__item=values)
    graph = Graph.load(f"target:{RATES}=edge_weight:{path}")
    known = ~np.isnan(values)
    for code, ids in enumerate((graph.train_ids, graph.val_ids, graph.test_ids)):
        np.testing.assert_array_equal(ids, np.flatnonzero(known & (split == code)))
    shown = {tuple(pair) for pair in edges[:, known & (split == 0)].T.tolist()}
    assert edges_of(graph, "rates") == shown
    assert edges_of(graph, "rev_rates") == {(item, user) for user, item in shown}
    random = Graph.load(f"target:{RATES}=edge_weight:{path}", split="0.5,0.2,0.3")
    drawn = np.concatenate([random.train_ids, random.val_ids, random.test_ids])
    np.testing.assert_array_equal(np.sort(drawn), np.flatnonzero(known))
    assert len(random.val_ids) == pytest.approx(0.2 * known.sum(), abs=1)
    assert len(edges_of(random, "rates")) == len(random.train_ids)


@pytest.mark.parametrize("own_links", ["shown", "hidden"])
def test_minibatches_of_training_show_no_pair_of_their_own_if_they_are_hidden(tmp_path: Path, own_links: str) -> None:
    from a3gnn.training.describe import described
    from a3gnn.training.trainer import Trainer

    valued = own_links == "hidden"  # which values of edges always are
    graph = Graph.load(f"target:{RATES}{'=edge_weight' * valued}:{ratings(tmp_path)}").on_disk()
    task = Task(model="rsage", hidden_channels=8, metric="rmse" if valued else "mrr", own_links=own_links)
    own = 0
    with Trainer(graph, TrainConfig(batch_size=64), described(task, graph)) as trainer:
        assert graph.types is not None
        schema = graph.types.schema
        names = [one.name for one in schema.relations]
        for batch in trainer._pipeline.epoch(0):
            assert batch.typed is not None
            assert batch.examples is not None
            assert graph.links is not None
            trained = {tuple(pair) for pair in graph.links.pairs[:, batch.examples.ids].T.tolist()}
            users, items = (batch.typed.view.n_id[schema.types.index(kind)] for kind in ("user", "item"))
            rates, reverse = (batch.typed.view.edge_index[names.index(name)] for name in ("rates", "rev_rates"))
            own += sum((users[a], items[b]) in trained for a, b in rates.T)
            own += sum((users[b], items[a]) in trained for a, b in reverse.T)
    assert (own == 0) == valued


def test_a_random_split_within_a_type_keeps_both_directions_of_a_pair_together(tmp_path: Path) -> None:
    path = ratings(tmp_path, within=True, edge_split__user__trusts__user=None)
    graph = Graph.load(f"target:user,trusts,user=edge_y:{path}")
    assert graph.links is not None
    part = np.empty(EDGES, dtype=np.int64)
    for code, ids in enumerate((graph.train_ids, graph.val_ids, graph.test_ids)):
        part[ids] = code
    of_pair: dict[frozenset[int], set[int]] = {}
    for (head, tail), code in zip(graph.links.pairs.T.tolist(), part.tolist(), strict=True):
        of_pair.setdefault(frozenset((head, tail)), set()).add(code)
    assert len(of_pair) < EDGES
    assert all(len(codes) == 1 for codes in of_pair.values())


def test_predictions_are_those_of_one_pass_for_given_edges_and_for_those_without_a_value(tmp_path: Path) -> None:
    with np.load(ratings(tmp_path)) as arrays:
        classes = arrays["edge_y__user__rates__item"].copy()
    classes[5:25] = -1
    path = ratings(tmp_path, edge_y__user__rates__item=classes)
    spec = f"target:{RATES}=edge_y:{path}"
    run(spec, tmp_path / "run")
    graph = Graph.load(spec)
    assert graph.links is not None
    unknown = list(predict_edges(tmp_path / "run", path, notify=lambda line: None))
    pairs = np.stack(
        [np.concatenate([one.sources for one in unknown]), np.concatenate([one.targets for one in unknown])]
    )
    np.testing.assert_array_equal(pairs, graph.links.pairs[:, 5:25])
    expected = torch.softmax(outputs_of(tmp_path / "run", graph, pairs), dim=1)
    torch.testing.assert_close(torch.cat([one.values for one in unknown]), expected)
    asked = torch.tensor([[3, 0, 3], [9, 59, 9]])
    found = next(predict_edges(tmp_path / "run", path, edges=asked, notify=lambda line: None))
    torch.testing.assert_close(found.values, torch.softmax(outputs_of(tmp_path / "run", graph, asked.numpy()), dim=1))
    for wrong, words in ((asked.T, r"shape \(2, n\)"), (asked + 58, "user in \\[0, 40\\)")):
        with pytest.raises(UsageError, match=words):
            predict_edges(tmp_path / "run", path, edges=wrong, notify=lambda line: None)
    with pytest.raises(UsageError, match="predict_edges"):
        predict(tmp_path / "run", path, notify=lambda line: None)
    with pytest.raises(UsageError, match="needs a model of links, got one of values of edges"):
        predict_links(tmp_path / "run", path, notify=lambda line: None)
    run(f"target:{RATES}=edge_weight:{path}", tmp_path / "values")
    with pytest.raises(UsageError, match="has a value, so there is nothing to predict"):
        predict_edges(tmp_path / "values", path, notify=lambda line: None)


def test_blocks_of_edges_change_no_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ratings(tmp_path)
    run(f"target:{RATES}=edge_weight:{path}", tmp_path / "run")
    pairs = np.random.default_rng(1).integers(40, size=(2, 10_000))
    monkeypatch.setattr("a3gnn.evaluation.link_evaluator.CHUNK_BYTES", 1)
    parts = list(predict_edges(tmp_path / "run", path, edges=pairs, notify=lambda line: None))
    assert len(parts) == 3
    monkeypatch.undo()
    whole = list(predict_edges(tmp_path / "run", path, edges=pairs, notify=lambda line: None))
    assert len(whole) == 1
    torch.testing.assert_close(torch.cat([one.values for one in parts]), whole[0].values)
    assert whole[0].values.shape == (10_000,)


def test_a_hetero_data_with_edge_label_is_taken(tmp_path: Path) -> None:
    with np.load(ratings(tmp_path)) as arrays:
        edges, values = (torch.from_numpy(arrays[f"edge_{name}__user__rates__item"]) for name in ("index", "weight"))
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = USERS, ITEMS
    data["user", "rates", "item"].edge_index = edges
    data["user", "rates", "item"].edge_label = values
    torch.save(data, tmp_path / "data.pt")
    result = run(f"target:{RATES}=edge_label:{tmp_path / 'data.pt'}", tmp_path / "run")
    assert result.metric.name == "mae"


@pytest.mark.parametrize(
    ("target", "changes", "options", "error", "words"),
    [
        (f"{RATES}=edge_wight", {}, {}, UsageError, "did you mean 'edge_weight'"),
        (f"{RATES}=", {}, {}, UsageError, "SOURCE,RELATION,TARGET=NAME"),
        (f"{RATES}=edge_split", {}, {}, UsageError, "must be one of edge_weight, edge_y, edge_attr|must be one of"),
        (f"{RATES}=edge_y", {}, {"metric": "mrr"}, GraphError, "if classes are predicted, got mrr"),
        (f"{RATES}=edge_y", {}, {"metric": "rmse"}, GraphError, "if classes are predicted, got rmse"),
        (f"{RATES}=edge_y", {}, {"task": {"decoder": "distmult"}}, ConfigError, "decoder must be mlp"),
        (f"{RATES}=edge_y", {}, {"task": {"negatives": "softmax"}}, ConfigError, "negatives must be left out"),
        (f"{RATES}=edge_weight", {"edge_weight__user__rates__item": np.full(EDGES, np.nan, dtype=np.float32)}, {},
         GraphError, "edge_weight of user,rates,item"),
        (f"{RATES}=edge_weight", {"edge_weight__user__rates__item": np.ones(EDGES, dtype=np.float32)}, {},
         GraphError, "different values"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anything_is_trained(
    tmp_path: Path, target: str, changes: dict[str, Any], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        run(f"target:{target}:{ratings(tmp_path, **changes)}", tmp_path / "run", **options)


def test_offsets_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(2)
    pairs, columns = np.stack([rng.integers(5, size=80), rng.integers(7, size=80)]), rng.normal(size=(80, 2))
    design = np.zeros((80, 12))
    design[np.arange(80), pairs[0]] = design[np.arange(80), 5 + pairs[1]] = 1
    mean = columns.mean(axis=0)
    weights = np.linalg.solve(design.T @ design + 3 * np.eye(12), design.T @ (columns - mean))
    found = Offsets.fitted(pairs, columns, (5, 7), 3.0)
    np.testing.assert_allclose(found(pairs), mean + design @ weights, atol=1e-3)


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    spec = f"target:{RATES}=edge_weight:{ratings(tmp_path)}"
    whole = run(spec, tmp_path / "whole", epochs=4)
    run(spec, tmp_path / "parts", epochs=2)
    assert run(spec, tmp_path / "parts", epochs=4, resume=True).test_accuracy == whole.test_accuracy


def test_the_command_line_trains_and_predicts_values_of_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ratings(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ["--target", f"{RATES}=edge_weight", "--model", "embedding", "--hidden", 8, "--metric", "rmse"]
    trained = command("train", "--dataset", path, *words, "--epochs", 1, "--out", "run")
    assert trained.returncode == 0, trained.stderr
    assert "test RMSE" in trained.stdout
    assert re.search(r"node offsets +\S+ +on test, without a model", trained.stdout)
    assert "--out predictions.npy --edges pairs.npy" in trained.stdout
    assert "at least as good without a model: mean, node offsets" in trained.stdout
    refused = command("predict", "run", "--dataset", path, "--out", "none.npy")
    assert refused.returncode == 2
    assert "--edges names pairs" in refused.stderr.replace("\n    ", " ")
    pairs = np.array([[1, 2, 3], [4, 5, 6]])
    np.save("pairs.npy", pairs)
    written = command("predict", "run", "--dataset", path, "--out", "values.npy", "--edges", "pairs.npy")
    assert written.returncode == 0, written.stderr
    table = np.load("values.npy")
    assert table.dtype.names == ("source", "target", "value")
    np.testing.assert_array_equal(np.stack([table["source"], table["target"]]), pairs)
    expected = next(predict_edges(tmp_path / "run", path, edges=pairs, notify=lambda line: None))
    np.testing.assert_array_equal(table["value"], expected.values)


def test_a_model_of_values_has_as_many_outputs_as_the_task(tmp_path: Path) -> None:
    spec = f"target:{RATES}=edge_attr:{ratings(tmp_path)}"
    run(spec, tmp_path / "run", epochs=1)
    module, _ = rows_of(tmp_path / "run", Graph.load(spec))
    assert isinstance(module, LinkModel)
    assert module.decoder.out.out_features == 2

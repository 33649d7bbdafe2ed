"""Tasks of links, from the file to the model: karate club within one type, and users with items of two groups."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.datasets import KarateClub

import a3gnn
from a3gnn import Task, TrainConfig, predict_links, train
from a3gnn.errors import A3GNNError, ConfigError, GraphError, UsageError
from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.graphs.graph import Graph
from a3gnn.models.links import LinkModel
from a3gnn.models.own.factory import Factory
from a3gnn.training.result import TrainResult
from a3gnn.training.saved_model import SavedModel
from tests.commands import a3gnn as command

USERS, ITEMS = 40, 60
LIKES, SPLIT = "user,likes,item", "edge_split__user__likes__item"


def shop(folder: Path, **changes: Any) -> Path:
    """Writes users that like items of their own group, with tags of items, and returns the file."""
    rng = np.random.default_rng(0)
    pairs = [(user, item) for user in range(USERS) for item in range(ITEMS) if user % 2 == item % 2]
    chosen = np.array([pairs[i] for i in np.sort(rng.permutation(len(pairs))[:480])]).T
    tags = np.stack([np.arange(ITEMS), rng.integers(5, size=ITEMS)])
    arrays = {
        "node_types": np.array(["user", "item", "tag"]),
        "num_nodes": np.array([USERS, ITEMS, 5]),
        "edge_types": np.array(["user__likes__item", "item__has__tag"]),
        "x__item": rng.normal(size=(ITEMS, 3)).astype(np.float32),
        "edge_index__user__likes__item": chosen,
        "edge_split__user__likes__item": rng.permutation(np.repeat([0, 1, 2], [320, 60, 100])).astype(np.int8),
        "edge_index__item__has__tag": tags,
    }
    path = folder / "shop.npz"
    np.savez(path, **{name: array for name, array in (arrays | changes).items() if array is not None})
    return path


def karate(folder: Path) -> Path:
    """Writes the karate club, each edge once, and returns the file."""
    edges = KarateClub()[0].edge_index.numpy()
    path = folder / "karate.npz"
    np.savez(
        path,
        node_types=np.array(["member"]),
        num_nodes=np.array([34]),
        edge_types=np.array(["member__knows__member"]),
        edge_index__member__knows__member=edges[:, edges[0] < edges[1]],
    )
    return path


def run(spec: str, out: Path, **options: Any) -> TrainResult:
    options = {"epochs": 3, "metric": "auto", "patience": None, "notify": lambda line: None} | options
    fields = {"model": "rsage", "hidden_channels": 8, "fanouts": (5, 3), "learning_rate": 0.02}
    task = Task(**(fields | options.pop("task", {})))
    config = TrainConfig(**({"batch_size": 64} | options.pop("config", {})))
    return train(config, spec, task=task, out=out, **options)


def rows_of(folder: Path, graph: Graph) -> tuple[LinkModel, list[torch.Tensor]]:
    """Returns the trained model, and the rows of all heads and tails by one pass of it over the whole graph."""
    from a3gnn.models.own.inputs import of_graph

    saved = SavedModel.read(folder)
    model = Factory.of(saved.task.model).build_for(saved.task, graph.in_channels, saved.num_outputs)
    assert isinstance(model, LinkModel)
    model.load_state_dict(saved.weights)
    model.eval()
    with torch.no_grad():
        found = model(*of_graph(graph, "edge_index", 2, torch.device("cpu")))
        rows = [
            model.rows(found[kind], torch.arange(len(found[kind])), are_tails=bool(side))
            for side, kind in enumerate(model.ends)
        ]
    return model, rows


def edges_of(graph: Graph, name: str) -> set[tuple[int, int]]:
    """Returns the edges of a relation that message passing shows, as ids within their types."""
    assert graph.types is not None
    schema = graph.types.schema
    number = [one.name for one in schema.relations].index(name)
    relation = schema.relations[number]
    found = set()
    for target in range(schema.counts[relation.target]):
        row = int(schema.rows(number, np.array([target]))[0])
        for source in graph.indices[graph.types.rows[row] : graph.types.rows[row + 1]]:
            found.add((int(source) - schema.first_node(relation.source), target))
    return found


def test_message_passing_shows_train_links_alone_and_in_both_directions(tmp_path: Path) -> None:
    graph = Graph.load(f"target:{LIKES}:{shop(tmp_path)}")
    assert graph.links is not None
    train_pairs = {tuple(pair) for pair in graph.links.pairs[:, graph.train_ids].T.tolist()}
    assert len(train_pairs) == 320
    assert edges_of(graph, "likes") == train_pairs
    assert edges_of(graph, "rev_likes") == {(item, user) for user, item in train_pairs}
    assert len(edges_of(graph, "has")) == len(edges_of(graph, "rev_has")) == ITEMS


def test_a_relation_that_mirrors_the_links_hides_them_too(tmp_path: Path) -> None:
    with np.load(shop(tmp_path)) as arrays:
        edges, split = arrays["edge_index__user__likes__item"], arrays["edge_split__user__likes__item"]
    names = np.array(["user__likes__item", "item__liked_by__user", "item__has__tag"])
    path = shop(tmp_path, edge_types=names, edge_index__item__liked_by__user=edges[::-1])
    graph = Graph.load(f"target:{LIKES}:{path}")
    assert edges_of(graph, "liked_by") == {(item, user) for user, item in edges[:, split == 0].T.tolist()}


def test_a_random_split_of_a_relation_within_a_type_shows_no_hidden_pair(tmp_path: Path) -> None:
    spec = f"target:member,knows,member:{karate(tmp_path)}"
    graph = Graph.load(spec, split="0.6,0.2,0.2", split_seed=3)
    assert graph.links is not None
    hidden = graph.links.pairs[:, np.concatenate([graph.val_ids, graph.test_ids])].T.tolist()
    assert len(hidden) == pytest.approx(0.4 * 78, abs=2)
    for name in ("knows", "rev_knows"):
        shown = edges_of(graph, name)
        assert len(shown) == len(graph.train_ids)
        assert not shown & {(a, b) for a, b in hidden}
        assert not shown & {(b, a) for a, b in hidden}
    other = Graph.load(spec, split="0.6,0.2,0.2", split_seed=4)
    assert other.fingerprint != graph.fingerprint


@pytest.mark.parametrize(
    ("decoder", "negatives", "model", "least"),
    [
        ("dot", "softmax", "rsage", 1.5),
        ("mlp", "binary:2", "rsage", 1.0),  # two layers more than so few links can train
        ("distmult", "softmax:16", "embedding", 1.2),
    ],
)
def test_links_between_two_types_are_learnt_and_ranked_as_by_brute_force(
    tmp_path: Path, decoder: str, negatives: str, model: str, least: float
) -> None:
    spec = f"target:{LIKES}:{shop(tmp_path)}"
    fields = {"decoder": decoder, "negatives": negatives, "model": model, "learning_rate": 0.01}
    result = run(spec, tmp_path / "run", epochs=25, task=fields, metric="mrr")
    graph = Graph.load(spec)
    links = graph.links
    assert links is not None
    module, (heads, tails) = rows_of(tmp_path / "run", graph)
    true = {tuple(pair) for pair in links.pairs.T.tolist()}
    reciprocals, chance = [], []
    for head, tail in links.pairs[:, graph.test_ids].T.tolist():
        relation = torch.zeros(ITEMS, dtype=torch.int64)
        with torch.no_grad():
            scores = module.decoder.pairs(heads[[head]].expand(ITEMS, -1), tails, relation)
        rivals = [item for item in range(ITEMS) if (head, item) not in true]
        reciprocals.append(1 / (1 + int((scores[rivals] > scores[tail]).sum())))
        chance.append(float((1 / torch.arange(1, len(rivals) + 2)).mean()))
    assert result.test_accuracy == pytest.approx(np.mean(reciprocals), rel=0.01)  # pairs and blocks round differently
    assert result.test_accuracy > least * np.mean(chance)
    assert result.heuristics is not None
    assert set(result.heuristics) == {"popularity", "item neighbors"}
    assert json.loads((tmp_path / "run" / "result.json").read_text())["heuristics"] == result.heuristics


def test_a_knowledge_graph_is_ranked_in_both_directions_over_all_its_relations(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    files: dict[str, Any] = {"node_types": np.array(["thing"]), "num_nodes": np.array([30])}
    names = ["next", "twice"]
    for step, name in enumerate(names, 1):
        files[f"edge_index__thing__{name}__thing"] = np.stack([np.arange(30), (np.arange(30) + step) % 30])
        files[f"edge_split__thing__{name}__thing"] = rng.permutation(np.repeat([0, 1, 2], [22, 4, 4])).astype(np.int8)
    np.savez(tmp_path / "kg.npz", edge_types=np.array([f"thing__{name}__thing" for name in names]), **files)
    spec = f"target:thing,*,thing:{tmp_path / 'kg.npz'}"
    fields = {"decoder": "rotate", "negatives": "softmax:16", "model": "embedding", "learning_rate": 0.05}
    result = run(spec, tmp_path / "run", epochs=60, task=fields)
    assert result.metric.name == "mrr"
    graph = Graph.load(spec)
    links = graph.links
    assert links is not None
    assert len(links.relations) == 2
    for decoder, said in (("dot", True), ("mlp", True), ("distmult", False), ("rotate", False)):
        lines: list[str] = []
        with_metric(Task(model="embedding", decoder=decoder), "auto", graph, lines.append)
        assert any("the same score in each of the 2 relations" in line for line in lines) == said
    module, (rows, _) = rows_of(tmp_path / "run", graph)
    true = {(int(kind), *pair) for kind, pair in zip(links.kinds, links.pairs.T.tolist(), strict=True)}
    reciprocals = []
    for number in graph.test_ids:
        kind, (head, tail) = int(links.kinds[number]), links.pairs[:, number].tolist()
        for side in range(2):
            pairs = [(head, other) if side == 0 else (other, tail) for other in range(30)]
            ends = torch.tensor(pairs).T
            with torch.no_grad():
                scores = module.decoder.pairs(rows[ends[0]], rows[ends[1]], torch.full((30,), kind))
            rivals = [i for i, pair in enumerate(pairs) if (kind, *pair) not in true]
            reciprocals.append(1 / (1 + int((scores[rivals] > scores[pairs.index((head, tail))]).sum())))
    assert result.test_accuracy == pytest.approx(np.mean(reciprocals), rel=0.01)


@pytest.mark.parametrize("model", ["rsage", "embedding"])
def test_a_resumed_run_ends_with_the_same_bits_and_workers_change_none(tmp_path: Path, model: str) -> None:
    spec = f"target:{LIKES}:{shop(tmp_path)}"
    fields = {"model": model, "negatives": "binary:2", "decoder": "distmult"}
    whole = run(spec, tmp_path / "whole", epochs=4, task=fields)
    run(spec, tmp_path / "parts", epochs=2, task=fields)
    parts = run(spec, tmp_path / "parts", epochs=4, task=fields, resume=True)
    config = {"parallel_mode": "mode1", "num_workers": 2}
    run(spec, tmp_path / "ahead", epochs=4, task=fields, config=config)
    weights = [SavedModel.read(tmp_path / name).weights for name in ("whole", "parts", "ahead")]
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name
        assert torch.equal(value, weights[2][name]), name
    assert whole.test_accuracy == parts.test_accuracy
    assert whole.best_epoch == parts.best_epoch


def test_an_epoch_has_all_train_links(tmp_path: Path) -> None:
    from a3gnn.training.describe import described
    from a3gnn.training.trainer import Trainer

    graph = Graph.load(f"target:{LIKES}:{shop(tmp_path)}").on_disk()
    task = described(Task(model="rsage", hidden_channels=8, metric="mrr"), graph)
    with Trainer(graph, TrainConfig(batch_size=64), task) as trainer:
        steps = list(trainer.steps(0))
    assert [step.seeds for step in steps] == [64] * 5
    assert trainer.batches_per_epoch == 5


def test_the_best_links_are_those_of_all_scores_without_known_ones(tmp_path: Path) -> None:
    spec = f"target:{LIKES}:{shop(tmp_path)}"
    run(spec, tmp_path / "run")
    graph = Graph.load(spec)
    assert graph.links is not None
    module, (heads, tails) = rows_of(tmp_path / "run", graph)
    with torch.no_grad():
        scores = module.decoder.block(heads, tails, torch.zeros(USERS, dtype=torch.int64))
    scores[tuple(torch.from_numpy(graph.links.pairs).long())] = float("-inf")
    asked = [7, 3, 7]
    found = list(predict_links(tmp_path / "run", shop(tmp_path), top=4, sources=asked, notify=lambda line: None))
    assert len(found) == 1
    assert found[0].relation == ("user", "likes", "item")
    assert found[0].sources.tolist() == asked
    expected = scores[asked].topk(4)
    torch.testing.assert_close(found[0].scores, expected.values)
    assert torch.equal(found[0].targets, expected.indices)


def test_blocks_of_sources_change_no_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = f"target:{LIKES}:{shop(tmp_path)}"
    run(spec, tmp_path / "run")
    whole = next(predict_links(tmp_path / "run", spec, top=100, notify=lambda line: None))
    assert whole.targets.shape == (USERS, ITEMS)
    assert (whole.targets == -1).sum() == 480
    monkeypatch.setattr("a3gnn.apply.predict_links.block_bytes", lambda budget: 4 * ITEMS * 7)
    parts = list(predict_links(tmp_path / "run", spec, top=100, notify=lambda line: None))
    assert [len(part.sources) for part in parts] == [7, 7, 7, 7, 7, 5]
    assert torch.equal(torch.cat([part.targets for part in parts]), whole.targets)


@pytest.mark.parametrize(
    ("target", "changes", "options", "error", "words"),
    [
        ("user,like,item", {}, {}, UsageError, "did you mean 'user,likes,item'"),
        ("user,likes", {}, {}, UsageError, "SOURCE,RELATION,TARGET"),
        ("user,likes,tag", {}, {}, UsageError, "must be one of user,likes,item, item,has,tag"),
        (LIKES, {}, {"metric": "accuracy"}, ConfigError, "mrr.*if links are predicted, got accuracy"),
        (LIKES, {}, {"task": {"decoder": "rotate", "hidden_channels": 7}}, A3GNNError, "even for the decoder rotate"),
        (LIKES, {}, {"task": {"model": "gcn"}}, ConfigError, "for a graph with node types, got gcn"),
        (
            LIKES,
            {SPLIT: np.zeros(480, dtype=np.int8)},
            {},
            GraphError,
            "must have a val edge",
        ),
        (LIKES, {SPLIT: np.full(480, 3, dtype=np.int8)}, {}, GraphError, "0, 1 or 2"),
        (LIKES, {}, {"split": "0.5,0.2,0.2"}, UsageError, "must add up to 1"),
    ],
)
def test_bad_input_is_refused_before_anything_is_trained(
    tmp_path: Path, target: str, changes: dict[str, Any], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        run(f"target:{target}:{shop(tmp_path, **changes)}", tmp_path / "run", **options)


def test_a_type_with_one_node_and_a_leaking_split_are_refused(tmp_path: Path) -> None:
    with np.load(shop(tmp_path)) as arrays:
        edges = arrays["edge_index__user__likes__item"].copy()
        split = arrays["edge_split__user__likes__item"]
    edges[:, np.flatnonzero(split == 2)[0]] = edges[:, np.flatnonzero(split == 0)[0]]
    pair = tuple(edges[:, np.flatnonzero(split == 0)[0]].tolist())
    with pytest.raises(GraphError, match=f"1 of 100 test pairs.*\\({pair[0]}, {pair[1]}\\)"):
        Graph.load(f"target:{LIKES}:{shop(tmp_path, edge_index__user__likes__item=edges)}")
    one = np.stack([np.arange(USERS), np.zeros(USERS, dtype=np.int64)])
    path = shop(
        tmp_path,
        num_nodes=np.array([USERS, 1, 5]),
        x__item=None,
        edge_index__user__likes__item=one,
        edge_split__user__likes__item=None,
        edge_index__item__has__tag=np.array([[0], [0]]),
    )
    with pytest.raises(GraphError, match=r"at least 2 nodes at either end.* got 1 of item"):
        Graph.load(f"target:{LIKES}:{path}")


def test_models_of_links_and_of_nodes_are_told_apart(tmp_path: Path) -> None:
    spec = f"target:{LIKES}:{shop(tmp_path)}"
    run(spec, tmp_path / "run", epochs=1)
    with pytest.raises(UsageError, match="predict_links"):
        a3gnn.predict(tmp_path / "run", spec, notify=lambda line: None)
    other = shop(tmp_path, num_nodes=np.array([USERS + 1, ITEMS, 5]))
    with pytest.raises(GraphError, match="num_nodes of the model's training"):
        predict_links(tmp_path / "run", other, notify=lambda line: None)


def test_validation_takes_whole_queries_and_the_same_ones_each_time(tmp_path: Path) -> None:
    graph = Graph.load(f"target:{LIKES}:{shop(tmp_path)}")
    links = graph.links
    assert links is not None
    some = links.of_whole_queries(graph.val_ids, 30, seed=1)
    assert 20 <= len(some) <= 30
    chosen = set(links.pairs[0, some].tolist())
    assert sorted(some) == [number for number in graph.val_ids if int(links.pairs[0, number]) in chosen]
    assert np.array_equal(some, links.of_whole_queries(graph.val_ids, 30, seed=1))
    assert np.array_equal(links.of_whole_queries(graph.val_ids, 60, seed=1), graph.val_ids)


def test_links_are_not_recommended_without_measurements(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a3gnn tune takes it"):
        a3gnn.recommend(f"target:{LIKES}:{shop(tmp_path)}", notify=lambda line: None)


def test_the_command_line_trains_ranks_and_predicts_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = shop(tmp_path), tmp_path / "best.npy"
    monkeypatch.chdir(tmp_path)
    words = ["--target", LIKES, "--model", "embedding", "--decoder", "mlp", "--negatives", "softmax:8", "--hidden", 8]
    trained = command("train", "--dataset", path, *words, "--epochs", 1, "--out", "run")
    assert trained.returncode == 0, trained.stderr
    assert "test recall@20" in trained.stdout
    assert re.search(r"popularity +\S+ +on test, without a model", trained.stdout)
    written = command("predict", "run", "--dataset", path, "--out", out, "--top", 3)
    assert written.returncode == 0, written.stderr
    table = np.load(out)
    assert table["target"].shape == table["score"].shape == (USERS, 3)
    best = next(predict_links(tmp_path / "run", path, top=3, notify=lambda line: None))
    np.testing.assert_array_equal(table["target"], best.targets)
    np.testing.assert_array_equal(table["source"], np.arange(USERS))
    assert not table["relation"].any()


def test_a_graph_of_links_is_not_made_into_one_of_nodes(tmp_path: Path) -> None:
    graph = Graph.load(f"target:{LIKES}:{shop(tmp_path)}")
    with pytest.raises(UsageError, match="split when they are loaded"):
        graph.resplit("0.6,0.2,0.2")
    with pytest.raises(UsageError, match="links to predict"):
        graph.to_pyg()
    with pytest.raises(ConfigError, match="predicts links alone"):
        run(
            f"target:user:{shop(tmp_path, y__user=np.arange(USERS) % 2)}", tmp_path / "run", task={"model": "embedding"}
        )

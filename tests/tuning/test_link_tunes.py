"""Tunes of links: whole ones, what their space leaves out, what is predicted of their mini-batches, and heuristics."""

from __future__ import annotations

import dataclasses
import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import a3gnn
from a3gnn import Task, TrainConfig, predict_links
from a3gnn.errors import A3GNNError, ConfigError, GraphError, UsageError
from a3gnn.evaluation.choose_metric import with_metric
from a3gnn.evaluation.heuristics import item_neighbors
from a3gnn.evaluation.references import references
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.training.describe import described
from a3gnn.training.trainer import Trainer
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning import recommend
from a3gnn.tuning.study.folder import Journal
from a3gnn.tuning.tell.summary import summary, summary_lines
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.physics.volume import batch_volume
from tests.commands import a3gnn as command
from tests.commands import process
from tests.shipped import shipped
from tests.training.test_edge_tasks import RATES, ratings
from tests.training.test_links import ITEMS, LIKES, SPLIT, USERS, karate, shop

ROOM = 1 << 28


def graph_of(path: Path, target: str = LIKES) -> Graph:
    return Graph.load(f"target:{target}:{path}")


def setting_of(graph: Graph, hardware: Hardware, **fields: Any) -> Setting:
    task = with_metric(Task(**({"model": "rsage", "hidden_channels": 8} | fields)), "auto", graph, lambda line: None)
    return Setting(described(task, graph), graph.characteristics(), hardware)


@pytest.mark.slow
def test_links_are_tuned_trained_and_predicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = shop(tmp_path), tmp_path / "tune"
    words = ("--hidden", "8", "--fanouts", "4,3", "--budget", "1", "--engine", "random", "--memory-limit", "4GiB")
    done = process("tune", "--dataset", path, "--target", LIKES, *words, "--out", folder)
    assert done.returncode == 0, done.stderr
    for text in ("320 train links", "recall@20 is computed from the whole graph", "without a network, validation"):
        assert text in " ".join(done.stderr.split())
    assert "share learning curves" not in done.stderr
    tuned, graph = TunedConfig.read(folder), graph_of(path)
    assert (tuned.setting.task.metric, tuned.setting.graph.target) == ("recall@20", "links")
    validation, test = (references(part, graph, tuned.setting.task, ROOM) for part in ("validation", "test"))
    assert tuned.heuristics == {name: {"validation": validation[name], "test": test[name]} for name in validation}
    assert set(validation) == {"popularity", "item neighbors"}
    assert "popularity alone" in done.stdout
    tried = {trial.measurement.config for trial in Journal(folder).read()}
    assert len(tried) > 1
    assert all((one.num_partitions, one.input_aggregation) == (1, "sampled") for one in tried)
    done = command("train", folder, "--epochs", 2, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    done = command("predict", tmp_path / "run", "--dataset", path, "--top", 3, "--out", tmp_path / "best.npy")
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "best.npy")["target"].shape == (USERS, 3)
    asked = ("--dataset", path, "--target", LIKES, *words[:4])
    monkeypatch.setattr(recommend, "shipped_measurements", lambda typed: shipped(150))  # as in quick processes
    done = command("recommend", *asked, "--store", folder / "profiles.sqlite")
    assert done.returncode == 0, done.stderr
    assert "measurements of" in done.stdout
    done = command("report", folder, "--out", tmp_path / "report.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text()
    assert "recall@20" in page
    assert "popularity alone" in page


@pytest.mark.weekly  # profiles run the trials of tunes; tests/cli/test_profile.py has the command
def test_links_are_profiled(tmp_path: Path) -> None:
    asked = ("--dataset", shop(tmp_path), "--target", LIKES, "--hidden", "8", "--fanouts", "4,3")
    store = tmp_path / "profiles.db"
    done = process("profile", *asked, "--configs", 0, "--train-seconds", 1, "--store", store)
    assert done.returncode == 0, done.stderr
    assert "Measured now    1" in done.stdout


@pytest.mark.weekly
def test_a_knowledge_graph_is_tuned_by_an_embedding(tmp_path: Path) -> None:
    words = (
        "--model",
        "embedding",
        "--decoder",
        "rotate",
        "--negatives",
        "softmax:8",
        "--hidden",
        "8",
        "--budget",
        "1",
    )
    done = process(
        "tune", "--dataset", karate(tmp_path), "--target", "member,*,member", *words, "--out", tmp_path / "tune"
    )
    assert done.returncode == 0, done.stderr
    tuned = TunedConfig.read(tmp_path / "tune")
    assert (tuned.setting.task.metric, tuned.setting.graph.ends) == ("mrr", (34,))
    assert "fanout" not in done.stderr
    assert "rotate, softmax:8" in " ".join(done.stderr.split())


def test_the_space_leaves_out_what_makes_no_difference(tmp_path: Path, hardware: Hardware) -> None:
    graph = graph_of(shop(tmp_path))
    for model, samples in (("rsage", True), ("embedding", False)):
        space = SearchSpace.of(setting_of(graph, hardware, model=model))
        for name in ("seed_fanout", "deep_fanout", "bias_rate"):
            assert (len(space.knob(name).values) > 1) == samples, name
        for name in ("num_partitions", "seed_order", "input_aggregation", "trainers", "sampling_device"):
            assert len(space.knob(name).values) == 1, name
        assert space.knob("batch_size").values == (64, 128, 256, 1024)
        assert len(space.knob("learning_rate_scale").values) > 1
    bare = SearchSpace.of(setting_of(graph_of(karate(tmp_path), "member,*,member"), hardware, model="embedding"))
    assert bare.knob("feature_tier").values == ("ram",)
    assert bare.knob("cache_bytes").values == (0,)


@pytest.mark.parametrize("negatives", ["binary:1", "binary:3", "softmax:20", "softmax"])
@pytest.mark.parametrize("own_type", [False, True])
def test_predicted_mini_batches_have_the_ends_of_links_and_of_negatives(
    negatives: str, own_type: bool, tmp_path: Path, hardware: Hardware
) -> None:
    path = karate(tmp_path) if own_type else shop(tmp_path)
    graph = graph_of(path, "member,knows,member" if own_type else LIKES)
    setting = setting_of(graph, hardware, model="embedding", negatives=negatives)
    config = TrainConfig(batch_size=16)
    with Trainer(graph, config, setting.task) as trainer:
        steps = list(islice(trainer.steps(0), len(graph.train_ids) // 16))
    found = batch_volume(as_columns([config]), setting.task, setting.graph)
    measured = np.mean([step.input_nodes for step in steps])
    assert measured / 1.25 < found.input_nodes[0] < measured * 1.25
    assert found.batches[0] == len(graph.train_ids) / 16
    assert found.sampled_edges[0] == 0


def test_links_learn_alike_twice(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    edges, parts = rng.integers([[50], [4000]], size=(2, 30_000)), rng.permutation(np.repeat([0, 1, 2], 10_000))
    path = shop(
        tmp_path,
        num_nodes=np.array([50, 4000, 5]),
        x__item=np.ones((4000, 3), dtype=np.float32),
        edge_index__item__has__tag=np.zeros((2, 1), dtype=np.int64),
        edge_index__user__likes__item=np.unique(edges, axis=1),
        **{SPLIT: parts[: np.unique(edges, axis=1).shape[1]]},
    )
    graph = graph_of(path)
    task = described(
        with_metric(
            Task(model="embedding", hidden_channels=64, decoder="distmult", negatives="binary:4"),
            "auto",
            graph,
            lambda line: None,
        ),
        graph,
    )
    states = []
    with Trainer(graph, TrainConfig(batch_size=4096), task) as trainer:
        for _ in range(2):
            trainer.restart()
            list(islice(trainer.steps(0), 2))
            states.append({name: one.clone() for name, one in trainer.model.state_dict().items()})
    assert all(torch.equal(one, states[1][name]) for name, one in states[0].items())


def test_a_heuristic_predicts_without_a_network(tmp_path: Path) -> None:
    path, out = shop(tmp_path), tmp_path / "best.npy"
    done = command(
        "predict", "--heuristic", "item-neighbors", "--target", LIKES, "--dataset", path, "--top", 4, "--out", out
    )
    assert done.returncode == 0, done.stderr
    table, links = np.load(out), graph_of(path).links
    assert links is not None
    pairs = links.queries(np.arange(480), True)
    scores = item_neighbors(pairs, USERS, ITEMS)(torch.arange(USERS), torch.arange(ITEMS)).float()
    scores[pairs[0], pairs[1]] = float("-inf")
    best = scores.topk(4, dim=1)
    np.testing.assert_array_equal(table["score"], best.values)
    np.testing.assert_array_equal(np.take_along_axis(scores.numpy(), table["target"], 1), best.values)
    (some,) = predict_links(None, f"target:{LIKES}:{path}", heuristic="popularity", top=2, sources=[3])
    assert some.targets.shape == (1, 2)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--heuristic", "popularity"), "--target must be SOURCE,RELATION,TARGET"),
        ((), "predictions need a model or --heuristic, got neither"),
        (("run", "--heuristic", "popularity"), "predictions need a model or --heuristic, got both"),
    ],
)
def test_a_heuristic_that_can_not_be_used_is_refused(words: tuple[str, ...], text: str, tmp_path: Path) -> None:
    done = command("predict", *words, "--dataset", shop(tmp_path), "--out", tmp_path / "best.npy")
    assert (done.returncode, text in " ".join(done.stderr.split())) == (2, True), done.stderr
    with pytest.raises(UsageError, match="did you mean 'popularity'"):
        predict_links(None, f"target:{LIKES}:{shop(tmp_path)}", heuristic="popularit")


def test_bad_links_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    path = shop(tmp_path)
    quiet: dict[str, Any] = {"notify": lambda line: None, "out": tmp_path / "tune", "budget": 1}
    with pytest.raises(ConfigError, match=r"one of mrr.*got accuracy"):
        a3gnn.tune(f"target:{LIKES}:{path}", metric="accuracy", **quiet)
    with np.load(path) as known:
        pairs, parts = known["edge_index__user__likes__item"], known[SPLIT]
    leak = np.concatenate([pairs, pairs[:, :1]], axis=1), np.append(parts, (parts[0] + 1) % 3)
    leaking = shop(tmp_path, edge_index__user__likes__item=leak[0], **{SPLIT: leak[1]})
    with pytest.raises(A3GNNError, match=r"must hide the pairs of val and test.*such as \(0, 4\)"):
        a3gnn.tune(f"target:{LIKES}:{leaking}", **quiet)
    alone = shop(
        tmp_path,
        num_nodes=np.array([USERS, 1, 5]),
        x__item=None,
        edge_index__user__likes__item=np.zeros((2, 1), dtype=np.int64),
        edge_index__item__has__tag=np.zeros((2, 1), dtype=np.int64),
        **{SPLIT: None},
    )
    with pytest.raises(GraphError, match="at least 2 nodes at either end"):
        a3gnn.tune(f"target:{LIKES}:{alone}", **quiet)
    assert not (tmp_path / "tune").exists()


def test_the_summary_names_a_heuristic_that_is_at_least_as_good(tmp_path: Path, quick_tune: Any) -> None:
    path = shop(tmp_path)
    found = quick_tune(
        graph_of(path), task=Task(model="rsage", hidden_channels=8, fanouts=(3, 3)), fix={}, metric="auto"
    )
    tuned = found.tuned
    assert tuned.heuristics is not None
    end = tuned.final or {}
    own = max([*(one["test_accuracy"] or 0 for one in end.values()), tuned.measured.test_accuracy or 0, 0.9])
    for gain, is_better in ((-1.0, False), (0.05, True)):
        given = {"popularity": {"validation": own + gain, "test": own + gain}}
        lines = list(summary_lines(summary(dataclasses.replace(tuned, heuristics=given), found.front), everything=True))
        text = " ".join(" ".join(lines).split())
        assert ("popularity alone, without a network" in text) == is_better
        assert ("a3gnn predict --heuristic" in text.replace("heuristic='popularity'", "--heuristic")) == is_better
        assert all(len(line) <= 80 for line in lines)
    assert "heuristics" in json.loads((found.folder / "tuned.json").read_text())


@pytest.mark.weekly
def test_values_of_edges_are_tuned_trained_and_predicted(tmp_path: Path) -> None:
    path, folder = ratings(tmp_path), tmp_path / "tune"
    words = ("--hidden", "8", "--fanouts", "4,3", "--budget", "1", "--engine", "random", "--metric", "rmse")
    done = process("tune", "--dataset", path, "--target", f"{RATES}=edge_weight", *words, "--out", folder)
    assert done.returncode == 0, done.stderr
    assert "without a network, validation RMSE: mean" in " ".join(done.stderr.split())
    tuned = TunedConfig.read(folder)
    assert (tuned.setting.task.metric, tuned.setting.graph.target) == ("rmse", "values")
    assert set(tuned.heuristics or {}) == {"mean", "node offsets"}
    done = command("train", folder, "--epochs", 2, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    np.save(tmp_path / "pairs.npy", np.array([[0, 1, 2], [3, 4, 5]]))
    done = command(
        "predict", tmp_path / "run", "--dataset", path, "--edges", tmp_path / "pairs.npy", "--out", tmp_path / "of.npy"
    )
    assert done.returncode == 0, done.stderr
    assert np.isfinite(np.load(tmp_path / "of.npy")["value"]).all()

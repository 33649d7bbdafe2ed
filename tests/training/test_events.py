"""Links with times: training, evaluation and prediction see earlier edges alone, as plain filters by time do."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from a3gnn import Task, TrainConfig, predict_links, recommend, train, tune
from a3gnn.errors import ConfigError, GraphError, UsageError
from a3gnn.evaluation import event_evaluator
from a3gnn.evaluation.choose_metric import notify_edges, with_metric
from a3gnn.evaluation.event_evaluator import validated_events
from a3gnn.evaluation.event_quality import EVENTS, event_quality
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.links import Links
from a3gnn.graphs.schema import Relation
from a3gnn.models.links import LinkModel
from a3gnn.models.own.ages import edge_ages
from a3gnn.sampling.link_history import LinkHistory
from a3gnn.task import usual_fanouts
from a3gnn.training.describe import described
from a3gnn.training.saved_model import SavedModel
from a3gnn.training.trainer import Trainer
from tests.commands import a3gnn as command
from tests.sampling.test_link_history import plain_node, plain_pair

LAST = 3
#: The ends of the events, and how many nodes both types have.
KINDS = {"user,writes,user": (30, 30), "user,buys,item": (25, 12)}


def events(folder: Path, target: str, number: int = 900, **changes: Any) -> tuple[str, NDArray[Any]]:
    """Writes random events with repeats and ties, not in the order of time; returns the spec, and ends and times."""
    source, name, end = target.split(",")
    rng, (sources, targets) = np.random.default_rng(7), KINDS[target]
    rows = np.stack([rng.integers(sources, size=number) // 2, rng.integers(targets, size=number) // 3])
    rows = np.concatenate([rows, rng.integers(number // 4, size=(1, number)) * 10])
    called = "__".join((source, name, end))
    arrays = {
        "node_types": np.array([*dict.fromkeys((source, end))]),
        "num_nodes": np.array([*dict.fromkeys((sources, targets))]),
        "edge_types": np.array([called]),
        f"edge_index__{called}": rows[:2],
        f"edge_time__{called}": rows[2],
    }
    path = folder / "events.npz"
    np.savez(path, **{key: array for key, array in (arrays | changes).items() if array is not None})
    return f"target:{target}:{path}", rows


def task_on(graph: Graph, **fields: Any) -> Task:
    given = {"model": "rsage", "hidden_channels": 8, "fanouts": (LAST,), "learning_rate": 0.02, "metric": "mrr"}
    return described(Task(**(given | fields)), graph)


def last_before(rows: NDArray[Any], node: int, time: float, *, of_targets: bool) -> list[tuple[int, int]]:
    """Returns the other end and the age of the last `LAST` events of a node before a time, the latest last."""
    own = rows[1] if of_targets else rows[0]
    places = np.flatnonzero((own == node) & (rows[2] < time))
    places = places[np.argsort(rows[2][places], kind="stable")][-LAST:]
    others = rows[0] if of_targets else rows[1]
    return [(int(others[place]), int(time - rows[2][place])) for place in places]


@pytest.mark.parametrize("target", KINDS)
def test_each_link_of_training_sees_the_last_edges_before_its_own_time_and_no_others(
    tmp_path: Path, target: str
) -> None:
    spec, rows = events(tmp_path, target)
    graph = Graph.load(spec)
    assert graph.types is not None
    assert graph.links is not None
    assert graph.types.times is not None
    schema, times, seen_links = graph.types.schema, graph.types.times, []
    with Trainer(graph, TrainConfig(batch_size=64), task_on(graph)) as trainer:
        for batch in trainer._pipeline.epoch(0):
            assert batch.typed is not None
            assert batch.examples is not None
            assert batch.examples.ranks is not None
            view, moments = batch.typed.view, times.distinct[batch.examples.ranks]
            ages, ids = edge_ages(view, schema, times, moments), batch.examples.ids
            seen_links.append(ids)
            for side, places in enumerate((batch.examples.heads, batch.examples.tails)):
                kind = schema.types.index(graph.links.ends[side])
                assert view.tree is not None
                np.testing.assert_array_equal(view.n_id[kind][places], graph.links.pairs[side, ids])
                np.testing.assert_array_equal(
                    moments[view.tree[kind][places]],
                    times.distinct[graph.links.ranks[ids]],  # type: ignore[index]
                )
            for number, relation in enumerate(schema.relations):
                kind, other = (schema.types.index(one) for one in (relation.target, relation.source))
                edges, of_targets = view.edge_index[number], not relation.name.startswith("rev_")
                assert view.tree is not None
                for place in range(int(view.num_sampled_nodes[kind, 0])):
                    node, time = int(view.n_id[kind][place]), moments[view.tree[kind][place]]
                    own = edges[1] == place
                    pairs = zip(view.n_id[other][edges[0][own]], ages[tuple(relation)][own].tolist(), strict=True)  # type: ignore[index]
                    found = sorted((int(source), int(age)) for source, age in pairs)
                    assert found == sorted(last_before(rows, node, time, of_targets=of_targets))
                    assert all(age > 0 for _, age in found)
    ordered = np.concatenate(seen_links)
    np.testing.assert_array_equal(ordered, graph.train_ids)  # in the order of time
    order = np.argsort(rows[2], kind="stable")
    np.testing.assert_array_equal(graph.links.pairs, rows[:2, order])


def plain_row(module: LinkModel, rows: NDArray[Any], target: str, side: int, node: int, time: float) -> torch.Tensor:
    """Returns the decoder's row of a node at a time, from a graph of its last events and from its earlier links."""
    source, name, end = target.split(",")
    kinds = [*dict.fromkeys((source, end))]
    forward, reverse, own = (source, name, end), (end, f"rev_{name}", source), (source, end)[side]
    x = {kind: [node] if kind == own else [] for kind in kinds}
    lists, ages = {}, {}
    for relation, of_targets in ((forward, True), (reverse, False)):
        found = last_before(rows, node, time, of_targets=of_targets) if relation[2] == own else []
        places = []
        for other, _ in found:
            x[relation[0]].append(other)
            places.append(len(x[relation[0]]) - 1)
        lists[relation] = torch.tensor([places, [0] * len(places)], dtype=torch.int64)
        ages[relation] = torch.tensor([float(age) for _, age in found])
    inputs = {kind: torch.tensor(ids, dtype=torch.int64) for kind, ids in x.items()}
    encoded = module.encoder(inputs, lists, ages)[own][:1]
    ordered = rows[:2, np.argsort(rows[2], kind="stable")]
    past = torch.tensor([plain_node(ordered, node, int((rows[2] < time).sum()), side, source == end)])
    return module.rows(encoded, torch.tensor([node]), are_tails=bool(side), past=past)[0]


@pytest.mark.parametrize(("target", "decoder"), [("user,writes,user", "mlp"), ("user,buys,item", "dot")])
def test_ranks_are_those_of_each_query_alone_at_the_time_of_its_batch(
    tmp_path: Path, target: str, decoder: str
) -> None:
    spec, rows = events(tmp_path, target)
    graph = Graph.load(spec, split="0.5,0.2,0.3")
    links = graph.links
    assert links is not None
    assert len(graph.test_ids) > EVENTS
    task, mutual = task_on(graph, decoder=decoder, pair_history=5), len({*links.ends}) == 1
    with Trainer(graph, TrainConfig(batch_size=64), task) as trainer:
        for _ in trainer.steps(0):
            pass
        found, module = trainer.test(), trainer.model
    assert isinstance(module, LinkModel)
    assert module.past is not None
    module.eval()

    @cache
    def values(head: int, tail: int, now: int) -> list[float]:
        return plain_pair(links.pairs, head, tail, now, 5, mutual)

    times, reciprocal = np.sort(rows[2]), []
    with torch.no_grad():
        for first in range(0, len(graph.test_ids), EVENTS):
            batch = graph.test_ids[first : first + EVENTS]
            seen = times[batch[0]]
            table = [
                torch.stack([plain_row(module, rows, target, side, node, seen) for node in range(count)])
                for side, count in enumerate(links.num_nodes)
            ]
            for one in batch:
                for are_heads in links.directions:
                    own, other = links.pairs[:, one] if are_heads else links.pairs[::-1, one]
                    at_once = [i for i in graph.test_ids if times[i] == times[one] and i in batch]
                    pairs = links.pairs[:, at_once] if are_heads else links.pairs[::-1, at_once]
                    true = {int(b) for a, b in pairs.T if a == own}
                    sides = table if are_heads else table[::-1]
                    query = sides[0][own : own + 1]
                    scores = module.decoder.block(query, sides[1], torch.zeros(1).long(), are_heads=are_heads)[
                        0
                    ].numpy()
                    now = int((times < seen).sum())
                    pairs_of = [(own, i) if are_heads else (i, own) for i in range(len(scores))]
                    scores += module.past.scores(torch.tensor([values(*one, now) for one in pairs_of])).numpy()
                    rivals = [scores[i] for i in range(len(scores)) if i == other or i not in true]
                    better = sum(r > scores[other] + 1e-5 for r in rivals)
                    equal = sum(abs(r - scores[other]) <= 1e-5 for r in rivals) - 1
                    reciprocal.append(1 / (1 + better + equal / 2))
    assert found == pytest.approx(np.mean(reciprocal), abs=2e-3)


def test_history_is_added_some_pairs_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, most = Graph.load(events(tmp_path, "user,writes,user")[0]), []
    of_pairs = LinkHistory.of_pairs

    def counted(self: LinkHistory, heads: NDArray[Any], *others: NDArray[Any]) -> NDArray[np.float32]:
        most.append(len(heads))
        return of_pairs(self, heads, *others)

    with Trainer(graph, TrainConfig(batch_size=64), task_on(graph, pair_history=5)) as trainer:
        whole = trainer.test()
        monkeypatch.setattr(event_evaluator, "_MOST_PAIRS", 7)
        monkeypatch.setattr(LinkHistory, "of_pairs", counted)
        assert trainer.test() == pytest.approx(whole, abs=1e-6)
    assert max(most) == 7


@pytest.mark.parametrize("target", KINDS)
def test_pairs_of_training_have_the_history_before_their_own_time_and_rivals_that_are_not_true_then(
    tmp_path: Path, target: str
) -> None:
    graph = Graph.load(events(tmp_path, target)[0])
    links, mutual, repeated = graph.links, len({*target.split(",")[::2]}) == 1, 0
    assert links is not None
    assert links.ranks is not None
    of_train = {*zip(*links.pairs[:, graph.train_ids].tolist(), strict=True)}
    with Trainer(graph, TrainConfig(batch_size=64), task_on(graph, negatives="binary:2", pair_history=4)) as trainer:
        for batch in trainer._pipeline.epoch(0):
            assert batch.examples is not None
            assert batch.examples.history is not None
            assert batch.typed is not None
            ids, n_id = batch.examples.ids, batch.typed.view.n_id
            places = [trainer.graph.types.schema.types.index(kind) for kind in links.ends]  # type: ignore[union-attr]
            for rivals in batch.examples.rivals:
                assert rivals.history is not None
                end = int(rivals.are_heads)
                nodes = n_id[places[end]][rivals.nodes.numpy()]
                for i, one in enumerate(ids):
                    now = int((links.ranks < links.ranks[one]).sum())
                    at_once = links.pairs[:, links.ranks == links.ranks[one]]
                    own = int(links.pairs[1 - end, one])
                    true = {*at_once[end, at_once[1 - end] == own].tolist()}
                    assert not true & {*nodes[i].tolist()}
                    for j, node in enumerate(nodes[i].tolist()):
                        pair = (own, node) if end else (node, own)
                        repeated += pair in of_train
                        expected = plain_pair(links.pairs, *pair, now, 4, mutual)
                        np.testing.assert_allclose(rivals.history[2 * i + j], expected, rtol=1e-5)
            known = [int((links.ranks < links.ranks[one]).sum()) for one in ids]
            expected = [
                plain_pair(links.pairs, *pair, now, 4, mutual)
                for pair, now in zip(links.pairs[:, ids].T.tolist(), known, strict=True)
            ]
            np.testing.assert_allclose(batch.examples.history, expected, rtol=1e-5)
            if batch.index == 2:
                break
    assert repeated  # a link of another time is a rival


def test_a_split_in_the_order_of_time_keeps_each_time_in_one_part(tmp_path: Path) -> None:
    spec, rows = events(tmp_path, "user,buys,item")
    graph = Graph.load(spec, split="0.6,0.2,0.2")
    times = np.sort(rows[2])
    parts = [times[ids] for ids in (graph.train_ids, graph.val_ids, graph.test_ids)]
    assert parts[0].max() < parts[1].min() <= parts[1].max() < parts[2].min()
    assert len(graph.train_ids) == pytest.approx(0.6 * len(times), abs=10)
    assert any("in the order of time" in note for note in graph.notes)
    again = graph.on_disk(tmp_path / "cache")
    assert again.edges.times is not None
    np.testing.assert_array_equal(again.edges.times.ranks, graph.edges.times.ranks)  # type: ignore[union-attr]
    assert again.fingerprint == graph.fingerprint


def test_a_given_split_is_kept_if_it_is_in_the_order_of_time_and_named_if_not(tmp_path: Path) -> None:
    target, key = "user,buys,item", "edge_split__user__buys__item"
    _, rows = events(tmp_path, target)
    part = np.searchsorted([1000, 1500], rows[2], side="right").astype(np.int8)
    spec, _ = events(tmp_path, target, **{key: part})
    graph = Graph.load(spec)
    assert [len(graph.train_ids), len(graph.val_ids), len(graph.test_ids)] == np.bincount(part).tolist()
    assert graph.edges.times is not None
    late = int(np.argmax(rows[2] * (part == 1)))
    part[late] = 0
    spec, _ = events(tmp_path, target, **{key: part})
    graph = Graph.load(spec)
    assert graph.edges.times is None
    note = next(note for note in graph.notes if note.startswith("times of links are not used"))
    assert "val links are not later than all links of earlier parts, such as (" in note


def test_a_mirror_without_times_is_refused(tmp_path: Path) -> None:
    target = "user,buys,item"
    _, rows = events(tmp_path, target)
    names = np.array(["user__buys__item", "item__sold_to__user"])
    spec, _ = events(tmp_path, target, edge_types=names, edge_index__item__sold_to__user=rows[1::-1])
    with pytest.raises(GraphError, match="item,sold_to,user must have times"):
        Graph.load(spec)
    spec, _ = events(
        tmp_path,
        target,
        edge_types=names,
        edge_index__item__sold_to__user=rows[1::-1],
        edge_time__item__sold_to__user=rows[2],
    )
    assert Graph.load(spec).edges.times is not None


def test_events_of_pyg_are_links_with_times(tmp_path: Path) -> None:
    from torch_geometric.data import TemporalData

    _, rows = events(tmp_path, "user,writes,user")
    order = np.argsort(rows[2], kind="stable")
    src, dst, t = (torch.from_numpy(one) for one in rows[:, order])
    torch.save(TemporalData(src=src, dst=dst, t=t, msg=torch.rand(len(src), 2)), tmp_path / "events.pt")
    graph = Graph.load(f"target:node,to,node:{tmp_path / 'events.pt'}")
    assert graph.links is not None
    assert graph.edges.times is not None
    np.testing.assert_array_equal(graph.links.pairs, rows[:2, order])


def test_the_command_trains_and_predicts_and_names_better_heuristics(tmp_path: Path) -> None:
    _, rows = events(tmp_path, "user,buys,item")
    file, out = str(tmp_path / "events.npz"), str(tmp_path / "run")
    fast = ("--hidden", "8", "--fanouts", "3", "--epochs", "2")
    text = command("train", "--dataset", file, "--target", "user,buys,item", *fast, "--out", out).stderr
    assert "links were split 70/15/15 in the order of time" in text
    assert SavedModel.read(out).task.model == "rsage"  # the default for a target
    result = command("predict", out, "--dataset", file, "--top", "4", "--out", str(tmp_path / "now.npy"))
    assert result.returncode == 0
    table = np.load(tmp_path / "now.npy")
    assert table["target"].shape == (25, 4)
    assert (table["target"] >= 0).all()  # links repeat, so none is left out
    early = ("--at", str(int(rows[2].min())), "--out", str(tmp_path / "early.npy"))
    assert command("predict", out, "--dataset", file, "--top", "4", *early).returncode == 0
    assert not np.array_equal(np.load(tmp_path / "early.npy")["score"], table["score"])


def test_predictions_for_a_time_see_earlier_edges_alone(tmp_path: Path) -> None:
    target = "user,writes,user"
    spec, rows = events(tmp_path, target)
    at = int(np.sort(rows[2])[500])
    task = Task(model="rsage", hidden_channels=8, fanouts=(LAST,))
    options: dict[str, Any] = {"metric": "mrr", "epochs": 1, "patience": None, "notify": lambda line: None}
    train(TrainConfig(batch_size=64), spec, task=task, out=tmp_path / "run", **options)
    found = next(predict_links(tmp_path / "run", spec.rpartition(":")[2], top=5, at=at, notify=lambda line: None))
    later = rows.copy()
    later[:2, rows[2] >= at] = 0  # what happens from then on
    (tmp_path / "other").mkdir()
    _, name, _ = target.split(",")
    key = f"edge_index__user__{name}__user"
    other, _ = events(tmp_path / "other", target, **{key: later[:2]})
    again = next(predict_links(tmp_path / "run", other.rpartition(":")[2], top=5, at=at, notify=lambda line: None))
    np.testing.assert_array_equal(found.targets, again.targets)
    torch.testing.assert_close(found.scores, again.scores)
    now = next(predict_links(tmp_path / "run", other.rpartition(":")[2], top=5, notify=lambda line: None))
    assert not torch.equal(now.scores, found.scores)


def test_softmax_and_a_time_without_times_are_refused(tmp_path: Path) -> None:
    spec, _ = events(tmp_path, "user,buys,item")
    options: dict[str, Any] = {"metric": "mrr", "epochs": 1, "out": tmp_path / "run", "notify": lambda line: None}
    with pytest.raises(ConfigError, match="negatives must be binary"):
        train(TrainConfig(), spec, task=Task(model="rsage", negatives="softmax"), **options)
    plain, _ = events(tmp_path, "user,buys,item", edge_time__user__buys__item=None)
    train(TrainConfig(), plain, task=Task(model="rsage", hidden_channels=4), patience=None, **options)
    with pytest.raises(UsageError, match="at must be a finite time"):
        next(predict_links(tmp_path / "run", plain.rpartition(":")[2], at=3, notify=lambda line: None))


def test_validation_uses_whole_batches() -> None:
    ids = np.arange(50, 50 + 120 * EVENTS + 7, dtype=np.int32)
    chosen = validated_events(ids)
    batches = (
        chosen.reshape(-1, EVENTS)
        if len(chosen) % EVENTS == 0
        else chosen[: -(len(chosen) % EVENTS)].reshape(-1, EVENTS)
    )
    assert len(chosen) <= 10_000
    assert ((batches[:, 0] - 50) % EVENTS == 0).all()
    assert (np.diff(batches, axis=1) == 1).all()
    np.testing.assert_array_equal(validated_events(ids[:900]), ids[:900])


class Reading(torch.nn.Module):
    """An encoder whose edges have their own time as edge_weight: with the age, it is the time of the link."""

    def __init__(self, types: Any, out_channels: int) -> None:
        super().__init__()
        self.rows = torch.nn.ModuleDict(
            {kind: torch.nn.Embedding(number, out_channels) for kind, number in types.num_nodes.items()}
        )

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_weight_dict: Any, edge_age_dict: Any = None) -> Any:
        for one, ages in (edge_age_dict or {}).items():
            assert bool((ages > 0).all())
            SEEN.update((edge_weight_dict[one] + ages).long().tolist())
        return {kind: self.rows[kind](ids) for kind, ids in x_dict.items()}


#: The times of links that `Reading` has found.
SEEN = set[int]()


def reading(types: Any, out_channels: int) -> Reading:
    return Reading(types, out_channels)


def test_edges_that_repeat_keep_their_own_values_beside_their_ages(tmp_path: Path) -> None:
    target = "user,buys,item"
    _, rows = events(tmp_path, target)
    spec, _ = events(tmp_path, target, edge_weight__user__buys__item=rows[2].astype(np.float32))
    graph = Graph.load(spec)
    assert graph.types is not None
    assert graph.types.times is not None
    assert graph.edge_weight is not None
    np.testing.assert_array_equal(graph.edge_weight, graph.types.times.distinct[graph.types.times.ranks])
    SEEN.clear()
    given = task_on(graph, model="tests.training.test_events:reading", hidden_channels=256)
    assert given.edge_values == ("edge_weight",)
    with Trainer(graph, TrainConfig(batch_size=64), given) as trainer:
        for _ in trainer.steps(0):
            pass
        seen = {*SEEN}
        trainer.test()
    assert seen <= {*rows[2].tolist()}
    assert len(seen) > 50
    assert len(SEEN) > len(seen)
    assert {*SEEN} <= {*rows[2].tolist()}


def test_values_of_edges_are_predicted_without_their_times(tmp_path: Path) -> None:
    target = "user,buys,item"
    _, rows = events(tmp_path, target)
    weights = {"edge_weight__user__buys__item": (rows[0] % 3).astype(np.float32)}
    spec, _ = events(tmp_path, target, **weights)
    graph = Graph.load(spec.replace(target, f"{target}=edge_weight"))
    assert graph.target == "values"
    assert graph.links is not None
    assert graph.links.ranks is None
    assert graph.edges.times is None
    assert any(note.startswith("times of edges are not used") for note in graph.notes)
    lines: list[str] = []
    notify_edges(Task(model="rsage"), graph, lines.append)
    assert not lines  # edge_weight is what is predicted


def test_files_of_a_version_without_history_of_pairs_open_and_continue_without(tmp_path: Path) -> None:
    spec, _ = events(tmp_path, "user,buys,item")
    task = Task(model="rsage", hidden_channels=8, fanouts=(LAST,), metric="mrr", pair_history=0)
    given: dict[str, Any] = {"out": tmp_path / "run", "progress": False, "notify": str}
    train(TrainConfig(batch_size=64), spec, task=task, epochs=1, **given)
    found = [one.scores for one in predict_links(tmp_path / "run", spec, top=3)]
    for name in ("model.pt", "checkpoint.pt"):
        state = torch.load(tmp_path / "run" / name, weights_only=True)
        fields = state["identity"] if name == "checkpoint.pt" else state._metadata["a3gnn"]["task"]
        assert fields.pop("pair_history") == 0
        torch.save(state, tmp_path / "run" / name)
    assert SavedModel.read(tmp_path / "run").task.pair_history == 0
    again = [one.scores for one in predict_links(tmp_path / "run", spec, top=3)]
    assert torch.equal(torch.cat(again), torch.cat(found))
    with pytest.raises(ConfigError, match="pair_history was 0 and is 100"):
        train(
            TrainConfig(batch_size=64),
            spec,
            task=dataclasses.replace(task, pair_history=100),
            epochs=2,
            resume=True,
            **given,
        )
    assert train(TrainConfig(batch_size=64), spec, task=task, epochs=2, resume=True, **given).epochs == 2


def test_given_fanouts_are_kept_and_default_ones_are_replaced_with_a_line(tmp_path: Path) -> None:
    spec, _ = events(tmp_path, "user,buys,item")
    graph, lines = Graph.load(spec), list[str]()
    default = with_metric(Task(model="rsage", own_links="hidden"), "mrr", graph, lines.append)
    assert (default.fanouts, default.own_links) == ((10,), "shown")
    assert "own_links='hidden' has no effect" in lines[0]
    assert "the default fanouts 25,10 are replaced by 10" in lines[1]
    assert "fanouts=(25, 10) keeps those" in lines[1]
    lines.clear()
    given = dataclasses.replace(Task(model="rsage"), fanouts=[25, 10])  # type: ignore[arg-type]
    assert with_metric(given, "mrr", graph, lines.append).fanouts == (25, 10)
    assert not lines


@pytest.mark.parametrize("words", [("--fanouts", "25,10"), ("--layers", "2")])
def test_the_command_keeps_given_fanouts(tmp_path: Path, words: tuple[str, ...]) -> None:
    spec, _ = events(tmp_path, "user,buys,item", number=200)
    out = str(tmp_path / "run")
    result = command(
        "train", "--dataset", spec, "--model", "rsage", "--hidden", "4", "--epochs", "1", "--out", out, *words
    )
    assert result.returncode == 0, result.stderr
    assert "are replaced" not in result.stderr
    assert SavedModel.read(tmp_path / "run").task.fanouts == (25, 10)


def test_heuristics_see_the_links_before_a_time_and_links_may_repeat(tmp_path: Path) -> None:
    spec, rows = events(tmp_path, "user,buys,item")
    at = int(np.sort(rows[2])[300])
    for moment, known in ((at, rows[1][rows[2] < at]), (None, rows[1])):
        found = next(predict_links(None, spec, heuristic="popularity", top=3, at=moment, notify=lambda line: None))
        most = np.sort(np.bincount(known, minlength=12))[::-1][:3]
        np.testing.assert_array_equal(found.scores, np.tile(most, (25, 1)))
    for name in ("popularity", "item-neighbors"):  # nothing is known yet
        found = next(predict_links(None, spec, heuristic=name, top=3, at=-1, notify=lambda line: None))
        assert not found.scores.any()


def test_sparse_features_and_dense_ones_train_alike(tmp_path: Path) -> None:
    from torch_geometric.data import HeteroData

    _, rows = events(tmp_path, "user,buys,item")
    x, found = (torch.rand(25, 6) > 0.7).float(), []
    for given in (x, x.to_sparse_csr()):
        data = HeteroData()
        data["user"].x, data["item"].num_nodes = given, 12
        data["user", "buys", "item"].edge_index = torch.from_numpy(rows[:2])
        data["user", "buys", "item"].time = torch.from_numpy(rows[2])
        data["item", "rev_buys", "user"].edge_index = torch.from_numpy(rows[1::-1].copy())
        data["item", "rev_buys", "user"].time = torch.from_numpy(rows[2])
        graph = Graph.from_pyg(data, target="user,buys,item")
        with Trainer(graph, TrainConfig(batch_size=64), task_on(graph)) as trainer:
            for _ in trainer.steps(0):
                pass
            found.append(trainer.test())
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_tuning_refuses_links_with_times(tmp_path: Path) -> None:
    spec, _ = events(tmp_path, "user,buys,item")
    for run in (tune, recommend):
        with pytest.raises(UsageError, match=f"links must have no times for {run.__name__}, got events"):
            run(spec, memory_limit="4GiB", notify=lambda line: None, out=tmp_path / "new")
    result = command("profile", "--dataset", spec, "--store", str(tmp_path / "store.sqlite"), "--configs", "1")
    assert "links must have no times for profile" in result.stderr


@pytest.mark.parametrize("count", [EVENTS, EVENTS + 1, 2 * EVENTS])
def test_links_of_one_time_are_no_competitors_over_the_border_of_a_batch(count: int) -> None:
    pairs = np.stack([np.zeros(count), np.arange(count)]).astype(np.int32)
    zeros = np.zeros(count, dtype=np.int32)
    links = Links((Relation("user", "sees", "page"),), (1, count), pairs, zeros, ranks=zeros)
    equal = lambda batch: lambda are_heads: lambda queries, some: torch.zeros(len(queries), len(some))  # noqa: E731
    assert event_quality("mrr", equal, links, np.arange(count, dtype=np.int32), seed=0) == 1.0


def test_layers_that_are_given_are_kept() -> None:
    assert not Task(fanouts=usual_fanouts(2)).has_default_fanouts
    assert Task().has_default_fanouts

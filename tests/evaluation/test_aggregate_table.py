from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
import torch

from a3gnn.errors import GraphError
from a3gnn.evaluation import aggregate_table as room
from a3gnn.evaluation import inference
from a3gnn.evaluation.inference import Inference, Scratch
from a3gnn.graphs.features import DenseFeatures
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.verify import verify
from a3gnn.models.model import build_model
from a3gnn.task import Task
from tests.training.loops import with_self_loops


@pytest.fixture
def graph(tiny_graph, tmp_path) -> Graph:
    """With isolated nodes, and a self loop on every fifth node."""
    made = with_self_loops(tiny_graph)
    degrees = np.diff(made.indptr)
    assert (degrees == 0).any()
    return made.on_disk(tmp_path / "cache")


def logits(graph: Graph, task: Task, ids: np.ndarray, folder, *, table: bool, **options) -> torch.Tensor:
    net = build_model(task, graph.num_features, graph.num_classes).eval()
    aggregator = net.aggregator if table else None
    made = Inference(graph, ids, task.num_layers, aggregator=aggregator, scratch=Scratch(folder), **options)
    return torch.cat([part for _, part in made.logits(net)])


@pytest.mark.parametrize("in_place", [True, False], ids=["in_place", "gathered"])
@pytest.mark.parametrize("fanouts", [(5,), (5, 5), (5, 5, 5)], ids=len)
@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_the_table_changes_no_answer(model, fanouts, in_place, graph, tmp_path):
    task = Task(model=model, hidden_channels=24, fanouts=fanouts)
    ids = np.union1d(graph.val_ids, graph.test_ids)[::3]
    for chunk_bytes in (4_000, 2**20):
        options = {"in_place": in_place, "chunk_bytes": chunk_bytes}
        with_table = logits(graph, task, ids, tmp_path, table=True, **options)
        without = logits(graph, task, ids, tmp_path, table=False, **options)
        torch.testing.assert_close(with_table, without, rtol=1e-4, atol=1e-4)
    (folder,) = (graph.folder / "derived").glob("table-*")
    assert folder.name == "table-" + {"sage": "mean", "gcn": "gcn", "gin": "sum"}[model]


@pytest.mark.parametrize("model", ["sage", "gin"])
def test_half_precision_features(model, graph, tmp_path):
    half = DenseFeatures(graph.features.array.astype(np.float16))
    made = dataclasses.replace(graph, features=half, known=None, folder=None).on_disk(tmp_path / "half")
    task = Task(model=model, hidden_channels=24, fanouts=(5, 5))
    answers = [logits(made, task, made.val_ids, tmp_path, table=table) for table in (True, False)]
    torch.testing.assert_close(*answers, rtol=1e-3, atol=1e-3)


def test_a_table_is_made_once(graph, tmp_path, monkeypatch):
    task = Task(hidden_channels=8, fanouts=(5, 5))
    logits(graph, task, graph.val_ids, tmp_path, table=True)
    monkeypatch.setattr(room, "write_table", None)
    logits(Graph.load(graph.folder), task, graph.test_ids, tmp_path, table=True)


@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_few_rows_of_a_large_table_are_stored_for_themselves(model, graph, tmp_path, monkeypatch):
    """With the same bits as the whole table, whether they are stored or computed as they are read."""
    task = Task(model=model, hidden_channels=24, fanouts=(5,))
    ids = graph.val_ids[::2]
    monkeypatch.setattr(inference, "_EVALUATIONS", 10**6)  # a table pays for few nodes, too
    expected = logits(graph, task, ids, tmp_path, table=True, chunk_bytes=4_000)
    monkeypatch.setattr(room, "_WHOLE_BYTES", 0)
    shutil.rmtree(graph.folder / "derived")
    options = {"table": True, "chunk_bytes": 4_000}
    assert torch.equal(logits(graph, task, ids, tmp_path, keeps=False, **options), expected)
    with monkeypatch.context() as patched:
        patched.setattr(room, "_has_room", lambda *_: False)
        assert torch.equal(logits(graph, task, ids, tmp_path, **options), expected)
    assert not (graph.folder / "derived").exists()
    assert torch.equal(logits(graph, task, ids, tmp_path, **options), expected)
    (folder,) = (graph.folder / "derived").glob("table-*")
    assert np.load(folder / "rows.npy").shape[0] == len(ids)
    monkeypatch.setattr(room, "_make", None)
    assert torch.equal(logits(graph, task, ids, tmp_path, **options), expected)
    assert all(not finding.problem for finding in verify(graph.folder))
    (folder / "rows.npy").write_bytes((folder / "rows.npy").read_bytes()[:-4])
    assert [finding.name for finding in verify(graph.folder) if finding.problem] == [f"derived/{folder.name}"]


def test_a_table_that_would_not_pay_is_not_made(graph, tmp_path, monkeypatch):
    task = Task(hidden_channels=8, fanouts=(5, 5))
    monkeypatch.setattr(inference, "_EVALUATIONS", 0)
    logits(graph, task, graph.val_ids, tmp_path, table=True)
    assert not (graph.folder / "derived").exists()


def test_a_folder_that_takes_no_files_is_evaluated_without_a_table(graph, tmp_path, monkeypatch):
    task = Task(hidden_channels=8, fanouts=(5, 5))
    expected = logits(graph, task, graph.val_ids, tmp_path, table=False)

    def refuse(*_):
        raise GraphError("can't be written") from PermissionError(13, "Permission denied")

    monkeypatch.setattr(room, "write_table", refuse)
    assert torch.equal(logits(graph, task, graph.val_ids, tmp_path, table=True), expected)
    in_ram = dataclasses.replace(graph, folder=None)
    assert torch.equal(logits(in_ram, task, graph.val_ids, tmp_path, table=True), expected)


def test_a_damaged_table_is_refused_and_found(graph, tmp_path):
    task = Task(hidden_channels=8, fanouts=(5, 5))
    logits(graph, task, graph.val_ids, tmp_path, table=True)
    assert all(not finding.problem for finding in verify(graph.folder))
    path = graph.folder / "derived" / "table-mean" / "rows.npy"
    content = bytearray(path.read_bytes())
    content[-3] ^= 64
    path.write_bytes(content)
    with pytest.raises(GraphError, match=r"table-mean is damaged: its rows must have the hash .* delete it"):
        logits(graph, task, graph.val_ids, tmp_path, table=True)
    problems = {finding.name: finding.problem for finding in verify(graph.folder) if finding.problem}
    assert list(problems) == ["derived/table-mean"]
    path.write_bytes(content[:-8])
    with pytest.raises(GraphError, match="truncated"):
        logits(graph, task, graph.val_ids, tmp_path, table=True)

"""Files beside a graph keep a bound, the longest unused ones go first, and what was removed is made again."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from a3gnn.errors import A3GNNError, GraphError, UsageError
from a3gnn.evaluation.inference import Inference, Scratch
from a3gnn.graphs import derived, derived_room
from a3gnn.graphs.derived import kept_order, noting_seconds, read_table, write_table
from a3gnn.graphs.derived_room import VARIABLE, make_room
from a3gnn.graphs.graph import Graph
from a3gnn.models.model import build_model
from a3gnn.task import Task


@pytest.fixture
def graph(tiny_graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.setattr(derived, "_LEAST_EDGES", 0)
    return tiny_graph.save(tmp_path / "graph")


def names(graph: Graph) -> list[str]:
    return sorted(path.name for path in (graph.folder / "derived").iterdir())


def order(graph: Graph, name: str, age: int) -> np.ndarray:
    found = kept_order(graph, f"order-{name}", lambda: np.arange(graph.num_nodes, dtype=np.int32)[::-1])
    path = graph.folder / "derived" / f"order-{name}.npy"
    if path.exists():
        os.utime(path, (0, 1000 - age))
    return found


def test_the_oldest_orders_and_tables_make_way(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        order(graph, name, age)
    table = graph.derived("table-sum")
    write_table(graph, table, 2, [np.ones((graph.num_nodes, 2), np.float32)])
    rows = read_table(graph, table).array
    for path in (table, *table.iterdir()):
        os.utime(path, (0, 2000))
    assert names(graph) == ["order-middle.npy", "order-new.npy", "order-old.npy", "table-sum"]
    held = {path.name: derived_room._size_and_use(path)[0] for path in (graph.folder / "derived").iterdir()}
    total, orders = sum(held.values()), held["order-new.npy"]
    monkeypatch.setenv(VARIABLE, f"{total + 10}B")
    order(graph, "newest", -1)  # 1,328 bytes more: one order goes
    assert names(graph) == ["order-middle.npy", "order-new.npy", "order-newest.npy", "table-sum"]
    monkeypatch.setenv(VARIABLE, f"{2 * orders}B")
    order(graph, "last", -2)
    assert names(graph) == ["order-last.npy", "table-sum"] or names(graph) == ["order-last.npy"]
    assert (rows == 1).all(), "who has mapped a table keeps it"
    assert np.array_equal(order(graph, "old", 0), np.arange(graph.num_nodes)[::-1]), "and it is made again"


def test_a_file_beyond_the_limit_is_not_kept_and_removes_none(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    order(graph, "kept", 0)
    monkeypatch.setenv(VARIABLE, "1000B")
    assert len(order(graph, "large", 0)) == graph.num_nodes
    assert names(graph) == ["order-kept.npy"]
    with pytest.raises(GraphError, match=r"2.34 KiB are needed, A3GNN_DISK_LIMIT allows 1000 B"):
        write_table(graph, graph.derived("table-sum"), 2, [np.ones((graph.num_nodes, 2), np.float32)])
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(UsageError, match="a size is a number with a unit"):
        make_room(graph.folder / "derived" / "order-x.npy", 1)


def test_without_a_limit_the_disk_is_the_bound(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, name in enumerate(("new", "old")):
        order(graph, name, age)
    free, folder = {"bytes": 1300}, graph.folder / "derived"
    monkeypatch.setattr(derived_room.shutil, "disk_usage", lambda _: type("", (), {"free": free["bytes"]}))
    make_room(folder / "order-next.npy", 1300)
    assert len(names(graph)) == 2
    make_room(folder / "seconds-order-next.txt", 1301)
    make_room(folder / "order-next.npy", 1 << 30)
    assert len(names(graph)) == 2, "nothing goes for a note, nor for what fits nowhere"
    make_room(folder / "order-next.npy", 1301)
    assert names(graph) == ["order-new.npy"]


def test_the_note_of_its_seconds_does_not_remove_a_new_table(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 4 * 2 * graph.num_nodes
    monkeypatch.setenv(VARIABLE, f"{needed}B")  # on the disk, the table and its folder take whole blocks
    table = graph.derived("table-sum")
    with noting_seconds(graph, table):
        write_table(graph, table, 2, [np.ones((graph.num_nodes, 2), np.float32)])
    assert (read_table(graph, table).array == 1).all()


def test_an_order_and_parts_are_used_when_they_are_read(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, name in enumerate(("new", "old")):
        order(graph, name, age)
    parts = graph.derived("parts-2-seed-0.npy")
    derived.write_parts(graph, parts, np.zeros(graph.num_nodes, np.int32))
    os.utime(parts, (0, 0))
    derived.read_parts(graph, parts, 2)
    kept_order(graph, "order-old", lambda: np.zeros(0, np.int32))
    held = sum(derived_room._size_and_use(path)[0] for path in parts.parent.iterdir())
    monkeypatch.setenv(VARIABLE, f"{held}B")
    make_room(graph.derived("order-other.npy"), 1)
    assert names(graph) == ["order-old.npy", "parts-2-seed-0.npy"]


def test_others_may_remove_files_meanwhile(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    order(graph, "old", 0)
    others, real = [graph.derived("order-gone.npy"), graph.derived("table-gone")], Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: [*others, *real(folder)])
    monkeypatch.setenv(VARIABLE, "100B")
    make_room(graph.derived("order-new.npy"), 100)
    monkeypatch.undo()
    assert names(graph) == []


def test_scratch_keeps_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1KiB")
    assert Scratch(tmp_path).matrix(16, 16).shape == (16, 16)
    with pytest.raises(A3GNNError, match=r"1.06 KiB are needed, A3GNN_DISK_LIMIT allows 1.00 KiB"):
        Scratch(tmp_path).matrix(17, 16)
    with pytest.raises(A3GNNError, match=r"A3GNN_DISK_LIMIT allows 1.00 KiB"):
        Scratch(tmp_path).need(1025)


def test_all_files_of_an_evaluation_keep_the_limit(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(hidden_channels=8, fanouts=(5, 5, 5))
    model = build_model(task, graph.num_features, graph.num_classes).eval()
    every = np.arange(graph.num_nodes, dtype=np.int32)

    def evaluated() -> list[int]:
        inference = Inference(graph, every, 3, scratch=Scratch(tmp_path))
        for _ in range(2):  # the second evaluation has the same files
            list(inference.logits(model))
        return [rows.nbytes for rows in inference._kept.values()]

    sizes = evaluated()
    assert max(sizes) < sum(sizes)
    monkeypatch.setenv(VARIABLE, f"{sum(sizes)}B")
    assert evaluated() == sizes
    monkeypatch.setenv(VARIABLE, f"{sum(sizes) - 1}B")
    with pytest.raises(A3GNNError, match=f"{VARIABLE} allows"):
        evaluated()

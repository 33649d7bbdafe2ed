"""Parts on disk: together they hold the graph, each node once; what is damaged is refused."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from a3gnn.config import PARTITIONERS
from a3gnn.errors import GraphError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.parts.make import make_parts
from a3gnn.parts.part import ROLES, Part, open_part


def check_is_of(part: Part, graph: Graph) -> None:
    """Checks that each row of `part` is that of `graph`."""
    assert (part.x == graph.features.array[part.nodes]).all()
    assert (part.labels == graph.labels[part.nodes]).all()
    for row, node in enumerate(part.nodes):
        mine = part.indices[part.indptr[row] : part.indptr[row + 1]]
        theirs = graph.indices[graph.indptr[node] : graph.indptr[node + 1]]
        assert mine.tolist() == theirs.tolist()
        assert part.loops[row] == (node in theirs)
    for name, role in ROLES.items():
        assert set(part.nodes[part.roles == role]) == set(getattr(graph, name)) & set(part.nodes)
    assert (part.entries == np.bincount(graph.indices, minlength=graph.num_nodes)[part.nodes]).all()


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@pytest.mark.parametrize("num_parts", [1, 3])
def test_parts_hold_every_row_once(tiny_graph: Graph, tmp_path: Path, partitioner: str, num_parts: int) -> None:
    made = make_parts(tiny_graph, tmp_path / "parts", num_parts, partitioner=partitioner)  # type: ignore[arg-type]
    parts = [open_part(one.folder) for one in made]
    assert sorted(np.concatenate([part.nodes for part in parts])) == list(range(tiny_graph.num_nodes))
    for part, one in zip(parts, made, strict=True):
        check_is_of(part, tiny_graph)
        assert (part.num_nodes, len(part.indices)) == (one.nodes, one.edges)
        inside = np.isin(part.indices, part.nodes)
        assert one.cut_edges == np.count_nonzero(~inside)
        assert one.num_bytes == sum(
            file.stat().st_size for file in one.folder.iterdir() if file.name != "verified.json"
        )
    assert len({part.cut for part in parts}) == 1


@pytest.mark.parametrize("name", ["labels_graph", "values_graph"])
def test_labels_of_every_kind_are_kept(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    graph = request.getfixturevalue(name)
    for one in make_parts(graph, tmp_path / "parts", 2, partitioner="random"):
        part = open_part(one.folder)
        assert np.array_equal(part.labels, graph.labels[part.nodes], equal_nan=graph.labels.dtype.kind == "f")


def test_a_self_loop_is_noted(tiny_graph: Graph, tmp_path: Path) -> None:
    rows = np.repeat(np.arange(300), np.diff(tiny_graph.indptr))
    edges = {*zip(tiny_graph.indices.tolist(), rows.tolist(), strict=True), (7, 7), (250, 250)}
    ordered = sorted(edges, key=lambda edge: edge[::-1])
    sources, targets = np.array(ordered).T
    indptr = np.concatenate(([0], np.cumsum(np.bincount(targets, minlength=300))))
    graph = dataclasses.replace(tiny_graph, indptr=indptr, indices=sources.astype(np.int32))
    found = {}
    for one in make_parts(graph, tmp_path / "parts", 2, partitioner="random"):
        part = open_part(one.folder)
        check_is_of(part, graph)
        found |= dict(zip(part.nodes.tolist(), part.loops.tolist(), strict=True))
    assert {7, 250} <= {node for node, loop in found.items() if loop}


def test_what_cannot_be_cut_is_refused(tiny_graph: Graph, sparse_graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"num_parts must be in \[1, 256\].* got 0"):
        make_parts(tiny_graph, tmp_path / "parts", 0)
    with pytest.raises(UsageError, match="got 257"):
        make_parts(tiny_graph, tmp_path / "parts", 257)
    with pytest.raises(GraphError, match="parts need dense features"):
        make_parts(sparse_graph, tmp_path / "parts", 2)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "mine").write_text("")
    with pytest.raises(GraphError, match="must be new or empty"):
        make_parts(tiny_graph, tmp_path / "parts", 2)
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["mine"]


@pytest.fixture
def part_folder(parts_folder: Path, tmp_path: Path) -> Path:
    """A copy of a part, to be damaged."""
    return Path(shutil.copytree(parts_folder / "part-1", tmp_path / "part-1"))


def rewrite(folder: Path, name: str, array: np.ndarray) -> None:
    """Writes another array in place of one."""
    (folder / f"{name}.npy").unlink()
    np.save(folder / f"{name}.npy", array)


@pytest.mark.parametrize("name", ["indices", "nodes", "x", "labels", "indptr"])
def test_a_changed_file_is_refused(part_folder: Path, name: str) -> None:
    array = np.load(part_folder / f"{name}.npy")
    array[3] += 1
    rewrite(part_folder, name, array)
    with pytest.raises(GraphError, match="make the parts again: a3gnn parts make"):
        open_part(part_folder)


def test_ids_out_of_range_are_refused_at_the_first_opening(part_folder: Path) -> None:
    (part_folder / "verified.json").unlink(missing_ok=True)
    indices = np.load(part_folder / "indices.npy")
    indices[-1] = 10**6
    rewrite(part_folder, "indices", indices)
    with pytest.raises(GraphError, match=r"indices must be in \[0, 2000\)"):
        open_part(part_folder)


def test_a_missing_and_a_short_file_are_refused(part_folder: Path) -> None:
    labels = np.load(part_folder / "labels.npy")
    rewrite(part_folder, "labels", labels[1:])
    with pytest.raises(GraphError, match=r"labels\.npy must contain"):
        open_part(part_folder)
    (part_folder / "labels.npy").unlink()
    with pytest.raises(GraphError, match="can't be read"):
        open_part(part_folder)


@pytest.mark.parametrize(
    ("key", "value", "says"), [("format", "another", "is not a part"), ("format_version", 99, "must be 1, got 99")]
)
def test_what_is_no_part_is_refused(part_folder: Path, key: str, value: object, says: str) -> None:
    meta = json.loads((part_folder / "meta.json").read_text())
    (part_folder / "meta.json").write_text(json.dumps(meta | {key: value}))
    with pytest.raises(GraphError, match=says):
        open_part(part_folder)


def test_parts_that_were_dropped_are_not_called_made(tiny_graph: Graph, tmp_path: Path) -> None:
    folder = tmp_path / "parts"

    def intrude(line: str) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "mine").write_text("mine")

    with pytest.raises(GraphError, match="must stay empty while parts are made"):
        make_parts(tiny_graph, folder, 2, partitioner="random", notify=intrude)
    assert [path.name for path in tmp_path.rglob("*")] == ["parts", "mine"]

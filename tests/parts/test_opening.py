"""A graph by parts is opened from all its servers, each once; what it is not is said."""

import sys
from pathlib import Path

import numpy as np
import pytest

from a3gnn.errors import GraphError, GraphServerError, MissingDependencyError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.split import Split
from a3gnn.parts.graph import PartedGraph
from a3gnn.parts.make import make_parts
from a3gnn.parts.opening import PartsSpec, graph_of, open_parts
from a3gnn.parts.part import open_part
from a3gnn.parts.protocol import TOKEN_VARIABLE
from a3gnn.parts.serve import serve_part, serving
from tests.parts.servers import HOST, opened, served_here

TOKEN = "a-token-of-enough-letters"


def test_the_graph_is_the_one_that_was_cut(small_folder_graph: Graph, parted: PartedGraph) -> None:
    for name in ("indptr", "labels", "train_ids", "val_ids", "test_ids"):
        mine, theirs = getattr(parted, name), getattr(small_folder_graph, name)
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)
    for name in ("name", "num_nodes", "num_edges", "num_features", "num_classes", "fingerprint", "notes", "target"):
        assert getattr(parted, name) == getattr(small_folder_graph, name)
    assert parted.characteristics() == small_folder_graph.characteristics()
    assert parted.features.nbytes == small_folder_graph.features.nbytes
    assert parted.features.row_bytes == small_folder_graph.features.row_bytes


def test_little_of_it_is_here(parted: PartedGraph) -> None:
    assert parted.held_bytes <= (8 + 8 + 1 + 4) * parted.num_nodes + 8


@pytest.mark.parametrize("name", ["labels_graph", "values_graph"])
def test_labels_of_every_kind_come_over(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    graph = request.getfixturevalue(name)
    make_parts(graph, tmp_path / "parts", 2, partitioner="random")
    with opened(tmp_path / "parts") as parted:
        assert parted.target == graph.target
        assert np.array_equal(parted.labels, graph.labels, equal_nan=graph.target == "values")


def test_degrees_leave_out_self_loops(parted: PartedGraph, small_folder_graph: Graph) -> None:
    rows = np.repeat(np.arange(2000), np.diff(small_folder_graph.indptr))
    loops = np.bincount(rows[small_folder_graph.indices == rows], minlength=2000)
    every = np.arange(2000, dtype=np.int32)
    for graph in (parted, small_folder_graph):
        assert np.array_equal(graph.other_degrees(every), np.diff(small_folder_graph.indptr) - loops)


@pytest.mark.parametrize(
    "use",
    [
        lambda graph: graph.indices[0],
        lambda graph: np.asarray(graph.indices),
        lambda graph: graph.features.array,
        lambda graph: graph.arrays(),
        lambda graph: graph.to_pyg(),
        lambda graph: graph.save("nowhere"),
        lambda graph: graph.derived("parts"),
    ],
)
def test_what_needs_all_of_it_is_refused(parted: PartedGraph, use) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(GraphError, match="is read by parts from graph servers, but this action needs"):
        use(parted)


def test_a_split_is_refused_of_the_spec_and_of_the_graph_alike(parted: PartedGraph) -> None:
    words = (
        r"split needs the whole graph, got 'parts:.*'; split it before .* a3gnn parts make split:0\.6,0\.2,0\.2:3:GRAPH"
    )
    split = Split.of("0.6,0.2,0.2", 3)
    for given in (parted, f"parts:{','.join(parted.client.addresses)}"):
        with pytest.raises(UsageError, match=words):
            graph_of(given, split=split)
    with pytest.raises(UsageError, match=words):
        parted.resplit((0.6, 0.2, 0.2), 3)


@pytest.mark.parametrize(
    "spec",
    ["parts:", "parts:host", "parts::80", "parts:host:0", "parts:host:70000", "parts:a:1,a:1", "parts:a:1,later=3s"],
)
def test_other_forms_are_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="a graph by parts"):
        PartsSpec.parse(spec)


def test_the_form_is_read() -> None:
    assert PartsSpec.parse("parts:a:1,[::1]:22,wait=10min") == PartsSpec(("a:1", "[::1]:22"), 600.0)
    with pytest.raises(UsageError, match="a duration"):
        PartsSpec.parse("parts:a:1,wait=never")


def test_commands_that_need_the_whole_graph_say_so() -> None:
    with pytest.raises(UsageError, match="only a3gnn train and Loader accept"):
        Graph.load("parts:127.0.0.1:1")


def test_the_order_of_addresses_does_not_matter(parts_folder: Path, parted: PartedGraph) -> None:
    with served_here(parts_folder) as addresses:
        graph = graph_of(f"parts:{','.join(addresses[::-1])}")
        assert isinstance(graph, PartedGraph)
        assert graph.client.addresses == addresses
        assert np.array_equal(graph.client.owners, parted.client.owners)


def test_all_parts_of_one_cut_are_needed(parts_folder: Path, small_folder_graph: Graph, tmp_path: Path) -> None:
    make_parts(small_folder_graph, tmp_path / "other", 3, partitioner="random", seed=1)
    with served_here(parts_folder) as one, served_here(tmp_path / "other") as other, served_here(parts_folder) as again:
        for addresses in (one[:2], [*one, again[0]], [*one[:2], other[2]]):
            with pytest.raises(GraphError, match="must serve all parts of one cut, each once, got") as error:
                open_parts(PartsSpec(tuple(addresses)))
            assert all(address in str(error.value) for address in addresses)


def test_a_token_is_needed(parts_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served_here(parts_folder, TOKEN) as addresses:
        spec = PartsSpec(tuple(addresses), 5.0)
        for wrong in ("", TOKEN[:-1], f"{TOKEN}x"):
            monkeypatch.setenv(TOKEN_VARIABLE, wrong)
            with pytest.raises(GraphServerError, match=f"refuses the request \\(UNAUTHENTICATED.*set {TOKEN_VARIABLE}"):
                open_parts(spec)
        monkeypatch.setenv(TOKEN_VARIABLE, f"{TOKEN}\u00e4")
        with pytest.raises(UsageError, match=f"{TOKEN_VARIABLE} must have at most .* printable ASCII"):
            open_parts(spec)
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        assert open_parts(spec).num_nodes == 2000


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_other_addresses_need_a_token(parts_folder: Path, host: str) -> None:
    with pytest.raises(UsageError, match=f"--host {host} lets other machines connect"):
        serve_part(parts_folder / "part-0", host, 0, None, print)
    with pytest.raises(UsageError, match="16 characters or more, got 5"):
        serve_part(parts_folder / "part-0", host, 0, "short", print)


def test_a_port_that_is_taken_is_said(parts_folder: Path) -> None:
    part = open_part(parts_folder / "part-0")
    with serving(part, HOST, 0, None) as (_, address):
        port = int(address.rpartition(":")[2])
        with (
            pytest.raises(UsageError, match=f"can't listen at --host {HOST} --port {port}"),
            serving(part, HOST, port, None),
        ):
            pass


def test_without_grpc_the_line_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(MissingDependencyError, match=r'a graph by parts needs .* pip install "a3gnn\[parts\]"'):
        graph_of("parts:127.0.0.1:1")

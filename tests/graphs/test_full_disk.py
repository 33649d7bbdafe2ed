"""Every writer of graphs on a disk that runs full: an error that says what it takes, and nothing half-written."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from a3gnn.errors import GraphError
from a3gnn.evaluation.aggregate_table import aggregate_table
from a3gnn.evaluation.inference import Inference, Scratch
from a3gnn.evaluation.neighborhoods import Neighborhoods
from a3gnn.graphs.convert import convert
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition, restrict_to_parts

SPEC = "synthetic:nodes=2000,degree=10,classes=5,features=32"
ROOM = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for one small graph."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = shutil.which("mount")
    if mount is None or subprocess.run([mount, "-t", "tmpfs", "-o", f"size={ROOM}", "none", path]).returncode:
        pytest.skip("no file system can be mounted here; root may")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)  # graphs that tests opened are mapped yet


@pytest.fixture
def full(disk: Path, small_graph: Graph) -> Graph:
    """A graph on a disk with 40 KiB left: rows within parts take 84 KiB, of which their starts take 16."""
    graph = small_graph.save(disk / "graph")
    free = shutil.disk_usage(disk).free
    (disk / "filler").write_bytes(bytes(free - (40 << 10)))
    return graph


@pytest.fixture
def unknown_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells of room that is not there, as with quotas, or others who write meanwhile."""
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 50))


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_rows_within_parts_are_no_bus_error(full: Graph, disk: Path) -> None:
    before = files(disk)
    code = (
        "import sys, numpy as np\n"
        "from a3gnn.graphs.graph import Graph; from a3gnn.graphs.partition import restrict_to_parts\n"
        "graph = Graph.load(sys.argv[1])\n"
        "restrict_to_parts(graph, np.zeros(graph.num_nodes, dtype=np.int32))"
    )
    found = subprocess.run([sys.executable, "-c", code, str(full.folder)], capture_output=True, text=True)
    assert found.returncode == 1, found
    assert "can't be written (" in found.stderr
    assert "KiB are needed, 40.0 KiB are free). Data derived from" in found.stderr
    assert files(disk) == before


def test_rows_within_parts_that_fill_the_disk_leave_nothing(
    full: Graph, disk: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("unknown_room")
    before, parts = files(disk), np.zeros(full.num_nodes, dtype=np.int32)
    with pytest.raises(GraphError, match=r"can't be written \(.*No space left.* needs .* KiB\. Free some space"):
        restrict_to_parts(full, parts)
    assert files(disk) == before
    (disk / "filler").unlink()
    np.testing.assert_array_equal(restrict_to_parts(full, parts)[1], full.indices)


@pytest.mark.parametrize("told", [True, False])
def test_aggregates_that_fill_the_disk_leave_nothing(
    full: Graph, disk: Path, told: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    before = files(disk)
    if not told:
        request.getfixturevalue("unknown_room")

    def make() -> Inference:
        return Inference(full, full.val_ids, 2, aggregator="mean", scratch=Scratch(tmp_path))

    make()  # rows are computed as they are read
    assert files(disk) == before
    with pytest.raises(GraphError, match=r"table-mean can't be written \(.* needs 500 KiB\. Free some space"):
        aggregate_table(full, "mean", Neighborhoods(full, torch.device("cpu"), 1 << 20, in_place=True, on_chunk=int))
    assert files(disk) == before
    (disk / "filler").unlink()
    make()
    assert "graph/derived/table-mean/rows.npy" in files(disk)


@pytest.mark.parametrize("told", [True, False])
def test_parts_that_fill_the_disk_leave_nothing(
    full: Graph, disk: Path, told: bool, request: pytest.FixtureRequest
) -> None:
    (disk / "more").write_bytes(bytes(36 << 10))
    before = files(disk)
    if not told:
        request.getfixturevalue("unknown_room")
    with pytest.raises(GraphError, match=r"parts-2-seed-0-random\.npy can't be written \(.* needs 7\.81 KiB"):
        partition(full, 2, partitioner="random")
    assert files(disk) == before


_WRITERS: dict[str, Callable[[Path, Graph, Path], object]] = {
    "save": lambda target, graph, npz: graph.save(target),
    "on_disk": lambda target, graph, npz: graph.on_disk(target),
    "convert synthetic": lambda target, graph, npz: convert(SPEC, target),
    "convert npz": lambda target, graph, npz: convert(npz, target, 1000),
}


@pytest.mark.usefixtures("unknown_room")
@pytest.mark.parametrize("left", [0, 4096, 100 << 10, 400 << 10])
@pytest.mark.parametrize("writer", _WRITERS)
def test_a_graph_that_fills_the_disk_leaves_nothing(
    writer: str, left: int, disk: Path, small_graph: Graph, tmp_path: Path
) -> None:
    targets = np.repeat(np.arange(small_graph.num_nodes), np.diff(small_graph.indptr))
    sets = {"train": small_graph.train_ids, "val": small_graph.val_ids, "test": small_graph.test_ids}
    np.savez(
        tmp_path / "graph.npz",
        edge_index=np.stack([small_graph.indices, targets]),
        x=np.tile(small_graph.features.arrays()["x"], 2),
        y=small_graph.labels,
        **{f"{name}_mask": np.isin(np.arange(small_graph.num_nodes), ids) for name, ids in sets.items()},
    )
    (disk / "filler").write_bytes(bytes(ROOM - left))
    fits, source = left >= 400 << 10 and writer != "convert npz", (tmp_path / "graph.npz").read_bytes()
    if fits:
        _WRITERS[writer](disk / "graph", small_graph, tmp_path / "graph.npz")
        return
    with pytest.raises(GraphError, match=r"can't be written to .*; nothing was left there"):
        _WRITERS[writer](disk / "graph", small_graph, tmp_path / "graph.npz")
    assert files(disk) == ["filler"]
    assert (tmp_path / "graph.npz").read_bytes() == source


def test_a_full_disk_under_the_cache_does_not_keep_a_graph_from_opening(full: Graph, disk: Path) -> None:
    assert full.folder is not None
    (disk / "more").write_bytes(bytes(40 << 10))
    (full.folder / "verified.json").unlink()
    (disk / "last").write_bytes(bytes(shutil.disk_usage(disk).free))
    assert Graph.load(full.folder).fingerprint == full.fingerprint

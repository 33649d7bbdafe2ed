from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from a3gnn.errors import GraphError
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.partition import partition, restrict_to_parts
from a3gnn.graphs.verify import verify
from a3gnn.storage.stamp import STAMP
from tests.commands import a3gnn


@pytest.fixture
def folder(tiny_graph: Graph, tmp_path: Path) -> Path:
    graph = tiny_graph.save(tmp_path / "graph")
    restrict_to_parts(graph, partition(graph, 2, partitioner="random"))
    return tmp_path / "graph"


def spoil(path: Path, place: int, value: float) -> None:
    array = np.load(path)
    array.reshape(-1)[place] = value
    np.save(path, array)


def test_a_sound_folder_is_found_sound_and_stamped(folder: Path) -> None:
    (folder / STAMP).unlink()
    found = verify(folder)
    assert [finding.problem for finding in found] == [""] * len(found)
    names = {finding.name for finding in found}
    assert {"indices.npy", "x.npy", "fingerprint", "derived/parts-2-seed-0-random.npy"} < names
    assert sum(finding.name == "indices.npy" and finding.num_bytes > 0 for finding in found) == 1
    assert (folder / STAMP).exists()


def test_everything_that_is_wrong_is_said_whatever_was_verified_before(folder: Path) -> None:
    spoil(folder / "indices.npy", 0, 300)
    spoil(folder / "x.npy", 0, np.nan)
    spoil(folder / "derived" / "parts-2-seed-0-random.npy", 0, 2)
    (within,) = (folder / "derived").glob("within-*")
    spoil(within / "indices.npy", 0, -1)
    problems = {finding.name: finding.problem for finding in verify(folder) if finding.problem}
    assert problems.keys() == {
        "indices.npy",
        "x.npy",
        "fingerprint",
        "derived/parts-2-seed-0-random.npy",
        f"derived/{within.name}",
    }
    assert not (folder / STAMP).exists()


def test_a_legal_change_that_no_stamp_knows_of_breaks_the_fingerprint(folder: Path) -> None:
    spoil(folder / "labels.npy", 0, 1 - np.load(folder / "labels.npy")[0] % 2)
    (folder / STAMP).unlink()
    assert [finding.name for finding in verify(folder) if finding.problem] == ["fingerprint"]


def test_what_is_no_graph_is_said(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="is not a converted graph"):
        verify(tmp_path)


def test_the_command_says_what_it_found(folder: Path) -> None:
    sound = a3gnn("graph", "verify", folder)
    assert sound.returncode == 0
    assert all(line.endswith("sound") for line in sound.stdout.splitlines())
    spoil(folder / "indices.npy", 0, 300)
    damaged = a3gnn("graph", "verify", folder, "--json")
    assert damaged.returncode == 1
    files = {file["name"]: file["problem"] for file in json.loads(damaged.stdout)["files"]}
    assert files["indices.npy"].startswith("indices must be in [0, 300), got")
    assert files["labels.npy"] == ""

"""Links and special files below the data root: none leads out, and none holds a place."""

import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from a3gnn.errors import GraphError
from a3gnn.graphs.folder import open_folder
from a3gnn.graphs.graph import Graph
from a3gnn.service.graphs.shelf import admitted
from a3gnn.service.settings import ServiceSettings


@pytest.fixture
def root(tmp_path: Path, tiny_graph: Graph) -> Path:
    """A data root with a converted graph, beside a file that is not below it."""
    folder = tmp_path / "root"
    folder.mkdir()
    tiny_graph.save(folder / "converted")
    (tmp_path / "outside.npy").write_text("secret:x:0:0")
    return folder


@pytest.fixture
def settings(tmp_path: Path, root: Path) -> ServiceSettings:
    return ServiceSettings(folder=tmp_path / "home", data_root=root)


def test_a_converted_folder_is_admitted_and_so_is_a_link_to_it(settings: ServiceSettings, root: Path) -> None:
    (root / "link").symlink_to(root / "converted")
    shutil.move(root / "converted" / "labels.npy", root / "labels.npy")
    (root / "converted" / "labels.npy").symlink_to(root / "labels.npy")
    for name in ("converted", "link"):
        assert admitted(name, settings) == str(root / "converted")


@pytest.fixture(params=["link", "dangling", "loop", "pipe", "socket", "parent"])
def strange(request: pytest.FixtureRequest, root: Path) -> Iterator[Path]:
    """A file of a kind that no array is."""
    place = root / "converted" / "labels.npy"
    place.unlink()
    kind, opened = request.param, None
    if kind == "link":
        place.symlink_to(root.parent / "outside.npy")
    elif kind == "dangling":
        place.symlink_to(root / "nowhere")
    elif kind == "loop":
        place.symlink_to(place)
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        opened = socket.socket(socket.AF_UNIX)
        here = os.getcwd()
        os.chdir(place.parent)  # a socket's path must be short
        try:
            opened.bind(place.name)
        finally:
            os.chdir(here)
    else:
        place.symlink_to(root.parent)
    yield place
    if opened is not None:
        opened.close()


def test_a_folder_with_a_strange_array_is_refused_at_once(settings: ServiceSettings, strange: Path) -> None:
    found: list[GraphError] = []

    def admit() -> None:
        with pytest.raises(GraphError, match=r"must have only files below the data root, got 'labels\.npy'") as error:
            admitted("converted", settings)
        found.append(error.value)

    thread = threading.Thread(target=admit, daemon=True)
    thread.start()
    thread.join(60)  # a pipe that is opened waits for ever
    assert [str(error).count("secret") for error in found] == [0]


@pytest.mark.parametrize("name", ["pipe.npz", "pipe"])
def test_a_pipe_is_no_graph(settings: ServiceSettings, root: Path, name: str) -> None:
    os.mkfifo(root / name)
    with pytest.raises(GraphError, match="opens only"):
        admitted(name, settings)


@pytest.mark.parametrize("name", ["../../outside", "/etc/passwd", "a b", ""])
def test_an_array_can_not_be_called_by_a_path(root: Path, name: str) -> None:
    meta = json.loads((root / "converted" / "meta.json").read_text())
    meta["arrays"][name] = ["<f4", [1]]
    (root / "converted" / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(GraphError, match="no array is called") as error:
        open_folder(root / "converted")
    assert "secret" not in str(error.value)

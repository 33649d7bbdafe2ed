"""A server that begins no job: what is asked of it is answered at once."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from a3gnn.graphs.graph import Graph
from tests.service.servers import Server, serving


def write_npz(path: Path, graph: Graph) -> Path:
    """Writes a graph as people do."""
    masks = {name: np.zeros(graph.num_nodes, dtype=np.bool_) for name in ("train", "val", "test")}
    for name, mask in masks.items():
        mask[getattr(graph, f"{name}_ids")] = True
    data = graph.to_pyg()
    arrays = {"edge_index": data.edge_index.numpy(), "x": data.x.numpy(), "y": data.y.numpy()}
    np.savez(path, **arrays, **{f"{name}_mask": mask for name, mask in masks.items()})
    return path


@pytest.fixture(scope="session")
def npz(tiny_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_npz(tmp_path_factory.mktemp("files") / "people.npz", tiny_graph)


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory, npz: Path) -> Iterator[Server]:
    pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
    pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")
    folder = tmp_path_factory.mktemp("service")
    root = folder / "data"
    root.mkdir()
    (root / "people.npz").write_bytes(npz.read_bytes())
    (folder / "secret.npz").write_bytes(npz.read_bytes())
    (root / "way-out").symlink_to(folder)
    (root / "saved.pt").write_bytes(b"a pickle")
    options = ("--at-once", "0", "--data-root", str(root), "--max-queued", "3", "--max-nodes", "1000")
    with serving(folder / "home", *options, "--max-upload", "1MiB") as server:
        yield server

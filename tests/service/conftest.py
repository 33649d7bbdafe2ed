"""A server that begins no job: what is asked of it is answered at once."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from a3gnn.graphs.graph import Graph
from a3gnn.service.client import Client, RemoteStudy
from tests.page.conftest import REAL
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


@pytest.fixture
def kept(idle: Server) -> Iterator[RemoteStudy]:
    """A study of people.npz whose files are those of a real tune, with a trial that failed and tells of paths."""
    study = Client(idle.url).start("people.npz")
    study.stop()
    run = idle.folder / "studies" / str(study.id) / "run"
    shutil.copytree(REAL, run, dirs_exist_ok=True)
    spec = idle.folder.parent / "data" / "people.npz"
    request = json.loads((run / "request.json").read_text())
    (run / "request.json").write_text(json.dumps({**request, "spec": str(spec)}))
    tuned = json.loads((run / "tuned.json").read_text())
    tuned["graph"]["spec"] = str(spec)
    (run / "tuned.json").write_text(json.dumps(tuned))
    lines = (run / "probes.jsonl").read_text().splitlines()
    trial = json.loads(lines[4])
    assert trial["measurement"].pop("metrics")
    detail = f'Traceback\n  File "{run}/model.py", line 3\n{spec}: no such file\nOSError: {pytest.__file__} in {run}'
    trial["measurement"]["failure"] = {"kind": "crashed", "detail": detail}
    lines[4] = json.dumps(trial)
    (run / "probes.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (run / "front.csv").write_text("config,note\n")
    yield study
    study.delete(forever=True)

"""Servers in processes of their own: killed in the middle of an epoch, started again, or not."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from a3gnn.apply.train import train
from a3gnn.cli.main import app
from a3gnn.config import TrainConfig
from a3gnn.errors import GraphServerError
from a3gnn.graphs.graph import Graph
from a3gnn.parts.graph import PartedGraph
from a3gnn.parts.make import make_parts
from a3gnn.parts.opening import PartsSpec, open_parts
from a3gnn.task import Task
from tests.parts.servers import ServerProcess
from tests.parts.training import check_same_run

CONFIG = TrainConfig(batch_size=64, parallel_mode="mode1", num_workers=2)
TASK = Task(hidden_channels=16, fanouts=(5, 5))
EPOCHS = 3
#: Requests of an epoch: 3 parts, 10 mini-batches, 2 hops and the rows.
OF_AN_EPOCH = 3 * 10 * 3


@pytest.fixture(scope="module")
def servers(parts_folder: Path) -> Iterator[list[ServerProcess]]:
    with ExitStack() as started:
        found = [ServerProcess(parts_folder / f"part-{number}") for number in range(3)]
        yield found
        for one in found:
            started.callback(one.kill)


@pytest.fixture(scope="module")
def local_run(small_folder_graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same training on the graph itself."""
    folder = tmp_path_factory.mktemp("runs") / "local"
    train(CONFIG, small_folder_graph, task=TASK, epochs=EPOCHS, patience=None, out=folder, notify=lambda line: None)
    return folder


def open_served(servers: list[ServerProcess], patience_s: float) -> PartedGraph:
    return open_parts(PartsSpec(tuple(one.address for one in servers), patience_s))


def when(graph: PartedGraph, requests: int, act: Callable[[], None]) -> threading.Thread:
    """Starts a thread that acts once `graph` has had so many requests more answered."""
    last = graph.client.traffic.requests + requests

    def watch() -> None:
        end = time.monotonic() + 60
        while graph.client.traffic.requests < last and time.monotonic() < end:
            time.sleep(0.002)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_killed_server_that_comes_back_changes_nothing(
    servers: list[ServerProcess], parts_folder: Path, local_run: Path, tmp_path: Path
) -> None:
    graph, told = open_served(servers, 60.0), []

    def restart() -> None:
        port = servers[1].port
        servers[1].kill()
        time.sleep(0.5)
        servers[1] = ServerProcess(parts_folder / "part-1", port)

    # In the middle of the first epoch.
    watching = when(graph, OF_AN_EPOCH // 2, restart)
    train(CONFIG, graph, task=TASK, epochs=EPOCHS, patience=None, out=tmp_path / "run", notify=told.append)
    watching.join()
    check_same_run(tmp_path / "run", local_run)
    assert graph.client.traffic.retries > 0
    assert any("does not answer" in line for line in told)
    assert any("answers again" in line for line in told)


@pytest.mark.slow
def test_a_killed_server_that_stays_away_ends_training_with_a_checkpoint(
    servers: list[ServerProcess], parts_folder: Path, local_run: Path, tmp_path: Path
) -> None:
    graph, port = open_served(servers, 1.0), servers[2].port
    watching = when(graph, 4 * OF_AN_EPOCH // 3, servers[2].kill)
    asked = {"task": TASK, "epochs": EPOCHS, "patience": None, "out": tmp_path / "run", "notify": lambda line: None}
    with pytest.raises(GraphServerError, match=r"part 2 of .* at 127.0.0.1:\d+ has not answered since") as error:
        train(CONFIG, graph, **asked)  # type: ignore[arg-type]
    watching.join()
    assert "the run is saved after" in str(error.value).lower()
    servers[2] = ServerProcess(parts_folder / "part-2", port)
    train(CONFIG, graph, resume=True, **asked)  # type: ignore[arg-type]
    check_same_run(tmp_path / "run", local_run)


@pytest.mark.slow
def test_the_commands_cut_serve_and_train(small_folder_graph: Graph, local_run: Path, tmp_path: Path) -> None:
    runner, parts = CliRunner(), tmp_path / "parts"
    made = runner.invoke(app, ["parts", "make", str(small_folder_graph.folder), str(parts), "--num-parts", "2"])
    assert made.exit_code == 0, made.output
    assert f"{parts}/part-1" in " ".join(made.output.split())
    with ServerProcess(parts / "part-0") as one, ServerProcess(parts / "part-1") as other:
        told: list[str] = []
        spec = f"parts:{one.address},{other.address},wait=10s"
        train(CONFIG, spec, task=TASK, epochs=EPOCHS, patience=None, out=tmp_path / "run", notify=told.append)
        assert (one.stop(), other.stop()) == (0, 0)
    check_same_run(tmp_path / "run", local_run)
    assert any("is read from 2 graph servers" in line for line in told)
    assert any("requests to graph servers" in line for line in told)


@pytest.mark.weekly
def test_fb100_multi_a_trains_the_same(data_folder: Path, tmp_path: Path) -> None:
    file = data_folder / "fb100_multi_a.npz"
    if not file.is_file():
        pytest.skip(f"no real graph: {file} is not there")
    graph = Graph.load(file).on_disk()
    make_parts(graph, tmp_path / "parts", 3, partitioner="random")
    config, task = TrainConfig(batch_size=8192, parallel_mode="mode1"), Task(hidden_channels=32, fanouts=(5, 5))
    asked = {"task": task, "epochs": 2, "patience": None, "notify": lambda line: None}
    with ExitStack() as started:
        found = [started.enter_context(ServerProcess(tmp_path / "parts" / f"part-{part}")) for part in range(3)]
        train(config, open_served(found, 30.0), out=tmp_path / "there", **asked)  # type: ignore[arg-type]
    train(config, graph, out=tmp_path / "here", **asked)  # type: ignore[arg-type]
    check_same_run(tmp_path / "there", tmp_path / "here")

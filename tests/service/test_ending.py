"""The end of a server, by SIGTERM or by `kill -9`, while its processes do something that takes long."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.service.servers import JSON, QUICK, Server, serving

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
psutil = pytest.importorskip("psutil", reason="psutil is not installed")
pytestmark = pytest.mark.slow
#: Names the processes of a server, and those that they start.
MARK = "A3GNN_TEST_OF_ENDING"
#: Takes minutes.
LONG = "synthetic:nodes=4000000,degree=100,features=4"


def processes(mark: str) -> list[str]:
    """The command lines of all processes with this mark."""
    found = []
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if one.environ().get(MARK) == mark and one.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(one.cmdline()))
    return found


def wait_until_named(mark: str, words: str) -> None:
    end = time.monotonic() + 60
    while not any(words in line for line in processes(mark)):
        assert time.monotonic() < end, processes(mark)
        time.sleep(0.02)


def ask_aside(server: Server, *request: object) -> threading.Thread:
    """Sends a request whose answer nobody waits for."""

    def ask() -> None:
        with contextlib.suppress(OSError):
            server.ask(*request)  # type: ignore[arg-type]

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread


def begin(server: Server, what: str) -> str:
    """Starts work of a kind, and returns the name of its process."""
    if what == "graph":
        ask_aside(server, "POST", "/graphs", {"dataset": LONG}, JSON)
        return "graph_process"
    graph = server.ask("POST", "/graphs", {"dataset": "synthetic:nodes=300,degree=8,classes=4,features=16"}, JSON).json
    if what == "prediction":
        ask_aside(server, "POST", "/recommend", {"graph": graph["id"]}, JSON)
        return "recommender"
    server.ask("POST", "/studies", {"graph": graph["id"], **QUICK, "budget": 10_000}, JSON)
    return "fork_server"


@pytest.mark.parametrize(
    ("what", "number"),
    [
        *((what, signal.SIGKILL) for what in ("graph", "prediction", "study")),
        *(pytest.param(what, signal.SIGTERM, marks=pytest.mark.weekly) for what in ("study", "prediction")),
    ],
)
def test_nothing_outlives_a_server(tmp_path: Path, what: str, number: int) -> None:
    mark = f"{os.getpid()} {what} {number}"
    with serving(tmp_path / "home", environment={MARK: mark}) as server:
        wait_until_named(mark, begin(server, what))
        time.sleep(0.3)  # it imports
        server.end(number)  # within a minute
        end = time.monotonic() + 60  # by themselves they would take longer
        while processes(mark) and time.monotonic() < end:
            time.sleep(0.05)
        assert processes(mark) == []


def test_sigterm_ends_a_server_before_its_work_would(tmp_path: Path) -> None:
    mark = f"{os.getpid()} sigterm"
    with serving(tmp_path / "home", environment={MARK: mark}) as server:
        wait_until_named(mark, begin(server, "graph"))
        assert server.end() == 0  # within a minute: requests get 3 s and jobs 5
        assert "Traceback" not in server.said
        assert processes(mark) == []

"""Servers as processes, and requests to them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.tuning.formulas import SMALL_SPACE

ROOT = Path(__file__).parents[2]
GRAPH = "synthetic:nodes=300,degree=8,classes=4,features=16"
JSON = {"Content-Type": "application/json"}
#: A study whose trials take a second or so, and which is to be stopped: its verification would take half a minute.
QUICK = {"hidden": 16, "fanouts": [4, 4], "accuracy_epochs": 1, "max_accuracy_drop": 100.0, "engine": "random"}
#: A study of six configurations that learn the same: there is one contender, and the verification is short.
SMALL = QUICK | {
    "fix": SMALL_SPACE | {"num_partitions": 1, "partitioner": "blocks", "compute_dtype": "float32", "num_workers": 1}
}


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class Server:
    """`a3gnn serve` on a free port; its folder and port stay the same when it is started again."""

    def __init__(self, folder: Path, *options: str, environment: dict[str, str] | None = None) -> None:
        self.folder, self._options, self._port = folder, options, "0"
        self._environment = {**os.environ, **(environment or {})}
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "a3gnn", "serve", "--folder", str(self.folder), "--port", self._port]
        begun = time.monotonic()
        self.process = subprocess.Popen(
            [*command, *self._options], stderr=subprocess.PIPE, text=True, cwd=ROOT, env=self._environment
        )
        assert self.process.stderr is not None
        said = self.process.stderr.readline()
        assert "serves at http://" in said, said + self.process.stderr.read()
        self.started_s = time.monotonic() - begun  # how fast this machine is at present
        self._serves(said)

    def begin(self, command: list[str], log: Path) -> None:
        """Starts `command` with its stderr in the file `log`, which may become long."""
        with log.open("wb") as file:
            self.process = subprocess.Popen(command, stderr=file, cwd=ROOT, env=self._environment)
        end = time.monotonic() + 60
        while "serves at http://" not in (said := log.read_text()):
            assert self.process.poll() is None, said
            assert time.monotonic() < end, said
            time.sleep(0.05)
        self._serves(said)

    def _serves(self, said: str) -> None:
        self.url = said.split()[3]
        self._port = self.url.rpartition(":")[2]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        status = self.process.wait(timeout=60)
        assert self.process.stderr is not None
        self.said = self.process.stderr.read()
        self.process.stderr.close()
        return status

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """Asks with exactly these headers beside those that http.client adds."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=600)
        with contextlib.closing(connection):
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())


@contextlib.contextmanager
def serving(folder: Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[Server]:
    server = Server(folder, *options, environment=environment)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()


def journal(folder: Path, study: int) -> list[str]:
    """The lines of a study's journal."""
    return (folder / "studies" / str(study) / "run" / "probes.jsonl").read_text().splitlines()


def problem(server: Server, *request: Any) -> tuple[int, str]:
    """Asks, and returns the status and the detail of the problem that is answered."""
    answer = server.ask(*request)
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json
    assert found["status"] == answer.status
    assert found["type"].startswith("urn:a3gnn:")
    return answer.status, found["detail"]

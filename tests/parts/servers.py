"""Graph servers for tests: in this process, or in processes of their own that can be killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from a3gnn.parts.graph import PartedGraph
from a3gnn.parts.opening import PartsSpec, open_parts
from a3gnn.parts.part import open_part
from a3gnn.parts.serve import serving

_ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"


@contextmanager
def served_here(folder: Path, token: str | None = None) -> Iterator[list[str]]:
    """Serves all parts in `folder` from threads of this process; yields their addresses, by part."""
    with ExitStack() as servers:
        parts = sorted(folder.iterdir(), key=lambda path: int(path.name.partition("-")[2]))
        yield [servers.enter_context(serving(open_part(path), HOST, 0, token))[1] for path in parts]


@contextmanager
def opened(folder: Path, patience_s: float = 10.0) -> Iterator[PartedGraph]:
    """Serves all parts in `folder` from this process, and yields the graph."""
    with served_here(folder) as addresses:
        graph = open_parts(PartsSpec(tuple(addresses), patience_s))
        yield graph
        graph.client.close()


class ServerProcess:
    """`a3gnn parts serve` in a process of its own; a context manager.

    Args:
        folder: Of the part.
        port: Where to listen; 0 for a free port.
    """

    def __init__(self, folder: Path, port: int = 0) -> None:
        command = [sys.executable, "-m", "a3gnn", "parts", "serve", str(folder), "--port", str(port)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=_ROOT, env=dict(os.environ))
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        found = re.search(rf"served at ({HOST}:(\d+))", line)
        assert found, line + self._process.stderr.read()
        self.address, self.port = found[1], int(found[2])

    def kill(self) -> None:
        """Ends it as a machine that fails does."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ends it as Ctrl-C does; returns its exit code."""
        self._end(signal.SIGINT)
        return self._process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def _end(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)
        self._process.wait(20)
        assert self._process.stderr is not None
        self._process.stderr.close()

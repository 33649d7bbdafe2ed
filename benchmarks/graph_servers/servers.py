"""Graph servers of a benchmark: `a3gnn parts serve` in processes of their own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.engine.client import ROOT


@dataclass(frozen=True, slots=True)
class Server:
    """A graph server that runs.

    Attributes:
        address: host:port.
        process: Of it.
    """

    address: str
    process: psutil.Process

    @property
    def processor_s(self) -> float:
        """Seconds of processor time that it has taken."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    @property
    def anonymous_bytes(self) -> int:
        """Memory that it holds and that can't be reclaimed."""
        return int(self.process.memory_info().rss - self.process.memory_info().shared)


@contextmanager
def servers(folder: Path) -> Iterator[list[Server]]:
    """Serves each part in `folder` from a process of its own, by part."""
    with ExitStack() as ends:
        found = []
        for number in range(len(list(folder.glob("part-*")))):
            command = [sys.executable, "-m", "a3gnn", "parts", "serve", str(folder / f"part-{number}"), "--port", "0"]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
            ends.callback(_end, process)
            assert process.stderr is not None
            line = process.stderr.readline()
            address = re.search(r"served at (\S+);", line)
            if address is None:
                raise RuntimeError(line + process.stderr.read())
            found.append(Server(address[1], psutil.Process(process.pid)))
        yield found


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    process.wait(20)
    assert process.stderr is not None
    process.stderr.close()

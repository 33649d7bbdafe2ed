"""`a3gnn serve` as a process, and what it takes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.memory import mapped

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes:
        port: Its port at 127.0.0.1.
        process: Its process.
    """

    port: int
    process: int

    @property
    def cpu_seconds(self) -> float:
        """The processor time that it has taken, without that of its studies' processes."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def anonymous_bytes(self) -> int:
        """The memory that it holds, without files that are mapped."""
        return mapped(self.process)["Anonymous"]


@contextmanager
def serving(folder: Path, at_once: int) -> Iterator[Server]:
    """Yields a server of `folder`, in which so many studies run at once."""
    command = [sys.executable, "-m", "a3gnn", "serve", "--folder", str(folder), "--port", "0"]
    process = subprocess.Popen([*command, "--at-once", str(at_once)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process.stderr as said:
        try:
            yield Server(int(said.readline().split()[3].rpartition(":")[2]), process.pid)
        finally:
            process.terminate()
            process.wait()

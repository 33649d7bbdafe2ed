"""The nodes of a Ray cluster as tests see them, and commands of a3gnn beside them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
#: After that many seconds a test fails that waits: alone, a study's first trials take 55 s on two slow cores.
PATIENCE_S = 300


class Node(NamedTuple):
    """A node of the cluster: Ray's id, the process that others of it live by, and its cache folder."""

    id: str
    raylet: int
    cache: str

    def trials(self) -> list[int]:
        """The trials' processes on it: children of the servers that fork them."""
        servers = {pid for pid in _processes() if self.cache.encode() in _read(pid, "environ") and _is_server(pid)}
        return [pid for pid in servers if _parent(pid) in servers]

    def servers(self) -> list[int]:
        """What of a3gnn runs on it: servers that fork trials, and trials."""
        return [pid for pid in _processes() if self.cache.encode() in _read(pid, "environ") and _is_server(pid)]


class Rays(NamedTuple):
    """The cluster."""

    address: str
    nodes: dict[str, Node]


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "a3gnn", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


@contextlib.contextmanager
def soon(is_time: Callable[[], object], act: Callable[[], object]) -> Iterator[None]:
    """Acts once it is time, in another thread."""

    def wait() -> None:
        wait_until(is_time)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()


def wait_until(holds: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if process is not None and process.poll() is not None:
            raise AssertionError(process.communicate())
        assert time.monotonic() < end, f"it took {PATIENCE_S} s"
        time.sleep(0.05)


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _is_server(pid: int) -> bool:
    return b"a3gnn.process.fork_server" in _read(pid, "cmdline")


def _parent(pid: int) -> int:
    words = _read(pid, "stat").rpartition(b")")[2].split()
    return int(words[1]) if words else 0


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""

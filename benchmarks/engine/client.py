"""The driver's side: an engine in a process of its own, and the memory of processes as it is seen from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from a3gnn.process.memory import process_tree
from benchmarks.engine.workers.work import Unavailable

T = TypeVar("T")
_LINES = re.compile(r"^(\w+):\s+(\d+) kB", re.MULTILINE)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Resident(NamedTuple):
    """Memory of a process tree in bytes; shared pages are divided among processes (PSS).

    Attributes:
        total: All resident pages, including files.
        anonymous: Anonymous and shared-anonymous pages only.
    """

    total: int
    anonymous: int


def mapped(pid: int) -> dict[str, int]:
    """Returns the sizes that the kernel has of a process's mappings in all, in bytes, by the kernel's names (proc(5)).

    Raises:
        OSError: There is no such process, or it is another user's.
    """
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return {name: 1024 * int(size) for name, size in _LINES.findall(text)}


def resident(pid: int) -> Resident:
    """Returns the memory of process `pid` and all its descendants; zero once they are gone."""
    parts = [_resident(member) for member in process_tree(pid)]
    return Resident(sum(part.total for part in parts), sum(part.anonymous for part in parts))


@contextmanager
def watched(read: Callable[[], T], look_s: float) -> Iterator[list[T]]:
    """Collects what `read` returns every `look_s` seconds."""
    seen: list[T] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(look_s):
            seen.append(read())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def _resident(pid: int) -> Resident:
    try:
        found = mapped(pid)
    except OSError:
        return Resident(0, 0)
    anonymous = found.get("Pss_Anon", found.get("Anonymous", 0)) + found.get("Pss_Shmem", 0)
    return Resident(found.get("Pss", 0), anonymous)


def cpu_seconds(pid: int) -> float:
    """Returns the processor time that a process has used so far, without its children; 0 if it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / _TICKS_PER_S


def _tree_seconds(pid: int) -> float:
    return sum(map(cpu_seconds, process_tree(pid)))


def settle(pid: int, patience_s: float = 20.0, look_s: float = 0.1) -> bool:
    """Waits until the process tree is idle, so that it does not disturb the next engine's measurement.

    Returns whether it did so within `patience_s`.
    """
    least = look_s / 5
    end = time.monotonic() + patience_s
    before = _tree_seconds(pid)
    while time.monotonic() < end:
        time.sleep(look_s)
        now = _tree_seconds(pid)
        if now - before <= least:
            return True
        before = now
    return False


ROOT = Path(__file__).resolve().parents[2]
_LOG_TAIL = 1500


class Engine:
    """A worker process that executes requests; a context manager that ends it.

    Args:
        name: a3gnn, dgl or pyg: the module under `workers` that runs.
        python: Interpreter of the environment that the engine is installed in.

    Raises:
        Unavailable: The interpreter is not there, or the worker does not start.
    """

    def __init__(self, name: str, python: Path) -> None:
        self.name = name
        if not python.exists():
            raise Unavailable("not installed")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [str(python), "-W", "ignore", "-m", f"benchmarks.engine.workers.{name}"],
            cwd=ROOT,
            # An engine's idle threads must not spin while another engine is measured.
            env=os.environ | {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        try:
            self.versions: dict[str, str] = self.ask("hello")["versions"]
        except Unavailable:
            self.close()
            raise

    def ask(self, do: str, **arguments: Any) -> Any:
        """Returns the worker's answer.

        Raises:
            Unavailable: It can't do that, failed at it, or is gone; the message is the reason.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Unavailable(f"{self.name}'s worker ended: {self._said()}")
        answer = json.loads(line)
        if "ok" in answer:
            return answer["ok"]
        raise Unavailable(answer.get("unavailable") or answer["failed"].strip()[-_LOG_TAIL:])

    @property
    def alive(self) -> bool:
        """Whether the worker runs."""
        return self._process.poll() is None

    def settle(self) -> bool:
        """Waits until nothing computes in the worker and its children."""
        return settle(self._process.pid)

    def resident(self) -> Resident:
        """Returns the memory of the worker and its children."""
        return resident(self._process.pid)

    def close(self) -> None:
        """Ends the worker, its children and its log."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _said(self) -> str:
        self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self._process.returncode}"

"""`Worker`: runs functions in separate processes, one at a time, under a timeout and a memory limit."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from a3gnn.errors import A3GNNError
from a3gnn.process.child import as_program, described_status
from a3gnn.process.fork_server import WHERE_SIGNAL
from a3gnn.process.memory import FREE_LIMIT, MemoryUse, PeakMemory, process_memory, process_tree, spare_bytes
from a3gnn.storage.workplace import Workplace
from a3gnn.threads.core_time import StolenTime, stretch
from a3gnn.units import format_size

#: Most wall time of a process, in timeouts: a process that hangs must end even if much time is stolen. Guess.
MOST_TIMES = 4
#: Seconds between two looks at the memory of known processes, and between two looks for new processes: these took 60 us
#: per process and 2 ms, 1 % and 2 % of a core (measured on two busy cores).
POLL_SECONDS = 0.005
TREE_SECONDS = 0.1
#: Seconds that the server may take for its imports, and for compiling every kernel if none is cached.
_START_SECONDS = 600.0
#: Seconds that a process gets to write its stack: busy ones took 13 ms, and at most 133 of 60 times, on two busy cores.
_WHERE_SECONDS = 0.2
#: A line of the output of `faulthandler`.
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
#: Extra memory for a process that runs only to compile kernels; about 150 MiB were observed.
_COMPILING_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a function's process.

    Attributes:
        result: The function's result, or None if it did not return.
        status: The process' exit status; minus the signal that ended it.
        killed: The limit for which this process killed it, or "" for none.
        log: Its stdout and stderr; after a timeout, also its stack at that time, at the end.
        peak: Its peak memory, descendants included.
        seconds: Its duration, start of the process included.
        compiled: Whether numba compiled anything in it, which increases its memory and seconds.
        limit_bytes: The limit on its memory: the caller's, or the free memory if that is less; None if unknown.
        limited_by_free: Whether the limit is the free memory, because that was less or the caller set no limit.
    """

    result: dict[str, Any] | None
    status: int
    killed: Literal["", "timeout", "memory", "server"]
    log: str
    peak: MemoryUse
    seconds: float
    compiled: bool = False
    limit_bytes: int | None = None
    limited_by_free: bool = False

    @property
    def which_limit(self) -> str:
        """The limit on its memory as text: its size, and its origin if the caller did not set it."""
        return f"{format_size(self.limit_bytes or 0)}{f' ({FREE_LIMIT})' if self.limited_by_free else ''}"

    @property
    def where(self) -> str:
        """Its place at the timeout, as FILE:LINE in FUNCTION; "" if unknown."""
        frames = _FRAME.findall(self.log.rpartition("(most recent call first)")[2])
        return "" if not frames else "{}:{} in {}".format(*frames[0])

    def why(self) -> str:
        """Returns one line on why it has no result; its log may contain more."""
        after = f"; it was at {self.where}" if self.where else ""
        match self.killed:
            case "timeout":
                return f"took longer than allowed{after}"
            case "memory":
                held = format_size(self.peak.anonymous_bytes)
                return f"passed the limit of {self.which_limit}: it held {held}"
            case "server":
                return "was lost, because the process that started it died"
        return f"ended with {described_status(self.status)}"


class Worker:
    """A fork server and the one process that it runs at a time.

    The server starts at the first `run` (some seconds, mostly torch's import) and runs until `close`. A server that has
    died is replaced.

    Raises:
        A3GNNError: The server can't start; the message contains its stderr.
    """

    def __init__(self) -> None:
        self._workplace = Workplace()
        self._server: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._imports = set[str]()
        self._runs = 0
        self.server_threads = 0

    @property
    def folder(self) -> Path:
        """Folder for files that are needed until the worker is closed."""
        return self._workplace.folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self,
        entry: str,
        argument: dict[str, Any],
        *,
        timeout_s: float = 3600.0,
        limit_bytes: int | None = None,
        imports: Sequence[str] = (),
    ) -> Ended:
        """Calls `entry`, "package.module:function", with `argument` in a new process, and returns how it ended.

        The process is killed after `timeout_s` seconds, not counting stolen time (`Deadline`). It is also killed when
        its anonymous memory passes `limit_bytes`, or the free memory less a reserve. An exception here, such as
        KeyboardInterrupt, kills it too.

        A process that had to compile a kernel does not count: the function is called again in another process, which
        loads that kernel from numba's cache. If `compilations.happened` is true, the function may return early.

        Args:
            entry: The function to call.
            argument: Its argument, of JSON types.
            timeout_s: Seconds.
            limit_bytes: Limit of anonymous memory; None for the free memory less a reserve (`spare_bytes`).
            imports: Modules that the function will import. The server imports them once, for this process and later
                ones. A server that has imported other modules is replaced, because their memory would count as this
                process's.
        """
        order = {"entry": entry, "argument": argument, "imports": list(imports)}
        ended = self._run(order, timeout_s, limit_bytes)
        if not ended.compiled:
            return ended
        if ended.killed == "memory" and limit_bytes is not None:
            self._run(order, timeout_s, limit_bytes + _COMPILING_BYTES)
        return self._run(order, timeout_s, limit_bytes, final=True)

    def _run(self, asked: Mapping[str, Any], timeout_s: float, limit_bytes: int | None, final: bool = False) -> Ended:
        started, deadline = time.monotonic(), Deadline(timeout_s)
        self._runs += 1
        result, log, compiled = (self.folder / f"{self._runs}.{end}" for end in ("json", "log", "compiled"))
        order = {**asked, "result": str(result), "log": str(log), "compiled": "" if final else str(compiled)}
        try:
            self._order(order)
            status, killed, peak, limit = self._follow(deadline, limit_bytes)
        except BaseException:
            self._stop()
            raise
        answer = json.loads(result.read_text(encoding="utf-8")) if result.exists() else None
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if killed == "server":
            text += self._server_log()
            self._stop()
        seconds, free = time.monotonic() - started, limit != limit_bytes
        ended = Ended(answer, status, killed, text, peak, seconds, compiled.exists(), limit, limited_by_free=free)
        for file in (result, log, compiled):
            file.unlink(missing_ok=True)
        return ended

    def close(self) -> None:
        """Ends the server and its process."""
        self._stop()
        self._workplace.close()

    def _order(self, order: dict[str, Any]) -> None:
        """Sends `order` to the server; a server that has died, or has imported other modules, is replaced."""
        line, imports = json.dumps(order).encode() + b"\n", set(order["imports"])
        if self._imports - imports:
            self._stop()
        try:
            self._send(line)
        except BrokenPipeError:
            self._stop()
            self._send(line)
        self._imports |= imports

    def _follow(
        self, deadline: Deadline, limit_bytes: int | None
    ) -> tuple[int, Literal["", "timeout", "memory", "server"], MemoryUse, int | None]:
        """Returns exit status, reason of a kill, peak memory and memory limit of the process of the last order."""
        first = self._answer(None)
        if first is None:
            return -1, "server", MemoryUse(), limit_bytes
        timed_out, limit_bytes = False, _least(limit_bytes, first["pid"])
        with MemoryWatch(first["pid"], limit_bytes) as watch:
            try:
                last = self._answer(deadline)
            except TimeoutError:
                timed_out = True
                _ask_where(first["pid"])
                kill_group(first["pid"])
                last = self._answer(None)
        if watch.passed_limit:
            return -9, "memory", watch.peak, limit_bytes
        if timed_out:
            return -9, "timeout", watch.peak, limit_bytes
        if last is None:
            return -1, "server", watch.peak, limit_bytes
        return last["exit"], "", watch.peak, limit_bytes

    def _start(self) -> None:
        with open(self.folder / "server.log", "wb") as log:
            program = as_program("a3gnn.process.fork_server")
            self._server = program._replace(command=[*program.command, str(os.getpid())]).start(log)
        self._unread = b""
        ready = self._answer(Deadline(_START_SECONDS))
        if ready is None:
            text = self._server_log()
            self._stop()
            raise A3GNNError(f"the process that starts trials can't start; its log:\n{text}")
        self.server_threads = ready["ready"]

    def _stop(self) -> None:
        self._imports = set()
        if self._server is None:
            return
        server, self._server = self._server, None
        assert server.stdin is not None
        assert server.stdout is not None
        with suppress(BrokenPipeError):
            server.stdin.close()
        try:
            server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()

    def _send(self, line: bytes) -> None:
        """Sends `line` to the server, and starts a server first if there is none.

        Raises:
            BrokenPipeError: The server has died.
        """
        if self._server is None:
            self._start()
        assert self._server is not None
        assert self._server.stdin is not None
        self._server.stdin.write(line)
        self._server.stdin.flush()

    def _answer(self, deadline: Deadline | None) -> dict[str, int] | None:
        """Returns the server's next answer, or None if the server has died.

        Raises:
            TimeoutError: No answer came before `deadline`.
        """
        assert self._server is not None
        assert self._server.stdout is not None
        output = self._server.stdout.fileno()
        while b"\n" not in self._unread:
            patience = None if deadline is None else deadline.left_s()
            if not select.select([output], [], [], patience)[0]:
                if patience:  # some of that time may have been stolen, so look again
                    continue
                raise TimeoutError
            piece = os.read(output, 4096)
            if not piece:
                return None
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, int] = json.loads(line)
        return answer

    def _server_log(self) -> str:
        return (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")


class Deadline:
    """A deadline that starts at its creation.

    Args:
        timeout_s: Seconds until the deadline if no time is stolen from the machine.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._stolen = StolenTime()

    def left_s(self) -> float:
        """Returns the seconds left, or 0 after the deadline; time that is stolen from now on extends it."""
        return left_seconds(self._timeout_s, self._stolen.passed_s(), self._stolen.share())


def left_seconds(timeout_s: float, passed_s: float, stolen_share: float) -> float:
    """Returns how many seconds of `timeout_s` are left if no more time is stolen.

    The passed time counts without its stolen share. After `MOST_TIMES * timeout_s` seconds of wall time nothing is
    left.

    Args:
        timeout_s: Seconds allowed on a machine without stolen time.
        passed_s: Wall seconds passed.
        stolen_share: Share of the cores' time that was stolen in these seconds, in [0, 1].
    """
    counted_s = passed_s / stretch(stolen_share)
    return max(0.0, min(timeout_s - counted_s, MOST_TIMES * timeout_s - passed_s))


class MemoryWatch:
    """Records the peak memory of process `pid` and its descendants while the context is open.

    Attributes:
        peak: Largest value of each figure, including peaks between two looks (`PeakMemory`).
        passed_limit: Whether the anonymous memory passed `limit_bytes`, even for a moment; the process group of `pid`
            was then killed.
    """

    def __init__(self, pid: int, limit_bytes: int | None = None) -> None:
        self.peak = MemoryUse()
        self.passed_limit = False
        self._pid = pid
        self._limit = limit_bytes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"memory-watch-{pid}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        tree, look_again = {self._pid: PeakMemory(self._pid)}, 0.0
        while True:
            now = time.monotonic()
            if now >= look_again:
                tree = {pid: tree.get(pid) or PeakMemory(pid) for pid in process_tree(self._pid)}
                look_again = now + TREE_SECONDS
            use = sum((one.look() for one in tree.values()), start=MemoryUse())
            self.peak = self.peak.peak(use)
            if self._limit is not None and use.anonymous_bytes > self._limit and not self.passed_limit:
                self.passed_limit = True
                kill_group(self._pid)
            if self._stop.wait(POLL_SECONDS):
                return


def kill_group(pid: int) -> None:
    """Kills the process group that `pid` leads; does nothing if the group has ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _least(limit_bytes: int | None, pid: int) -> int | None:
    """Returns the limit of the started process `pid`: `limit_bytes`, or the free memory if that is less."""
    spare = spare_bytes()
    if spare is None:
        return limit_bytes
    free = process_memory(pid).anonymous_bytes + spare  # the system no longer counts its memory as free
    return free if limit_bytes is None else min(limit_bytes, free)


def _ask_where(pid: int) -> None:
    """Makes the process `pid` write its stack to its log."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, WHERE_SIGNAL)
        time.sleep(_WHERE_SECONDS)

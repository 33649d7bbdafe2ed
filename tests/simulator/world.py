"""`World`: the clocks, the disk and the child processes of simulated tunes, with faults by a seed."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, tzinfo
from functools import cache
from pathlib import Path
from random import Random
from threading import Thread
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import patch

import sqlalchemy as sa

from a3gnn.measurement import Failure, Metrics
from a3gnn.process.memory import MemoryUse
from a3gnn.process.worker import Ended
from a3gnn.profiling import executor, profiler
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.request import TrialRequest
from a3gnn.profiling.store import store
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.storage import claim
from a3gnn.training import examine
from a3gnn.tuning.run import session
from tests.curves import made_metrics
from tests.simulator.disk import GROWING, Crash, Disk, Process
from tests.tuning.formulas import Formulas

#: Errors of a single call: a fault of the disk, and a permission that is missing.
ERRORS = {"io": errno.EIO, "denied": errno.EACCES}
#: How a process ends by a fault: by kill -9, by a loss of power, by Ctrl-C, on a full disk, by an error of a call.
ENDINGS = ("kill", "power", "interrupt", "full", *ERRORS)
#: Ends of a child process: by a signal, by the kernel for lack of memory, with its fork server, by its own fault, or
#: not before the timeout.
FATES = ("killed", "no memory", "server", "crashed", "hangs")
_STEP_S, _HANG_S = 1e-4, 1e9
#: Share of the changes before which another process gets its turn, and real seconds until both count as stuck. Guesses.
_SWITCHES, _PATIENCE_S = 0.2, 60.0
_FLOCK = fcntl.flock


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens at a change of the disk.

    Attributes:
        at: The number of the change, since the process began.
        kind: One of `ENDINGS`, or the name of an event (`World.events`).
    """

    at: int
    kind: str


class World:
    """Everything that a tune sees of its machine, but for the graph.

    Args:
        root: An empty folder for everything that is written.
        seed: Decides what a fault leaves, ids and names, and which of two processes runs.
        alter: What trials find (`Formulas`).

    Attributes:
        events: What can happen at a change without ending the process, by name.
        fates: How child processes end, by their number; others succeed.
        disk: The disk.
        trials: The requests of all trials that ran.
        process: The last process that began by `run`.
        beside: What a process ended with that ran beside it; None if none did.
        children: Processes that tunes have started.
        trace: All changes of the disk, as text.
    """

    def __init__(self, root: Path, seed: int, alter: Callable[[TrialRequest, Metrics, int], Metrics | Failure]) -> None:
        self.rng, self.trace = Random(f"world {seed}"), list[str]()
        self.wall_s, self.monotonic_s = 1.8e9, 1e5
        self.events: dict[str, Callable[[], None]] = {"back": self._jump_back, "forward": self._jump_forward}
        self.fates: dict[int, str] = {}
        self.disk = Disk(root, self._step)
        self.trials: list[TrialRequest] = []
        self.process, self.alter = self.disk.process, alter
        self.beside: object = None
        self._full = self._paused = False
        self._other: Process | None = None  # which waits for its turn
        self._thread: Thread | None = None
        self._kills = self.children = 0
        self._names = iter(f"{number:08x}" for number in range(1 << 30))

    @contextmanager
    def run(self, faults: tuple[Fault, ...]) -> Iterator[None]:
        """Runs a process in its context, in which `faults` happen; raises `Crash` if one of them kills it.

        A process that begins beside it has ended, too, when the context ends.
        """
        process = self.process = self.disk.process = Process({fault.at: fault.kind for fault in faults})
        self._full, self.beside = False, None
        claim._held.clear()
        try:
            with self._patched(), self.disk.watched():
                try:
                    yield
                finally:
                    self._end(process)
                    self._end_beside()
        except Crash:
            if "power" in process.faults.values():
                self.disk.lose_power(self.rng)
            raise

    def begin_beside(self, run: Callable[[], object]) -> None:
        """Begins another process, unless one runs already; from now on, the two take turns by chance."""
        if self._thread is not None:
            return
        process = Process()

        def live() -> None:
            _wait(process)
            try:
                self.beside = run()
            except BaseException as error:
                self.beside = error
            self._end(process)
            if self._other is not None:
                self.disk.process, self._other = self._other, None
                self.disk.process.turn.release()

        self._other, self._thread = process, Thread(target=live, daemon=True)
        self._thread.start()

    def _end(self, process: Process) -> None:
        claim._held.difference_update(process.files)
        self.disk.end(process)

    def _end_beside(self) -> None:
        """Lets the process beside run to its end."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._other is not None:
            self.disk.process, self._other = self._other, None
            self.disk.process.turn.release()
        thread.join(_PATIENCE_S)
        assert not thread.is_alive(), "it waits for something"

    def _switch(self) -> None:
        """Lets the other process run, by chance; raises `Crash` if this one has ended by a fault meanwhile."""
        own = self.disk.process
        if self._paused or own.is_dead or self._other is None or self.rng.random() > _SWITCHES:
            return
        self.disk.process, self._other = self._other, own
        self.disk.process.turn.release()
        _wait(own)
        if own.is_dead:
            raise Crash

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Lets no fault happen in its context."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def sleep(self, seconds: float) -> None:
        """Lets `seconds` pass."""
        self.wall_s, self.monotonic_s = self.wall_s + seconds, self.monotonic_s + seconds

    def _sleep(self, seconds: float) -> None:
        self.sleep(seconds)
        self._switch()

    def _lock(self, file: int, operation: int) -> None:
        if operation & fcntl.LOCK_NB and file in self.disk.process.files:
            self._switch()
        _FLOCK(file, operation)

    @contextmanager
    def _patched(self) -> Iterator[None]:
        """Replaces clocks, ids, names of scratch folders, child processes and the store's transactions."""
        ids = SimpleNamespace(uuid4=lambda: uuid.UUID(int=self.rng.getrandbits(128)))
        clock = _clock(self)
        changes: tuple[tuple[Any, str, Any], ...] = (
            *((time, name, read) for name, read in (("time", lambda: self.wall_s), ("sleep", self._sleep))),
            (time, "monotonic", lambda: self.monotonic_s),
            (fcntl, "flock", self._lock),
            *((module, "datetime", clock) for module in (profiler, session)),
            (profiler, "uuid", ids),
            (tempfile, "_name_sequence", self._names),
            *((module, "Worker", lambda: Children(self)) for module in (executor, examine)),
            (executor, "oom_kills", lambda: self._kills),
            (store, "writing", self._writing(store.writing)),
            (ProfileStore, "_write", self._written(ProfileStore._write)),
        )
        with ExitStack() as stack:
            for change in changes:
                stack.enter_context(patch.object(*change))
            yield

    def _writing(self, real: Callable[[sa.Engine], sa.Engine]) -> Callable[[sa.Engine], sa.Engine]:
        def begin(engine: sa.Engine) -> sa.Engine:
            try:
                self.disk.step("store", Path(engine.url.database or ""))
            except OSError as error:
                raise sa.exc.OperationalError("INSERT", {}, error) from error  # as SQLAlchemy wraps SQLite's
            return real(engine)

        return begin

    def _written(self, real: Callable[..., int]) -> Callable[..., int]:
        def write(self_: ProfileStore, *args: Any, **options: Any) -> int:
            written = real(self_, *args, **options)
            self.disk.sync_names()  # SQLite syncs the folder of its log
            self.disk.step("stored", self.disk.root)
            return written

        return write

    def child(self, run: Callable[[], Ended]) -> Ended:
        """Runs a child process, which may be lost."""
        self.disk.step("child", self.disk.root)
        fate = self.fates.get(self.children)
        self.children += 1
        ended = run()
        self.disk.step("ended", self.disk.root)
        lost = dataclasses.replace(ended, result=None)
        match fate:
            case "killed":
                return dataclasses.replace(lost, status=-9)
            case "no memory":
                self._kills += 1
                return dataclasses.replace(lost, status=-9)
            case "server":
                return dataclasses.replace(lost, status=0, killed="server")
            case "crashed":
                return dataclasses.replace(lost, status=1, log="RuntimeError: by chance")
            case "hangs":
                return dataclasses.replace(lost, status=-9, killed="timeout", seconds=_HANG_S)
        return ended

    def _step(self, name: str, path: Path, size: int) -> int:
        self.sleep(_STEP_S)
        place = path.relative_to(self.disk.root) if path.is_relative_to(self.disk.root) else path.name
        self.trace.append(f"{name} {place} {size}" if size else f"{name} {place}")
        self._switch()
        process = self.disk.process
        if self._paused:
            return size
        number, process.changes = process.changes, process.changes + 1
        late, process.late = process.late, ""
        fault = late or process.faults.get(number, "")
        part = self.rng.randint(0, size) if fault and size and not late else 0
        if fault in ("kill", "power"):
            if fault == "power" and self._other is not None:
                self._other.is_dead = True
            raise Crash(part)
        if fault == "interrupt":
            raise KeyboardInterrupt
        if fault == "full":
            self._full = True
        elif fault and part:
            process.late = fault  # after a short write, which a writer goes on with
        elif fault in ERRORS:
            raise OSError(ERRORS[fault], os.strerror(ERRORS[fault]), str(path))
        elif fault:
            with self.paused():
                self.events[fault]()
        if part:
            return part
        if self._full and name in GROWING:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return size

    def _jump_back(self) -> None:
        self.wall_s -= self.rng.choice((1.0, 60.0, 3600.0, 1e6))

    def _jump_forward(self) -> None:
        jump_s = self.rng.choice((1.0, 60.0, 3600.0, 1e6))
        self.wall_s += jump_s
        self.monotonic_s += self.rng.choice((0.0, jump_s))


class Machine(LocalExecutor):
    """This machine's executor, whose processes belong to a world, and which has nothing to compile."""

    def make_ready(self, graph: object, task: object) -> float:
        """Returns no seconds."""
        return 0.0


class Children:
    """Runs trials by formulas, in place of processes (`a3gnn.process.worker.Worker`)."""

    def __init__(self, world: World) -> None:
        self._world, self.folder = world, world.disk.root
        self._machine = Formulas(made_metrics, world.alter)
        self._machine.enforces_limits = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run(
        self,
        entry: str,
        argument: dict[str, Any],
        *,
        timeout_s: float,
        limit_bytes: int | None,
        imports: tuple[str, ...] = (),
    ) -> Ended:
        """Returns the end of a child process."""
        if entry.endswith(":examine"):
            self._world.disk.step("child", self.folder)
            return Ended(_examined(json.dumps(argument)), 0, "", "", MemoryUse(), 1.0)
        if not entry.endswith(":run_trial"):
            return self._world.child(lambda: Ended({"seconds": 1.0}, 0, "", "", MemoryUse(), 1.0))
        request = TrialRequest.from_dict(argument["request"])
        self._world.trials.append(request)
        ended = self._world.child(lambda: self._trial(request, limit_bytes))
        seconds = min(ended.seconds, timeout_s)
        self._world.sleep(seconds)
        if ended.seconds > timeout_s:
            return dataclasses.replace(ended, result=None, status=-9, killed="timeout", seconds=seconds)
        return ended

    def _trial(self, request: TrialRequest, limit_bytes: int | None) -> Ended:
        found: Metrics | Failure = self._machine.run(request)
        assert isinstance(found, Metrics)
        peak = MemoryUse(found.peak_host_bytes, found.resident_file_bytes)
        seconds = found.setup_seconds + 2.0 + found.curve_train_seconds
        if limit_bytes is not None and peak.anonymous_bytes > limit_bytes:
            return Ended(None, -9, "memory", "", peak, seconds, limit_bytes=limit_bytes)
        return Ended({"metrics": found.to_dict()}, 0, "", "", peak, seconds)

    def close(self) -> None:
        """Does nothing: there is no process."""


@cache
def _examined(argument: str) -> dict[str, Any]:
    return examine.examine(json.loads(argument))


def _wait(process: Process) -> None:
    assert process.turn.acquire(timeout=_PATIENCE_S), "the other process waits, too"


def _clock(world: World) -> type[datetime]:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(world.wall_s, tz)

    return Clock

"""Functions in processes of their own, from a real fork server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a3gnn.process import memory
from a3gnn.process import worker as worker_module
from a3gnn.process.memory import MemoryUse, PeakMemory, process_memory, spare_bytes
from a3gnn.process.worker import Ended, Worker
from a3gnn.storage.host_limits import available_bytes
from a3gnn.storage.workplace import sweep

MIB = 1 << 20


def alive(pid: int) -> bool:
    """Whether `pid` runs; one that has ended and is not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(reached: object, seconds: float = 60.0) -> bool:
    """Whether the callable `reached` came true in time."""
    assert callable(reached)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if reached():
            return True
        time.sleep(0.02)
    return False


def stopped(worker: Worker, entry: str, argument: dict[str, Any], reached: Callable[[Ended], bool]) -> Ended:
    """How a process that hangs ended, after more and more time until it had `reached` the place where it does."""
    for timeout_s in (1.0, 8.0, 60.0):  # a busy machine is slow to start it
        ended = worker.run(entry, argument, timeout_s=timeout_s)
        assert (ended.result, ended.killed) == (None, "timeout")
        if reached(ended):
            break
    return ended


@pytest.fixture
def watched_chores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An argument with which chores go on only after the watch has looked at them, however busy the machine is."""

    class Seeing(PeakMemory):
        def look(self) -> MemoryUse:
            there = [one for one in tmp_path.glob("*.there") if int(one.read_text()) == self._pid]
            found = super().look()
            for one in there:
                one.with_suffix(".seen").touch()
            return found

    monkeypatch.setattr(worker_module, "PeakMemory", Seeing)
    return {"folder": str(tmp_path)}


@pytest.fixture
def at_start(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The memory of each process as its limit was decided."""
    found: list[int] = []

    def noted(pid: int) -> MemoryUse:
        use = process_memory(pid)
        found.append(use.anonymous_bytes)
        return use

    monkeypatch.setattr(worker_module, "process_memory", noted)
    return found


def test_a_result_comes_back(worker: Worker) -> None:
    ended = worker.run("chores:echo", {"text": "añ", "numbers": [1, 2.5]})
    assert ended.result == {"text": "añ", "numbers": [1, 2.5]}
    assert (ended.status, ended.killed, ended.log) == (0, "", "")


def test_the_server_has_one_thread(worker: Worker) -> None:
    worker.run("chores:echo", {})
    assert worker.server_threads == 1


def test_torch_threads_work_after_the_fork(worker: Worker) -> None:
    ended = worker.run("chores:threads", {}, timeout_s=60)
    assert ended.result is not None
    assert ended.result["sum"] == 600.0**3
    assert ended.result["threads"] >= 2


def test_what_an_optimizer_imports_is_there_before_a_trial_and_in_its_memory(
    worker: Worker, watched_chores: dict[str, str]
) -> None:
    without = worker.run("chores:idle", {})
    assert without.result is not None
    ended = worker.run("chores:optimize", watched_chores, imports=["torch._dynamo"])
    assert ended.result is not None
    assert len(ended.result["imported"]) < 10  # torch._dynamo and what it takes along are hundreds
    # The pages are the server's, and count in full: as they would in a process that had imported them itself.
    measure = "import os, torch; from a3gnn.process.memory import process_memory as of; before = of(os.getpid()); "
    measure += "import torch._dynamo; print(of(os.getpid()).anonymous_bytes - before.anonymous_bytes)"
    imported = int(subprocess.check_output([sys.executable, "-c", measure]))
    assert ended.result["before"] - without.result["bytes"] > imported / 2
    assert ended.result["more"] < imported / 2
    assert ended.peak.anonymous_bytes >= ended.result["before"]


def test_memory_is_followed(worker: Worker, watched_chores: dict[str, str]) -> None:
    size = 100 * MIB
    ended = worker.run("chores:hold", {"bytes": size, **watched_chores})
    assert ended.result is not None
    # By what the process itself found: an idle process takes more or less at another moment, or on another machine.
    assert ended.result["held"] - ended.result["before"] > size / 2
    assert abs(ended.peak.anonymous_bytes - ended.result["held"]) < size / 2


def test_memory_of_a_childs_child_is_followed(worker: Worker, watched_chores: dict[str, str]) -> None:
    size = 100 * MIB
    ended = worker.run("chores:hold_in_child", {"bytes": size, **watched_chores})
    assert ended.result is not None
    both = ended.result["parent"] + ended.result["child"]["held"]
    assert abs(ended.peak.anonymous_bytes - both) < size / 2


def test_a_memory_limit_ends_the_process(worker: Worker, at_start: list[int]) -> None:
    worker.run("chores:idle", {})
    limit = at_start[-1] + 100 * MIB
    ended = worker.run("chores:hold", {"bytes": 200 * MIB, "seconds": 3600}, limit_bytes=limit)
    assert (ended.result, ended.killed) == (None, "memory")
    assert ended.peak.anonymous_bytes > limit


def test_a_peak_of_less_than_a_poll_counts(
    worker: Worker, watched_chores: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 24 * MIB
    for _ in range(5):  # each of which a poll would miss more often than not
        for file in Path(watched_chores["folder"]).iterdir():
            file.unlink()
        ended = worker.run("chores:hold_for_a_moment", {"bytes": size, **watched_chores})
        assert ended.result is not None
        assert ended.peak.anonymous_bytes - ended.result["before"] > size / 2
    for file in Path(watched_chores["folder"]).iterdir():
        file.unlink()
    above_its_own = lambda asked, pid: process_memory(pid).anonymous_bytes + size // 2  # noqa: E731
    monkeypatch.setattr(worker_module, "_least", above_its_own)
    ended = worker.run("chores:hold_for_a_moment", {"bytes": size, **watched_chores})
    assert (ended.result, ended.killed) == (None, "memory")


def test_a_timeout_ends_the_process(worker: Worker, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    stopped(worker, "chores:sleep_after_telling", {"path": str(path)}, lambda _: path.exists())
    assert wait_until(lambda: not alive(int(path.read_text())))


def test_a_process_that_hangs_tells_where(worker: Worker) -> None:
    ended = stopped(worker, "chores:wait_for_nobody", {}, lambda ended: ended.where.endswith(" in wait"))
    assert ended.where.endswith(" in wait")
    assert "chores.py" in ended.log
    slept = stopped(worker, "chores:wait_for_long", {}, lambda ended: ended.where.endswith(" in wait_for_long"))
    assert re.fullmatch(r".*/chores\.py:\d+ in wait_for_long", slept.where)
    assert worker.run("chores:echo", {}).where == ""


def test_what_is_free_less_a_reserve_is_a_limit_of_every_process(
    worker: Worker, at_start: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is free is given: other work may take or leave memory at any time.
    free = available_bytes()
    assert free is not None
    monkeypatch.setattr(memory, "available_bytes", lambda: free)
    idle = worker.run("chores:idle", {})
    assert (idle.killed, idle.limited_by_free, idle.limit_bytes) == ("", True, at_start[-1] + spare_bytes())
    # A machine that has just been filled can't be had here: what the kernel says is free is lowered.
    monkeypatch.setattr(memory, "available_bytes", lambda: 64 * MIB)
    for asked in (None, 64 << 30):
        ended = worker.run("chores:hold", {"bytes": 200 * MIB, "seconds": 3600}, limit_bytes=asked)
        assert (ended.killed, ended.limit_bytes) == ("memory", at_start[-1] + spare_bytes())
        assert 0 < spare_bytes() < 64 * MIB
        assert ended.why().startswith("passed the limit of ")
        assert ended.limited_by_free
        assert "MiB (its memory at the start plus the machine's free memory, less a reserve)" in ended.why()
    ended = worker.run("chores:hold", {"bytes": 200 * MIB, "seconds": 3600}, limit_bytes=16 * MIB)
    assert (ended.killed, ended.limit_bytes, ended.limited_by_free) == ("memory", 16 * MIB, False)
    assert "free memory" not in ended.why()


def test_an_exception_leaves_its_traceback(worker: Worker) -> None:
    ended = worker.run("chores:fail", {})
    assert (ended.result, ended.status) == (None, 1)
    assert ended.log.endswith("ValueError: the reason\n")


def test_a_signal_is_the_status(worker: Worker) -> None:
    ended = worker.run("chores:die", {})
    assert ended.status == -signal.SIGKILL
    assert "SIGKILL, which the kernel sends when memory runs out" in ended.why()


def test_a_server_that_dies_is_replaced(worker: Worker) -> None:
    ended = worker.run("chores:kill_server", {}, timeout_s=30)
    assert (ended.result, ended.killed) == (None, "server")
    assert worker.run("chores:echo", {"again": 1}).result == {"again": 1}


def test_an_interrupt_ends_the_process(worker: Worker, tmp_path: Path) -> None:
    path = tmp_path / "pid"

    def interrupt() -> None:
        wait_until(lambda: path.exists() and path.read_text() != "")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        worker.run("chores:sleep_after_telling", {"path": str(path)}, timeout_s=30)
    other.join()
    assert wait_until(lambda: not alive(int(path.read_text())))
    assert worker.run("chores:echo", {"again": 1}).result == {"again": 1}


def test_a_script_without_a_guard_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    (tmp_path / "chores.py").write_text(
        "import os, pathlib, time\n"
        "def work(argument):\n"
        "    pathlib.Path(argument['path']).write_text(str(os.getpid()))\n"
        "    time.sleep(60)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(
        f"from a3gnn.process.worker import Worker\nWorker().run('chores:work', {{'path': {str(pid)!r}}})\n"
    )
    root = Path(__file__).parents[2]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(temporary)}
    process = subprocess.Popen([sys.executable, str(script)], env=environment)
    try:
        assert wait_until(lambda: pid.exists() and pid.read_text() != "", 60)
    finally:
        process.kill()
        process.wait()
    assert wait_until(lambda: not alive(int(pid.read_text())))
    # Beside it lies a folder that torch makes per user, when what its optimizers need is imported.
    assert len(list(temporary.glob("a3gnn-work-*"))) == 1
    sweep(temporary)  # as the next worker does
    assert not list(temporary.glob("a3gnn-*"))


def test_what_a_function_imports_is_imported_once_without_a_thread(worker: Worker) -> None:
    found = worker.run("chores:modules_and_threads", {}, imports=["wsgiref.handlers", "no.such.module"]).result
    assert found is not None
    assert "wsgiref.handlers" in found["modules"]
    assert found["threads"] == 1
    assert found["collects"]  # garbage, which the server itself does not


def test_a_server_that_imported_what_is_not_asked_for_is_replaced(worker: Worker) -> None:
    first, same, other = (
        worker.run("chores:modules_and_threads", {}, imports=imports).result
        for imports in (["wsgiref.handlers"], ["wsgiref.handlers"], [])
    )
    assert first is not None
    assert same is not None
    assert other is not None
    assert first["server"] == same["server"] != other["server"]
    assert "wsgiref.handlers" not in other["modules"]

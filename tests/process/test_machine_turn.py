"""One trial at a time on a machine: real processes, real locks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from a3gnn.process.machine_turn import machine_turn, seconds_waited
from a3gnn.tuning.study.budget import Budget

HOLD = """
import sys
from a3gnn.process.machine_turn import machine_turn
with machine_turn(print):
    print("held", flush=True)
    sys.stdin.readline()
print("given back", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lock of each test."""
    monkeypatch.setenv("A3GNN_MACHINE_LOCK", str(tmp_path / "lock"))
    return tmp_path / "lock"


@contextmanager
def holder() -> Iterator[subprocess.Popen[str]]:
    """A process that has the turn until it reads a line."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_another_process_is_waited_for_and_named() -> None:
    with holder() as other:
        lines: list[str] = []

        def told(line: str) -> None:
            lines.append(line)
            assert other.stdin is not None
            other.stdin.write("\n")  # only now does it give the turn back
            other.stdin.flush()

        before, begun = seconds_waited(), time.monotonic()
        budget = Budget(60.0, begun)
        with machine_turn(told):
            assert len(lines) == 1
            assert lines[0].startswith(f"waiting for another trial on this machine to end: process {other.pid} since ")
            assert "machine_turn(print)" in lines[0]
        assert seconds_waited() > before
        assert budget.elapsed_s <= time.monotonic() - begun - (seconds_waited() - before)
        with machine_turn(told):
            assert len(lines) == 1


def test_a_killed_process_has_given_its_turn_back() -> None:
    lines: list[str] = []
    with holder() as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        with machine_turn(lines.append):
            assert lines == []


def test_the_wait_can_be_interrupted() -> None:
    with holder():

        def interrupt(line: str) -> None:
            threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()

        with pytest.raises(KeyboardInterrupt), machine_turn(interrupt):
            raise AssertionError("another process has the turn")
    lines: list[str] = []
    with machine_turn(lines.append):
        assert lines == []


def test_a_thread_may_take_its_turn_again_and_others_wait() -> None:
    order: list[str] = []

    def work() -> None:
        with machine_turn(order.append):
            order.append("other")

    with machine_turn(order.append):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(0.1)
        with machine_turn(order.append):
            order.append("inner")
        thread.join(0.1)
        order.append("outer")
    thread.join()
    assert order == ["inner", "outer", "other"]


def test_a_forked_child_keeps_no_turn() -> None:
    with machine_turn(print):
        child = os.fork()
        if child == 0:
            signal.pause()
    lines: list[str] = []
    try:
        with machine_turn(lines.append):
            assert lines == []
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_every_user_may_lock_it(lock: Path) -> None:
    before = os.umask(0o077)
    try:
        with machine_turn(print):
            assert lock.stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


def test_a_password_is_not_shown(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["a3gnn", "--store", "postgresql://me:secret@host/rows"])
    with machine_turn(print):
        assert lock.read_text().endswith("(a3gnn --store postgresql://me:...@host/rows)")
    assert lock.read_text() == ""


@pytest.mark.parametrize("kind", ["link", "folder", "fifo"])
def test_what_is_no_plain_file_is_left_alone_and_said(lock: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    {"link": lambda: lock.symlink_to(target), "folder": lock.mkdir, "fifo": lambda: os.mkfifo(lock)}[kind]()
    lines: list[str] = []
    with machine_turn(lines.append):
        assert len(lines) == 1
        assert "A3GNN_MACHINE_LOCK" in lines[0]
    assert target.read_text() == "precious"

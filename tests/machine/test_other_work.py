"""What counts as other processes' work, by seconds of cores rather than of the clock."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from a3gnn.machine import other_work
from a3gnn.machine.other_work import OtherWork
from a3gnn.threads import core_time

BUSY = "import time\nwhile time.process_time() < 0.5: pass"


def _burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_own_work_is_that_of_threads_and_of_descendants_running_or_ended() -> None:
    before = other_work._own_seconds()
    thread = threading.Thread(target=_burn, args=(0.5,))
    thread.start()
    thread.join()
    threads = other_work._own_seconds()
    assert threads - before >= 0.45
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    ended = other_work._own_seconds()
    assert ended - threads >= 0.45
    with subprocess.Popen(
        [sys.executable, "-c", f"{BUSY}\nprint(flush=True)\ninput()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdout.readline()
        assert other_work._own_seconds() - ended >= 0.45
        running.stdin.write(b"\n")


def test_others_have_what_is_not_own(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, own, stolen = [100.0], [40.0], [7.0]
    monkeypatch.setattr(core_time, "busy_seconds", lambda: busy[0])
    monkeypatch.setattr(core_time, "stolen_seconds", lambda: stolen[0])
    monkeypatch.setattr(other_work, "_own_seconds", lambda: own[0])
    work = OtherWork()
    busy[0], own[0], stolen[0] = 107.0, 44.0, 9.0
    assert work.seconds() == 3.0
    assert work.stolen_seconds() == 2.0
    assert work.stolen_share() == 1.0  # more than there can have been since a moment ago
    own[0] = 50.0  # ticks of the two are not counted at the same moment
    assert work.seconds() == 0.0

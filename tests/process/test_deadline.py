"""Deadlines that stolen time moves, by an injected count: no test can have a hypervisor steal."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.process import worker as worker_module
from a3gnn.process.worker import MOST_TIMES, Deadline, Worker, left_seconds
from a3gnn.threads import core_time
from a3gnn.threads import core_time as stolen_time
from a3gnn.threads.affinity import available_cores
from a3gnn.threads.core_time import stretch

PASSED = st.floats(0, 1e5)
SHARES = st.floats(0, 1)


@given(passed_s=PASSED)
def test_where_nothing_is_stolen_it_is_the_clocks(passed_s: float) -> None:
    assert left_seconds(600.0, passed_s, 0.0) == max(0.0, 600.0 - passed_s)


@given(timeout_s=st.floats(0.1, 1e4), share=st.floats(0, 0.5))
def test_work_that_fits_where_nothing_is_stolen_fits(timeout_s: float, share: float) -> None:
    done_s = timeout_s * stretch(share)
    assert left_seconds(timeout_s, 0.999 * done_s, share) > 0
    assert left_seconds(timeout_s, 1.001 * done_s, share) == 0


@given(share=SHARES, more=SHARES, passed_s=PASSED)
def test_what_is_stolen_leaves_no_less_and_nothing_is_left_after_the_most(
    share: float, more: float, passed_s: float
) -> None:
    less, most = sorted((share, more))
    assert left_seconds(600.0, passed_s, less) <= left_seconds(600.0, passed_s, most)
    assert left_seconds(600.0, MOST_TIMES * 600.0, most) == 0
    assert passed_s + left_seconds(600.0, passed_s, most) <= max(passed_s, MOST_TIMES * 600.0)


def test_it_counts_by_the_clock_and_by_what_the_kernel_says_was_stolen(monkeypatch: pytest.MonkeyPatch) -> None:
    now, share = [5.0], [0.0]
    monkeypatch.setattr(stolen_time, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(core_time, "stolen_seconds", lambda: share[0] * (now[0] - 5.0) * available_cores())
    deadline = Deadline(10.0)
    now[0] = 11.0
    assert deadline.left_s() == 4.0
    share[0] = 0.25
    assert deadline.left_s() == pytest.approx(10.0 - 6.0 / stretch(0.25))
    now[0] = 5.0 + MOST_TIMES * 10.0
    assert deadline.left_s() == 0


def test_a_process_goes_on_while_its_cores_are_stolen(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.run("chores:echo", {})  # starts the server
    monkeypatch.setattr(core_time, "stolen_seconds", lambda: available_cores() * time.monotonic())
    monkeypatch.setattr(worker_module, "MOST_TIMES", 1e6)  # a busy machine may be slow to start it
    ended = worker.run("chores:sleep", {"seconds": 1.5}, timeout_s=1.0)
    assert (ended.result, ended.killed) == ({}, "")


def test_one_that_hangs_ends_however_much_is_stolen(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_time, "stolen_seconds", lambda: available_cores() * time.monotonic())
    ended = worker.run("chores:hold", {"bytes": 1, "seconds": 60}, timeout_s=0.5)
    assert (ended.result, ended.killed) == (None, "timeout")
    assert ended.seconds >= 0.5 * MOST_TIMES

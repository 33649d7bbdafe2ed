"""Trials whose processes are killed, for real: they are tried again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import Failure, FailureKind
from a3gnn.process.worker import MemoryWatch
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.profiler import Profiler
from a3gnn.profiling.request import CurvePlan, TrialPlan
from a3gnn.profiling.store.store import ProfileStore
from a3gnn.setting import Setting
from a3gnn.task import Task

#: Long enough that a trial is killed before it ends, also where both cores are busy.
PLAN = TrialPlan(curve=CurvePlan(1e6, most_epochs=200), warmup_batches=1, timed_seconds=0.0, timeout_s=120.0)
TASK = Task(hidden_channels=16, fanouts=(5, 5))
CONFIG = TrainConfig(batch_size=64)


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def profiler(
    executor: LocalExecutor, tiny_graph: Graph, this_machine: Hardware, tmp_path: Path, lines: list[str]
) -> Iterator[Callable[[], Profiler]]:
    """Makes profilers of one store, one for each run."""
    executor.worker.run("a3gnn.machine.probe:idle_memory", {})  # the server is up, and this process' tree holds it
    setting = Setting(TASK, tiny_graph.characteristics(), this_machine)
    with ProfileStore.open(tmp_path / "profiles.db") as store:
        yield lambda: Profiler(store, tiny_graph, setting, PLAN, executor, lines.append)


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has the next `times` trials killed as soon as their process has started, or the process `instead` of them."""

    def kill(times: int, instead: int = 0) -> None:
        left = iter(range(times))

        class Watch(MemoryWatch):
            def __init__(self, pid: int, limit_bytes: int | None = None) -> None:
                super().__init__(pid, limit_bytes)
                if next(left, None) is not None:
                    os.kill(instead or pid, signal.SIGKILL)

        monkeypatch.setattr("a3gnn.process.worker.MemoryWatch", Watch)

    return kill


def test_a_trial_that_is_killed_once_is_measured(
    profiler: Callable[[], Profiler], kill: Callable[..., None], lines: list[str]
) -> None:
    kill(1)
    found = profiler().measure(CONFIG)
    assert found.metrics is not None
    assert len(lines) == 1
    assert "SIGKILL" in lines[0]
    assert "the trial runs once more" in lines[0]


def test_a_server_that_is_killed_once_is_replaced(
    profiler: Callable[[], Profiler], kill: Callable[..., None], executor: LocalExecutor, lines: list[str]
) -> None:
    assert executor.worker._server is not None
    kill(1, instead=executor.worker._server.pid)
    found = profiler().measure(CONFIG)
    assert found.metrics is not None
    assert "the process that starts trials died" in lines[0]


def test_a_trial_that_is_killed_twice_has_crashed_until_a_later_run(
    profiler: Callable[[], Profiler], kill: Callable[..., None]
) -> None:
    kill(2)
    run = profiler()
    found = run.measure(CONFIG)
    assert isinstance(found.outcome, Failure)
    assert (found.outcome.kind, found.outcome.tries) == (FailureKind.CRASHED, 2)
    assert run.measure(CONFIG) == found
    assert profiler().measure(CONFIG).metrics is not None

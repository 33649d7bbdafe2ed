"""Trials on a real cluster of three nodes on this machine: as here, and when their machine is lost."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.profiling.cluster.executor import RayExecutor
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.known import curve_state
from a3gnn.profiling.request import CurvePlan, TrialPlan, TrialRequest
from a3gnn.setting import Setting
from a3gnn.task import Task
from tests.profiling.cluster.nodes import Rays, soon, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="the extra [ray] is not installed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray's own
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

MIB = 1 << 20
TASK = Task(hidden_channels=16, fanouts=(4, 4))
PLAN = TrialPlan(curve=CurvePlan(1e6, most_epochs=10), warmup_batches=1, timed_seconds=0.0, timeout_s=120.0)
#: Runs until it is ended.
ENDLESS = dataclasses.replace(PLAN, timed_seconds=1000.0, timeout_s=2000.0)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """One that no other test has."""
    spec = "synthetic:nodes=300,degree=8,classes=4,features=16,seed=17"
    return Graph.load(spec).save(tmp_path_factory.mktemp("graphs") / "own")


@pytest.fixture
def ask(graph: Graph, tmp_path: Path) -> Callable[..., TrialRequest]:
    """Makes a trial of the graph for the machine that an executor is of, its state kept in the test's folder."""
    probed: list[Hardware] = []

    def make(executor: RayExecutor, **plan: Any) -> TrialRequest:
        if not probed:
            probed.append(executor.probe())
        return TrialRequest(
            config=TrainConfig(batch_size=64).canonical(),
            setting=Setting(TASK, graph.characteristics(), probed[0]),
            graph_folder=str(graph.folder),
            plan=dataclasses.replace(PLAN, **plan),
            curve_state=str(curve_state(tmp_path, "a state")),
        )

    return make


def test_a_trial_runs_as_it_does_here(
    rays: Rays, ask: Callable[..., TrialRequest], graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as on the nodes
    lines: list[str] = []
    node = rays.nodes["first"]
    with RayExecutor(rays.address, "single", lines.append) as executor, LocalExecutor() as local:
        assert executor.make_ready(graph, TASK) > 0
        request = ask(executor)
        assert request.setting.hardware.label == "single"
        assert Graph.load(Path(node.cache) / "graphs" / graph.fingerprint).num_nodes == 300
        assert sum("fetching the graph" in line for line in lines) == 1
        found, here = executor.run(request), local.run(dataclasses.replace(request, curve_state=""))
        assert isinstance(found, Metrics), found
        assert isinstance(here, Metrics), here
        assert found.curve == here.curve
        assert found.peak_host_bytes == pytest.approx(here.peak_host_bytes, rel=0.5)  # of two processes
        # Limits hold there.
        failed = executor.run(ask(executor, timed_seconds=2.0, host_limit_bytes=MIB))  # for long enough to be seen
        assert isinstance(failed, Failure)
        assert (failed.kind, failed.limit) == (FailureKind.OUT_OF_MEMORY, MIB)
        failed = executor.run(ask(executor, timed_seconds=60.0, timeout_s=0.5))
        assert isinstance(failed, Failure)
        assert (failed.kind, failed.limit) == (FailureKind.TIMEOUT, 0.5)
        # So does an interrupt: the trial ends, and the machine is free for the next.
        with soon(node.trials, lambda: os.kill(os.getpid(), signal.SIGINT)), pytest.raises(KeyboardInterrupt):
            executor.run(dataclasses.replace(request, plan=ENDLESS))
        wait_until(lambda: not node.trials())
        assert isinstance(executor.run(ask(executor, curve=None)), Metrics)
        assert sum("fetching the graph" in line for line in lines) == 1
    wait_until(lambda: not node.servers())


@pytest.mark.weekly  # few have a cluster; the test above starts one
def test_a_machine_that_is_lost_is_replaced(
    rays: Rays,
    ask: Callable[..., TrialRequest],
    graph: Graph,
    capfd: pytest.CaptureFixture[str],
) -> None:
    lines: list[str] = []
    with RayExecutor(rays.address, "pair", lines.append) as executor:
        executor.make_ready(graph, TASK)
        request = ask(executor, curve=CurvePlan(1e6, most_epochs=100))
        found = executor.run(request)
        assert isinstance(found, Metrics), found
        assert found.curve is not None
        (home,) = (node for name, node in rays.nodes.items() if name != "first" and node.servers())
        with soon(home.trials, lambda: os.kill(home.raylet, signal.SIGKILL)):
            lost = executor.run(dataclasses.replace(request, plan=ENDLESS))
        assert isinstance(lost, Failure)
        assert (lost.kind, lost.transient) == (FailureKind.CRASHED, True)
        assert home.id[:8] in lost.detail
        assert "was lost during the trial" in lost.detail
        wait_until(lambda: not home.servers())
        # The next trial goes to the other machine, and goes on with what the first one learned.
        longer = dataclasses.replace(PLAN, curve=CurvePlan(1e6, most_epochs=110))
        again = executor.run(dataclasses.replace(request, plan=longer, known_curve=found.curve))
        assert isinstance(again, Metrics), again
        assert again.curve is not None
        assert again.curve.batches[: len(found.curve.batches)] == found.curve.batches
        assert again.curve.trained > found.curve.trained
        assert 0 < again.curve_train_seconds < found.curve_train_seconds
        assert any("trials continue on the machine" in line for line in lines)
        assert home.id[:8] not in next(line for line in lines if "trials continue" in line)
    assert capfd.readouterr() == ("", "")  # nothing of Ray's

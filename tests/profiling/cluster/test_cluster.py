"""Trials, tunes and their ends on a real cluster of three nodes on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.learning_curve import LearningCurve
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.profiling.cluster.executor import RayExecutor
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.trial.request import CurvePlan, TrialPlan, TrialRequest
from a3gnn.service.client import Client
from a3gnn.setting import Setting
from a3gnn.storage.curve_states import curve_state
from a3gnn.task import Task
from a3gnn.tuning.machines import TunedMachine
from a3gnn.tuning.machines_lines import machines_lines
from a3gnn.tuning.outcome.told_tune import ToldTune
from tests.service.servers import GRAPH, QUICK, serving
from tests.tuning.formulas import SMALL_SPACE

pytest.importorskip("ray", reason="the extra [ray] is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray's own
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ROOT = Path(__file__).parents[3]
MIB = 1 << 20
TASK = Task(hidden_channels=16, fanouts=(4, 4))
PLAN = TrialPlan(curve=CurvePlan(1e6, most_epochs=10), warmup_batches=1, timed_seconds=0.0, timeout_s=120.0)
#: Runs until it is ended.
ENDLESS = dataclasses.replace(PLAN, timed_seconds=1000.0, timeout_s=2000.0)
FIXED = SMALL_SPACE | {"num_partitions": 1, "partitioner": "blocks", "compute_dtype": "float32", "num_workers": 1}
STUDY = [
    *("tune", "--dataset", "synthetic:nodes=300,degree=8,classes=4,features=16", "--hidden", "16", "--fanouts", "4,4"),
    *("--accuracy-epochs", "1", "--max-accuracy-drop", "100", "--engine", "random"),
    *(f"--fix={knob}={value}" for knob, value in FIXED.items() if value is not None),
    *("--range=seed_fanout=4:4", "--range=deep_fanout=4:4"),
]


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


@pytest.fixture(scope="module")
def rays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rays]:
    """Three nodes: first, labelled single, and left and right, labelled pair."""
    folder = tmp_path_factory.mktemp("nodes")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.profiling.cluster.ray_nodes", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    with process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        yield Rays(told["address"], {name: Node(**node) for name, node in told["nodes"].items()})
        process.communicate(timeout=60)


@pytest.fixture
def ask(tiny_folder_graph: Graph, tmp_path: Path) -> Callable[..., TrialRequest]:
    """Makes a trial of the tiny graph for the machine that an executor is of, its state kept in the test's folder."""

    def make(executor: RayExecutor, known: LearningCurve | None = None, **plan: Any) -> TrialRequest:
        return TrialRequest(
            config=TrainConfig(batch_size=64).canonical(),
            setting=Setting(TASK, tiny_folder_graph.characteristics(), executor.probe()),
            graph_folder=str(tiny_folder_graph.folder),
            plan=dataclasses.replace(PLAN, **plan),
            known_curve=known,
            curve_state=str(curve_state(tmp_path, "a state")),
        )

    return make


def test_a_trial_runs_as_it_does_here(
    rays: Rays, ask: Callable[..., TrialRequest], tiny_folder_graph: Graph, tmp_path: Path
) -> None:
    lines: list[str] = []
    node = rays.nodes["first"]
    with RayExecutor(rays.address, "single", lines.append) as executor, LocalExecutor() as local:
        assert executor.make_ready(tiny_folder_graph, TASK) > 0
        request = ask(executor)
        assert request.setting.hardware.label == "single"
        assert Graph.load(Path(node.cache) / "graphs" / tiny_folder_graph.fingerprint).num_nodes == 300
        assert sum("fetching the graph" in line for line in lines) == 1
        found, here = executor.run(request), local.run(request)
        assert isinstance(found, Metrics), found
        assert isinstance(here, Metrics), here
        assert found.curve == here.curve
        assert found.peak_host_bytes == pytest.approx(here.peak_host_bytes, rel=0.15)
        # Limits hold there.
        failed = executor.run(ask(executor, host_limit_bytes=MIB))
        assert isinstance(failed, Failure)
        assert (failed.kind, failed.limit) == (FailureKind.OUT_OF_MEMORY, MIB)
        failed = executor.run(ask(executor, timed_seconds=60.0, timeout_s=0.5))
        assert isinstance(failed, Failure)
        assert (failed.kind, failed.limit) == (FailureKind.TIMEOUT, 0.5)
        # So does an interrupt: the trial ends, and the machine is free for the next.
        with _soon(node.trials, lambda: signal.raise_signal(signal.SIGINT)), pytest.raises(KeyboardInterrupt):
            executor.run(dataclasses.replace(request, plan=ENDLESS))
        _wait_until(lambda: not node.trials())
        assert isinstance(executor.run(ask(executor, curve=None)), Metrics)
        assert sum("fetching the graph" in line for line in lines) == 1
    _wait_until(lambda: not node.servers())


def test_a_study_whose_driver_is_killed_goes_on(rays: Rays, tmp_path: Path) -> None:
    node, folder = rays.nodes["first"], tmp_path / "run"
    where = ["--executor", "ray", "--ray-address", rays.address, "--machines", "single"]
    command = [*STUDY, *where, "--budget", "4", "--out", str(folder)]
    first = _start(*command)
    _wait_until(lambda: len(_journal(folder)) >= 2 and node.trials(), first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    before = _journal(folder)
    _wait_until(lambda: not node.servers())  # nothing measures on without it
    code, _, err = _finish(_start(*command, "--resume"))
    assert code == 0, err
    after = _journal(folder)
    assert after[: len(before)] == before
    assert any("resuming after" in line for line in err.splitlines())
    configs = [json.dumps(json.loads(line)["measurement"]["config"]) for line in after]
    assert len(set(configs)) == len(configs)
    measured = [json.loads(line)["measurement"]["hardware"] for line in after]
    assert {machine["label"] for machine in measured} == {"single"}
    assert (folder / "tuned.json").exists()
    assert not [line for line in err.splitlines() if "(pid=" in line or "INFO" in line or "WARNING" in line]
    _wait_until(lambda: not node.servers())


def test_each_kind_of_machines_has_a_tune_of_its_own_until_all_are_stopped(rays: Rays, tmp_path: Path) -> None:
    where = ["--executor", "ray", "--ray-address", rays.address, "--machines", "all"]
    process = _start(*STUDY, *where, "--budget", "1000", "--out", str(tmp_path / "run"), "--json")
    folders = {name: tmp_path / "run" / name for name in ("single", "pair")}
    _wait_until(lambda: all(len(_journal(folder)) >= 2 for folder in folders.values()), process)
    (tmp_path / "run" / "stop").touch()
    code, out, err = _finish(process)
    assert code == 0, err
    found = json.loads(out)["machines"]
    assert {one["machines"] for one in found} == set(folders)
    speeds = []
    for one in found:
        tuned = json.loads((folders[one["machines"]] / "tuned.json").read_text())
        assert tuned["hardware"]["label"] == one["machines"]
        assert tuned["left_out"]  # the play-off, for it was stopped
        assert one["error"] == ""
        speeds.append(one["tune"]["choice"]["throughput_epochs_per_s"])
    assert speeds == sorted(speeds, reverse=True)
    said = err.splitlines()
    assert all(line.startswith(("single | ", "pair   | ")) for line in said), err
    assert any(line.startswith("pair   | default") for line in said)
    told = [TunedMachine(name, folder, ToldTune.read(folder, 0), "") for name, folder in folders.items()]
    lines = list(machines_lines([*told, TunedMachine("lost", tmp_path, None, "no machine is left")]))
    assert lines[0] == f"sage on synthetic, by the priority throughput: best on {found[0]['machines']}"
    assert [line.split()[0] for line in lines[2:5]] == ["machine", *(one["machines"] for one in found)]
    assert lines[-1] == "lost: nothing was chosen: no machine is left"
    assert all(len(line) <= 80 for line in lines if str(tmp_path) not in line)
    _wait_until(lambda: not any(node.servers() for node in rays.nodes.values()))


def test_a_study_of_the_service_runs_its_trials_there(rays: Rays, tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
    where = ["--executor", "ray", "--ray-address", rays.address, "--machines", "single"]
    with serving(tmp_path / "home", *where) as server:
        study = Client(server.url).start(GRAPH, **QUICK, budget=1000)
        _wait_until(lambda: study.state().get("trials", 0) >= 1)
        study.stop()
        assert study.wait().setting.hardware.label == "single"


def test_a_machine_that_is_lost_is_replaced(
    rays: Rays,
    ask: Callable[..., TrialRequest],
    tiny_folder_graph: Graph,
    capfd: pytest.CaptureFixture[str],
) -> None:
    lines: list[str] = []
    with RayExecutor(rays.address, "pair", lines.append) as executor:
        executor.make_ready(tiny_folder_graph, TASK)
        request = ask(executor, curve=CurvePlan(1e6, most_epochs=100))
        found = executor.run(request)
        assert isinstance(found, Metrics), found
        assert found.curve is not None
        (home,) = (node for name, node in rays.nodes.items() if name != "first" and node.servers())
        with _soon(home.trials, lambda: os.kill(home.raylet, signal.SIGKILL)):
            lost = executor.run(dataclasses.replace(request, plan=ENDLESS))
        assert isinstance(lost, Failure)
        assert (lost.kind, lost.transient) == (FailureKind.CRASHED, True)
        assert home.id[:8] in lost.detail
        assert "was lost in the middle of the trial" in lost.detail
        _wait_until(lambda: not home.servers())
        # The next trial goes to the other machine, and goes on with what the first one learnt.
        longer = dataclasses.replace(PLAN, curve=CurvePlan(1e6, most_epochs=110))
        again = executor.run(dataclasses.replace(request, plan=longer, known_curve=found.curve))
        assert isinstance(again, Metrics), again
        assert again.curve is not None
        assert again.curve.batches[: len(found.curve.batches)] == found.curve.batches
        assert again.curve.trained > found.curve.trained
        assert 0 < again.curve_train_seconds < found.curve_train_seconds
        assert any("trials go on on the machine" in line for line in lines)
        assert home.id[:8] not in next(line for line in lines if "trials go on" in line)
    assert capfd.readouterr() == ("", "")  # nothing of Ray's


def _start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "a3gnn", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def _finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@contextlib.contextmanager
def _soon(is_time: Callable[[], object], act: Callable[[], object]) -> Iterator[None]:
    """Acts once it is time, in another thread."""

    def wait() -> None:
        _wait_until(is_time)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()


def _wait_until(holds: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    end = time.monotonic() + 60
    while not holds():
        if process is not None and process.poll() is not None:
            raise AssertionError(process.communicate())
        assert time.monotonic() < end, "it took a minute"
        time.sleep(0.05)


def _journal(folder: Path) -> list[str]:
    path = folder / "probes.jsonl"
    return path.read_text().splitlines() if path.exists() else []


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

"""What a process compiles never counts as what it measures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.process.worker import Ended, Worker
from a3gnn.profiling.request import CurvePlan, TrialPlan, TrialRequest
from a3gnn.setting import Setting
from a3gnn.task import Task

PIPES = {"stdout": subprocess.PIPE, "text": True}
COLD = """
from numba import njit
from a3gnn.process.compilations import compilations

@njit(cache=True)
def doubled(values):
    return [2 * value for value in values if value > 0]

def tell(argument):
    doubled([1, 2, 3])
    with open(argument["path"], "a") as file:
        file.write(f"{compilations.happened} ")
    return {"compiled": compilations.happened}
"""
TRIALS = """
import json, sys
from a3gnn.process.worker import Worker
from a3gnn.profiling.executor import LocalExecutor
from a3gnn.profiling.request import TrialRequest
requests = [TrialRequest.from_dict(fields) for fields in json.load(sys.stdin)]
run, compiling = Worker._run, []

def noted(*args, **options):
    ended = run(*args, **options)
    compiling.extend([ended.peak.anonymous_bytes] if ended.compiled else [])
    return ended

Worker._run = noted
with LocalExecutor() as executor:
    idle = executor.worker.run("a3gnn.machine.probe:idle_memory", {}).result["idle_host_bytes"]
    counted = [executor.run(request).to_dict()["peak_host_bytes"] for request in requests]
    print(json.dumps({"counted": [idle, *counted], "compiling": max(compiling, default=0)}))
"""


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """The file to which `tell` adds whether it compiled."""
    return tmp_path / "told"


def test_a_process_that_compiles_is_run_again(worker: Worker, chores: Path, told: Path) -> None:
    (chores / "cold_one.py").write_text(COLD, encoding="utf-8")
    first = worker.run("cold_one:tell", {"path": str(told)})
    assert told.read_text() == "True False "
    assert (first.result, first.compiled) == ({"compiled": False}, False)
    worker.run("cold_one:tell", {"path": str(told)})
    assert told.read_text() == "True False False "


def test_what_no_cache_keeps_is_compiled_in_the_process_that_counts(worker: Worker, chores: Path, told: Path) -> None:
    (chores / "never_kept.py").write_text(COLD.replace("cache=True", "cache=False"), encoding="utf-8")
    ended = worker.run("never_kept:tell", {"path": str(told)})
    assert (ended.result, told.read_text()) == ({"compiled": False}, "True False ")


def test_compiling_passes_no_memory_limit(
    worker: Worker, chores: Path, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Ended] = []

    def noted(*args: Any, **options: Any) -> Ended:
        runs.append(Worker._run(worker, *args, **options))
        return runs[-1]

    monkeypatch.setattr(worker, "_run", noted)
    for name in ("cold_two", "cold_three"):
        (chores / f"{name}.py").write_text(COLD, encoding="utf-8")
    worker.run("cold_two:tell", {"path": str(told)})
    compiling, warm = (ended.peak.anonymous_bytes for ended in runs)
    # What a process takes differs between machines: the limit lies between what it takes with and without compiling.
    limit = (compiling + warm) // 2
    ended = worker.run("cold_three:tell", {"path": str(told)}, limit_bytes=limit)
    assert (ended.killed, ended.result, ended.limit_bytes) == ("", {"compiled": False}, limit)
    assert ended.peak.anonymous_bytes <= limit
    assert [(one.compiled, one.killed) for one in runs[2:]] == [(True, "memory"), (True, ""), (False, "")]


@pytest.mark.weekly
def test_trials_take_no_more_where_every_kernel_was_cold(
    tmp_path: Path, tiny_folder_graph: Graph, this_machine: Hardware
) -> None:
    # The server loads what most trials need; the others' kernels are met in a trial.
    plan = TrialPlan(curve=CurvePlan(1e6, most_epochs=20), warmup_batches=1, timed_seconds=0.0)
    task = Task(hidden_channels=16, fanouts=(5, 5))
    setting = Setting(task, tiny_folder_graph.characteristics(), this_machine)
    asked = [
        TrialRequest(config.canonical(), setting, str(tiny_folder_graph.folder), plan).to_dict()
        for config in (TrainConfig(), TrainConfig(seed_order="proximity", cache_bytes=4000, bias_rate=4.0))
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    environment["NUMBA_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, "-c", TRIALS]
    cold, warm = (
        json.loads(subprocess.run(command, input=json.dumps(asked), env=environment, check=True, **PIPES).stdout)
        for _ in range(2)
    )
    assert list(tmp_path.rglob("*.nbi"))
    assert not warm["compiling"]
    added = cold["compiling"] - max(cold["counted"])  # by what a process takes that compiles
    differences = [abs(one - other) for one, other in zip(cold["counted"], warm["counted"], strict=True)]
    assert max(differences) < added / 2, (cold, warm)

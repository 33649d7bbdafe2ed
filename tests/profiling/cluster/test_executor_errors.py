"""What Ray and the disk raise beside a trial, with a cluster that is made up; the other tests here have real ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import Metrics
from a3gnn.profiling.cluster import executor as module
from a3gnn.profiling.cluster.connection import ClusterNode, MachineKind
from a3gnn.profiling.cluster.executor import RayExecutor
from a3gnn.profiling.request import CurvePlan, TrialPlan, TrialRequest
from a3gnn.setting import Setting
from a3gnn.task import Task


class RayError(Exception):
    """Ray's."""


class OutOfMemoryError(RayError):
    """Ray's."""


class MadeUpCluster:
    """Has one machine. Its object store is full."""

    def __init__(self, address: str | None) -> None:
        names = SimpleNamespace(RayError=RayError, OutOfMemoryError=OutOfMemoryError)
        self.ray = SimpleNamespace(exceptions=names, put=self._put)

    def kinds(self) -> dict[str, MachineKind]:
        return {"fast": MachineKind("0" * 16, "fast", (ClusterNode("a" * 56, "host", 1.0, 0.0),))}

    def studies(self, node: str, before: str | None = None) -> int:
        return 0

    def start_source(self, node: str) -> tuple[str, str]:
        return node, node

    def end_source(self, source: str) -> None:
        pass

    def close(self) -> None:
        pass

    def _put(self, content: bytes) -> None:
        raise RayError("the object store is full")


class Asked(RayExecutor):
    """Carries out orders by `answer`."""

    answer: Callable[[Mapping[str, Any]], dict[str, Any]]

    def _ask(self, home: ClusterNode, order: Mapping[str, Any]) -> dict[str, Any]:
        return self.answer(order)


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> Asked:
    monkeypatch.setattr(module, "Connection", MadeUpCluster)
    return Asked(notify=lines.append)


def test_a_machine_without_memory_says_so_with_the_remedy(executor: Asked) -> None:
    def fail(order: Mapping[str, Any]) -> dict[str, Any]:
        raise OutOfMemoryError("Task was killed\nby the monitor")

    executor.answer = fail
    with pytest.raises(A3GNNError, match=r"host \(aaaaaaaa\) had no memory left: Task was killed; free memory there"):
        executor.probe()


def test_a_trial_goes_on_without_its_state(
    executor: Asked,
    lines: list[str],
    tiny_graph: Graph,
    hardware: Hardware,
    make_metrics: Callable[..., Metrics],
    tmp_path: Path,
) -> None:
    metrics, sent = make_metrics(1.0, 1 << 20, 0.9), []

    def run(order: Mapping[str, Any]) -> dict[str, Any]:
        sent.append(order["state"])
        return {"metrics": metrics.to_dict(), "state": b"later", "waited_s": 0.0}

    executor.answer = run
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "meta.json").touch()
    (tmp_path / "state").write_bytes(b"before")
    request = TrialRequest(
        config=TrainConfig().canonical(),
        setting=Setting(Task(), tiny_graph.characteristics(), hardware),
        graph_folder=str(tmp_path / "graph"),
        plan=TrialPlan(curve=CurvePlan(1e6)),
        curve_state=str(tmp_path / "state"),
    )
    assert executor.run(request) == metrics
    assert lines == ["the state of a learning curve can't be sent, so the curve starts anew: the object store is full"]
    assert sent == [None]
    assert (tmp_path / "state").read_bytes() == b"later"
    # Nor where it can't be kept.
    (tmp_path / "file").touch()
    lines.clear()
    assert executor.run(dataclasses.replace(request, curve_state=str(tmp_path / "file" / "state"))) == metrics
    assert lines[-1].startswith("the state of a learning curve can't be stored, so a longer curve starts anew: ")

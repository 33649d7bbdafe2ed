"""Compiling kernels takes nothing of a tune's budget, and is no matter of a tune whose trials run elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.objectives import Priority
from a3gnn.profiling import executor
from a3gnn.task import Task
from a3gnn.training import compile_ahead
from a3gnn.training.compile_ahead import KernelSet
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.run.session import open_study
from a3gnn.tuning.study.study import TuneRequest


def test_a_tune_whose_trials_run_elsewhere_compiles_nothing(
    quick_tune: Callable[..., TuneResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[KernelSet] = []
    monkeypatch.setattr(compile_ahead, "is_compiled", lambda wanted: asked.append(wanted) or True)
    quick_tune(budget=1)
    assert asked == []


def test_the_clock_stands_still_while_kernels_are_compiled(
    tiny_folder_graph: Graph, hardware: Hardware, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[KernelSet] = []
    monkeypatch.setattr(executor, "compile_ahead", lambda wanted, notify: asked.append(wanted) or 500.0)
    task = Task(hidden_channels=16, fanouts=(3, 3))
    request = TuneRequest(
        spec="tiny",
        task=task,
        priority=Priority.parse("throughput"),
        memory_limit=None,
        host_memory_limit=None,
        max_accuracy_drop=1.0,
        budget=100.0,
        engine="random",
    )
    called = time.monotonic() - 500.0
    with open_study(request, tiny_folder_graph, tmp_path / "run", started=called, hardware=hardware) as opened:
        assert 0 < opened.runner.budget.left_s <= 100.0
    assert asked == [KernelSet.of(tiny_folder_graph, task)]

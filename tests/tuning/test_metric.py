"""A tune is judged by its metric, from the first line to the files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn.graphs.graph import Graph
from a3gnn.report.front import Front
from a3gnn.task import Task
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.result import TuneResult
from a3gnn.tuning.tune import tune


def test_every_text_and_file_of_a_tune_says_its_metric(
    quick_tune: Callable[..., TuneResult], unbalanced_graph: Graph, tmp_path: Path
) -> None:
    lines: list[str] = []
    result = quick_tune(unbalanced_graph, metric="macro_f1", notify=lines.append)
    assert any("validation macro-F1" in line for line in lines)
    assert not [line for line in lines if "accuracy" in line]
    assert result.tuned.setting.task.metric == result.front.metric.name == "macro_f1"
    assert TunedConfig.read(tmp_path / "run").limits.metric.name == "macro_f1"
    assert Front.read(tmp_path / "run") == result.front
    assert result.to_dict()["metric"] == {"name": "macro_f1"}


def test_a_tune_without_a_task_chooses_its_metric(
    quick_tune: Callable[..., TuneResult], unbalanced_graph: Graph
) -> None:
    lines: list[str] = []
    result = quick_tune(unbalanced_graph, task=None, notify=lines.append)
    assert lines[0].startswith("metric: ROC AUC, for ")
    assert result.tuned.setting.task == Task(metric="roc_auc")


@pytest.mark.slow
def test_a_real_tune_by_macro_f1(unbalanced_graph: Graph, tmp_path: Path) -> None:
    """Trials train, are judged by macro-F1, and share nothing with those of accuracy in one store."""
    out, lines = tmp_path / "run", []
    task = Task(hidden_channels=16, fanouts=(4, 4))
    options = {"task": task, "budget": 2, "fix": {"parallel_mode": "sequential"}, "store": tmp_path / "one.sqlite"}
    tune(unbalanced_graph, **options, accuracy_epochs=2, out=tmp_path / "before")
    found = tune(unbalanced_graph, **options, accuracy_epochs=2, metric="macro_f1", out=out, notify=lines.append)
    rows = [json.loads(line)["measurement"] for line in (out / "probes.jsonl").read_text().splitlines()]
    assert {row["task"].get("metric") for row in rows} == {"macro_f1"}
    assert found.tuned.measured is not None
    assert found.tuned.measured.test_accuracy is not None
    assert 0 < found.tuned.measured.test_accuracy < 1
    assert any(line.lstrip().startswith("test macro-F1 ") for line in "\n".join(lines).splitlines())

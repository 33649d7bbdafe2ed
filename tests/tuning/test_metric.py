"""A tune is judged by its metric, from the first line to the files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.report.front import Front
from a3gnn.task import Task
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.result import TuneResult
from tests.commands import process
from tests.lines import everything
from tests.tuning.formulas import Formulas


def test_every_text_and_file_of_a_tune_says_its_metric(
    quick_tune: Callable[..., TuneResult], unbalanced_graph: Graph, tmp_path: Path
) -> None:
    lines: list[str] = []
    result = quick_tune(unbalanced_graph, metric="macro_f1", notify=everything(lines))
    assert any("validation macro-F1" in line for line in lines)
    assert not [line for line in lines if "accuracy" in line]
    assert result.tuned.setting.task.metric == result.front.metric.name == "macro_f1"
    assert TunedConfig.read(tmp_path / "run").limits.metric.name == "macro_f1"
    assert Front.read(tmp_path / "run") == result.front
    assert result.to_dict()["metric"] == {"name": "macro_f1", "scale": None}


def test_a_tune_without_a_task_chooses_its_metric(
    quick_tune: Callable[..., TuneResult], unbalanced_graph: Graph
) -> None:
    lines: list[str] = []
    result = quick_tune(unbalanced_graph, task=None, notify=lines.append)
    assert lines[0].startswith("metric: ROC AUC, because ")
    assert result.tuned.setting.task == Task(metric="roc_auc")


def test_tunes_by_different_metrics_share_nothing_in_one_store(
    quick_tune: Callable[..., TuneResult],
    unbalanced_graph: Graph,
    formulas: Callable[..., Formulas],
    tmp_path: Path,
) -> None:
    first, second = formulas(), formulas()
    for metric, executor in (("accuracy", first), ("macro_f1", second)):
        options = {"metric": metric, "executor": executor, "out": tmp_path / metric, "store": tmp_path / "one.sqlite"}
        quick_tune(unbalanced_graph, **options)
    tasks = [{one.setting.task.metric for one in executor.ran} for executor in (first, second)]
    assert tasks == [{"accuracy"}, {"macro_f1"}]
    assert second.explored[0].config == TrainConfig().canonical()
    assert second.explored[0].known_curve is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "metric", "label"),
    [
        pytest.param("unbalanced_graph", "macro_f1", "macro-F1", marks=pytest.mark.weekly),
        pytest.param("labels_graph", "average_precision", "average precision", marks=pytest.mark.weekly),
        ("values_graph", "mae", "MAE"),
    ],
)
def test_a_real_tune(kind: str, metric: str, label: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    graph = request.getfixturevalue(kind).save(tmp_path / "graph")
    options = ["--hidden", "16", "--fanouts", "4,4", "--fix", "parallel_mode=sequential", "--accuracy-epochs", "2"]
    command = ["tune", "--dataset", graph.folder, *options, "--budget", "1"]
    run = process(*command, "--metric", metric, "--out", tmp_path / "run")
    assert run.returncode == 0, run.stderr
    text = (tmp_path / "run" / "probes.jsonl").read_text()
    assert {json.loads(line)["measurement"]["task"]["metric"] for line in text.splitlines()} == {metric}
    measured = TunedConfig.read(tmp_path / "run").measured
    assert measured is not None
    assert measured.test_accuracy is not None
    assert -1 < measured.test_accuracy < 1
    lines = (run.stderr + run.stdout).splitlines()
    assert any(line.lstrip().startswith(f"test {label} ") for line in lines)


@pytest.mark.parametrize(("kind", "label"), [("labels_graph", "micro-F1"), ("values_graph", "MAE")])
def test_labels_and_values_are_tuned(
    kind: str, label: str, quick_tune: Callable[..., TuneResult], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    lines: list[str] = []
    result = quick_tune(request.getfixturevalue(kind), metric="auto", notify=everything(lines))
    assert lines[0].startswith(f"metric: {label}, because ")
    assert not [line for line in lines if "accuracy" in line.replace("--target-accuracy", "")]
    metric = result.tuned.setting.metric
    assert metric.label == label
    assert result.tuned.limits.metric == result.front.metric == metric
    assert TunedConfig.read(tmp_path / "run").limits == result.tuned.limits
    assert any(f"{metric.show(0.9)} validation {label}" in line for line in "\n".join(lines).splitlines())


def test_a_target_of_an_error_is_in_its_unit(quick_tune: Callable[..., TuneResult], values_graph: Graph) -> None:
    target = 0.5
    result = quick_tune(values_graph, metric="mae", target_accuracy=target)
    metric = result.tuned.setting.metric
    assert result.tuned.target_accuracy == pytest.approx(metric.quality_of("it", target))
    assert metric.show(result.tuned.target_accuracy or 0.0) == "0.5"

"""What tasks, limits and breaches say of a metric; what was stored before there were others stays as it was."""

from __future__ import annotations

import dataclasses

import pytest

from a3gnn.errors import A3GNNError
from a3gnn.figures import Figures
from a3gnn.limits import Breach, Limits
from a3gnn.metric import ERRORS, METRIC_NAMES, Metric
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn.task import Task


def test_a_task_judged_by_accuracy_is_written_as_before_there_were_others() -> None:
    assert "metric" not in Task().to_dict()
    assert Task().key() == "414a7692fba7d10d"


def test_the_shipped_rows_are_judged_by_accuracy() -> None:
    assert {row.setting.task.metric for row in shipped_measurements()} == {"accuracy"}


@pytest.mark.parametrize("name", METRIC_NAMES)
def test_tasks_of_different_metrics_share_no_key(name: str) -> None:
    task = Task(metric=name)
    assert Task.from_dict(task.to_dict()) == task
    assert task.with_model("gcn").metric == task.with_model("a.b:c").metric == name
    assert (task.key() == Task().key()) == (name == "accuracy")


def test_an_unknown_metric_is_refused_with_the_nearest() -> None:
    with pytest.raises(A3GNNError, match="did you mean 'macro_f1'"):
        Task(metric="macrof1")  # type: ignore[arg-type]


def test_limits_and_breaches_are_read_back_and_speak_of_their_metric() -> None:
    limits = Limits(least_accuracy=0.6, metric=Metric("macro_f1"))
    assert Limits.from_dict(limits.to_dict()) == limits
    former = {name: value for name, value in dataclasses.asdict(Limits(2**30)).items() if name != "metric"}
    assert Limits.from_dict(former) == Limits(2**30)
    breach = Breach("least_accuracy", 0.6, 0.58, Metric("macro_f1"))
    assert Breach.from_dict(breach.to_dict()) == breach
    assert breach.describe() == "macro-F1 2 points under the least allowed, 60.00%"


@pytest.mark.parametrize("scale", [None, 2.5])
def test_what_is_shown_of_a_quality_and_read_of_an_option_agree(scale: float | None) -> None:
    metric = Metric("roc_auc") if scale is None else Metric("mae", scale)
    quality = metric.quality_of("--target-accuracy", 71.25 if scale is None else 0.5)
    assert quality == pytest.approx(0.7125 if scale is None else 0.8)
    assert metric.show(quality) == ("71.25%" if scale is None else "0.5")
    assert metric.show_difference(0.02) == ("2 points" if scale is None else "0.05")
    assert metric.quality_of("it", float(metric.as_option(quality))) == pytest.approx(quality)
    for close in (0.71257, 0.71999, 0.9991):  # what is recommended is reached
        assert metric.quality_of("it", float(metric.as_option(close))) <= close + 1e-9
    assert Metric.from_dict(metric.to_dict()) == metric


def test_a_smaller_error_is_a_larger_quality() -> None:
    metric = Metric("mae", 2.5)
    assert metric.quality_of("it", 0.5) > metric.quality_of("it", 0.6) > 0 > metric.quality_of("it", 3)


@pytest.mark.parametrize(("name", "scale"), [("accuracy", 1.0), ("mae", None), ("mae", 0.0)])
def test_only_errors_have_a_scale(name: str, scale: float | None) -> None:
    with pytest.raises(A3GNNError, match=f"scale of {name} must be"):
        Metric(name, scale)  # type: ignore[arg-type]
    assert (name in ERRORS) == (name in ("mae", "rmse"))


def test_an_error_is_limited_from_above() -> None:
    metric = Metric("mae", 2.5)
    breach = Breach("least_accuracy", metric.quality_of("it", 0.5), metric.quality_of("it", 0.55), metric)
    assert breach.describe() == "MAE 0.05 over the most allowed, 0.5"
    assert breach.short() == "MAE +0.05"
    unknown = Breach("least_accuracy", metric.quality_of("it", 0.5), 0.0, metric)
    assert unknown.describe() == "MAE unknown within the time, but 0.5 is the most allowed"
    assert metric.show_at_least(0.8) == "<= 0.5"
    assert Metric("macro_f1").show_at_least(0.8) == ">= 80.00%"
    assert metric.show_gain("+2.00") == "+2.00 points, of 0.025 each, better in validation MAE"


@pytest.mark.parametrize(("metric", "kept"), [(Metric("accuracy"), True), (Metric("mae", 2.5), False)])
def test_an_unknown_error_keeps_no_limit(metric: Metric, kept: bool) -> None:
    """One worse than saying the median of every node may be allowed; an unknown one could be worse still."""
    figures = Figures(1.0, 1.0, 1.0, 1, 0, val_accuracy=None)
    assert (not Limits(least_accuracy=-0.1, metric=metric).broken_by(figures)) == kept

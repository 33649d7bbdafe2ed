"""What tasks, limits and breaches say of a metric; what was stored before there were others stays as it was."""

from __future__ import annotations

import dataclasses

import pytest

from a3gnn.breach import Breach
from a3gnn.errors import A3GNNError
from a3gnn.metric import METRIC_NAMES, Metric
from a3gnn.objectives import Limits
from a3gnn.profiling.store.shipped import shipped_measurements
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

"""Studies whose trials someone else's trainer runs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError, UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.learning_curve import CurveEnd
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.profiling.request import CurvePlan, TrialPlan, TrialRequest
from a3gnn.service.client import Client
from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.studies.told_trials import Suggestions, told_outcome
from a3gnn.setting import Setting
from a3gnn.task import Task
from tests.service.servers import GRAPH, SMALL, Server, serving

TOLD = {
    "throughput_epochs_per_s": [2.0, 4.0, 3.0],
    "peak_host_bytes": 300 << 20,
    "peak_device_bytes": 0,
    "setup_seconds": 0.0,
    "batches_per_epoch": None,
    "batches": [1, 2, 3, 6],
    "val_accuracy": [0.2, 0.4, 0.5, 0.6],
    "test_accuracy": 0.55,
    "failure": None,
    "detail": "",
}


@pytest.fixture
def request_of(tiny_graph: Graph, hardware: Hardware) -> Callable[..., TrialRequest]:
    setting = Setting(Task(), tiny_graph.characteristics(), hardware)
    return lambda curve: TrialRequest(TrainConfig(batch_size=64).canonical(), setting, "", TrialPlan(curve))


def test_what_is_told_is_what_a_trial_would_have_found(request_of) -> None:
    found = told_outcome(TOLD, request_of(CurvePlan(1000.0, whole=True, tests=True)))
    assert isinstance(found, Metrics)
    assert (found.throughput_epochs_per_s, found.throughput_replicates) == (3.0, (2.0, 4.0, 3.0))
    assert found.batches_per_epoch == 2  # 90 train seeds
    assert (found.curve.batches, found.test_accuracy) == ((1, 2, 3, 6), 0.55)
    timed = told_outcome(TOLD, request_of(None))
    assert (timed.curve, timed.test_accuracy) == (None, None)
    reached = told_outcome(TOLD, request_of(CurvePlan(1000.0, target=0.5)))
    assert (reached.curve.batches, reached.curve.ended) == (
        (1, 2, 3, 6),
        CurveEnd.BUDGET,
    )  # one point does not settle it


@pytest.mark.parametrize(("speeds", "median"), [([1.0, 3.0], 2.0), ([5.0, 1.0, 2.0, 4.0], 3.0), ([9.0, 1.0, 2.0], 2.0)])
def test_the_throughput_that_is_told_is_the_median(request_of, speeds: list[float], median: float) -> None:
    told = told_outcome({**TOLD, "throughput_epochs_per_s": speeds}, request_of(None))
    assert isinstance(told, Metrics)
    assert told.throughput_epochs_per_s == median
    assert told.throughput_replicates == tuple(speeds)


def test_a_failure_is_told_by_its_kind(request_of) -> None:
    told = {**TOLD, "failure": "out_of_memory", "detail": "16 GiB were not enough"}
    failure = told_outcome(told, request_of(None))
    assert failure == Failure(FailureKind.OUT_OF_MEMORY, "16 GiB were not enough", 300 << 20)


def test_one_suggestion_waits_at_a_time_and_is_answered_once(tmp_path: Path) -> None:
    suggestions = Suggestions(tmp_path / "asked")
    assert suggestions.open() is None
    assert suggestions.ask({"plan": {"curve": None}}) == 1
    assert suggestions.ask({"plan": {"curve": {}}}) == 2
    assert suggestions.open()["number"] == 2
    with pytest.raises(ProblemDetails, match="trial 1 does not wait"):
        suggestions.tell(1, TOLD)
    with pytest.raises(ProblemDetails, match="needs a learning curve"):
        suggestions.tell(2, {**TOLD, "batches": []})
    suggestions.tell(2, TOLD)
    with pytest.raises(ProblemDetails, match="trial 2 does not wait"):
        suggestions.tell(2, TOLD)
    assert suggestions.answer(2) == TOLD
    assert suggestions.open() is None
    assert Suggestions(tmp_path / "asked").ask({"plan": {"curve": None}}) == 3


def test_what_was_told_before_a_restart_counts_where_the_same_is_asked(tmp_path: Path) -> None:
    asked, other = {"config": {"hops": 2}, "plan": {"curve": None}}, {"config": {"hops": 3}, "plan": {"curve": None}}
    left = Suggestions(tmp_path / "asked")
    assert left.ask(asked) == 1
    left.tell(1, TOLD)  # and the process ends before it looks
    after = Suggestions(tmp_path / "asked")
    after.set_aside()
    assert after.ask(asked) == 1
    assert after.answer(1) == TOLD
    after.set_aside()
    assert after.ask(asked) == 2  # once more, and what was told has been counted
    after.set_aside()
    assert after.open() is None
    with pytest.raises(ProblemDetails, match="trial 2 does not wait"):
        after.tell(2, TOLD)
    assert after.ask(asked) == 2
    after.tell(2, {**TOLD, "detail": "late"})
    assert after.answer(2)["detail"] == "late"
    assert after.ask(asked) == 3
    after.set_aside()
    assert after.ask(other) == 4
    with pytest.raises(ProblemDetails, match="trial 3 does not wait"):
        after.tell(3, TOLD)
    assert after.open() == {"number": 4, **other}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
    with serving(tmp_path / "home") as server:
        yield server


@pytest.mark.slow
def test_a_study_is_led_by_what_it_is_told(server: Server) -> None:
    fixed = {name: value for name, value in SMALL["fix"].items() if name != "batch_size"}
    options = {"engine": "random", "max_accuracy_drop": 100.0, "fix": fixed}
    study = Client(server.url).start(GRAPH, trainer="client", budget=4, **options)
    asked = []
    while study.state()["status"] in ("queued", "running"):
        trial = study.suggest()
        if trial is None:
            continue
        asked.append(trial["config"])
        if len(asked) == 2:
            study.tell(trial["number"], failure="timeout", detail="an hour was not enough")
            continue
        speed = trial["config"]["batch_size"] / 64
        figures = {"throughput_epochs_per_s": [speed, speed], "peak_host_bytes": 300 << 20}
        if trial["plan"]["curve"] is not None:
            figures |= {"batches": [1, 2, 3, 6, 9, 12], "val_accuracy": [0.2, 0.4, 0.5, 0.6, 0.6, 0.6]}
        study.tell(trial["number"], **figures, test_accuracy=0.55)
        with pytest.raises(A3GNNError, match="does not wait for figures"):
            study.tell(trial["number"], **figures)
    assert study.state()["status"] == "finished", study.state()
    tuned = study.tuned()
    assert tuned.config.batch_size == max(config["batch_size"] for config in asked)
    assert study.trials(outcome="failed")
    assert server.ask("GET", "/profiles").json["rows"] == 0
    study.retry()
    assert study.suggest(wait_s=60) is not None
    assert study.trials(outcome="failed") == []
    study.stop()
    lines: list[str] = []
    study.wait(lines.append)
    assert "1 failed trial forgotten" in lines
    with pytest.raises(UsageError, match="must have throughput_epochs_per_s"):
        study.tell(1)

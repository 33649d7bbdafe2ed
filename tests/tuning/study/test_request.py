import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import ConfigError, UsageError
from a3gnn.objectives import Priority
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.tuning.study.budget import Budget
from a3gnn.tuning.study.folder import open_folder
from a3gnn.tuning.study.study import Study, TuneRequest
from a3gnn_envs.choices import Choices


@pytest.fixture
def make_request() -> Callable[..., TuneRequest]:
    def make(**changes: object) -> TuneRequest:
        fields = {
            "spec": "synthetic:",
            "task": Task(),
            "priority": Priority.parse("memory"),
            "memory_limit": 2**30,
            "host_memory_limit": None,
            "max_accuracy_drop": 2.0,
            "budget": 5,
            "engine": "ei",
        }
        return TuneRequest(**(fields | changes))

    return make


def test_without_a_device_both_limits_are_the_hosts(make_request, hardware) -> None:
    assert make_request().limits(hardware, None).host_bytes == 2**30
    both = make_request(host_memory_limit=2**29).limits(hardware, None)
    assert (both.host_bytes, both.device_bytes) == (2**29, None)
    alone = make_request(memory_limit=None, host_memory_limit=2**29).limits(hardware, None)
    assert alone.host_bytes == 2**29


def test_with_a_device_the_limits_are_apart(make_request, hardware) -> None:
    gpu = dataclasses.replace(hardware, device="a GPU", num_devices=1, device_memory_bytes=2**34)
    limits = make_request(host_memory_limit=2**32).limits(gpu, None)
    assert (limits.host_bytes, limits.device_bytes) == (2**32, 2**30)


def test_accuracies_are_asked_for_in_points_and_per_cent_and_kept_as_shares(make_request, hardware, tiny_graph) -> None:
    assert make_request().max_drop == pytest.approx(0.02)
    setting = Setting(make_request().task, tiny_graph.characteristics(), hardware)
    assert Study.of(make_request(), setting).target is None
    assert Study.of(make_request(target_accuracy=87.5), setting).target == pytest.approx(0.875)
    assert make_request().limits(hardware, 0.88).least_accuracy == 0.88


def test_fixed_knobs_and_ranges_shape_the_space(make_request, hardware, tiny_graph) -> None:
    request = make_request(fixed=(("feature_tier", "disk"),), ranges=(("batch_size", 64, 256),))
    setting = Setting(request.task, tiny_graph.characteristics(), hardware)
    space = request.space(setting)
    assert space.knob("feature_tier").values == ("disk",)
    assert space.knob("batch_size").values == (64, 128, 256)
    with pytest.raises(ConfigError, match="must be one of"):
        make_request(fixed=(("feature_tier", "tape"),)).space(setting)


def test_rows_are_read_ahead_only_if_they_lie_on_disk(make_request, hardware, tiny_graph, sparse_graph) -> None:
    known = tiny_graph.characteristics()
    large = dataclasses.replace(known, feature_bytes=2**40)
    in_ram = make_request().space(Setting(Task(), known, hardware))
    assert "ahead" not in in_ram.knob("cache_policy").values
    on_disk = ("feature_tier", "disk")
    for fixed, graph in (((on_disk,), known), ((), large)):
        setting = Setting(Task(), graph, hardware)
        space = make_request(fixed=fixed).space(setting)
        assert space.knob("cache_policy").values == (*in_ram.knob("cache_policy").values, "ahead")
        rows = space.sample(300, 0)
        chosen = Choices(setting, space)
        assert (
            chosen.rows(chosen.slots(rows), np.random.default_rng(0))[:, space.names.index("batch_size")] >= 0
        ).all()
        assert any(space.decode(row).canonical().cache_policy == "ahead" for row in rows)
    for fixed, graph in (((on_disk, ("cache_policy", "fifo")), known), ((on_disk,), sparse_graph.characteristics())):
        space = make_request(fixed=fixed).space(Setting(Task(), graph, hardware))
        assert "ahead" not in space.knob("cache_policy").values


def test_a_baseline_whose_features_fill_the_limit_reads_them_from_disk(make_request, hardware, tiny_graph) -> None:
    request, known = make_request(memory_limit=2**30), tiny_graph.characteristics()
    for size, tier in ((2**30 - 1, "ram"), (2**30, "disk")):
        setting = Setting(Task(), dataclasses.replace(known, feature_bytes=size), hardware)
        baseline = Study.of(request, setting).baseline
        assert baseline == TrainConfig(feature_tier=tier).canonical()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_accuracy_drop": -1.0}, ">= 0 points"),
        ({"max_accuracy_drop": float("nan")}, ">= 0 points"),
        ({"budget": 0}, "positive, a duration such as 10min or a number of trials"),
        ({"budget": float("inf")}, "positive, a duration"),
        ({"accuracy_epochs": 0}, ">= 1"),
        ({"seed": -1}, ">= 0"),
        ({"target_accuracy": 0.88}, "in percent, above 1 and up to 100, got 0.88; 88 stands for a share of 0.88"),
        ({"target_accuracy": 100.5}, "in percent, above 1 and up to 100"),
    ],
)
def test_laws(make_request, changes: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_request(**changes)


def test_a_folder_with_something_in_it_is_not_taken(make_request, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="new or empty folder; add resume=True"):
        open_folder(tmp_path, make_request(), resume=False)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_resume_takes_the_same_request_with_any_budget(make_request, tmp_path: Path) -> None:
    open_folder(tmp_path / "run", make_request(), resume=False)
    open_folder(tmp_path / "run", make_request(budget=50), resume=True)
    with pytest.raises(UsageError, match="engine was 'ei' and is 'tpe'"):
        open_folder(tmp_path / "run", make_request(engine="tpe"), resume=True)
    with pytest.raises(UsageError, match="holds no request"):
        open_folder(tmp_path / "nothing", make_request(), resume=True)


def test_a_request_is_json(make_request) -> None:
    assert json.loads(json.dumps(make_request().to_dict()))["task"]["model"] == "sage"


def test_a_request_is_read_as_it_was_written(make_request) -> None:
    request = make_request(fixed=(("batch_size", "512"),), ranges=(("cache_bytes", 0, 5000),), budget=60.0)
    assert request.fixed == (("batch_size", 512),)
    again = TuneRequest.from_dict(json.loads(json.dumps(request.to_dict())))
    assert again == request
    assert isinstance(again.budget, float)


def test_resume_takes_a_folder_whose_fixed_knobs_were_kept_as_text(make_request, tmp_path: Path) -> None:
    request = make_request(fixed=(("batch_size", 512),))
    open_folder(tmp_path / "run", request, resume=False)
    path = tmp_path / "run" / "request.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"fixed": [["batch_size", "512"]]}))
    open_folder(tmp_path / "run", request, resume=True)


@pytest.mark.parametrize(
    ("fixed", "graph", "engine", "words"),
    [
        ({"sampling_device": "cuda"}, "tiny_graph", "ei", "needs a CUDA GPU, and this machine has none"),
        ({"cache_policy": "fifo"}, "sparse_graph", "ei", "needs dense features"),
        ({"num_partitions": 301}, "tiny_graph", "ei", "num_partitions must be at most 300"),
        (
            {"seed_order": "random"},
            "endless",
            "exhaustive",
            "at most 200,000 configurations to be",
        ),
    ],
)
def test_what_can_not_run_is_refused(
    make_request, hardware, request: pytest.FixtureRequest, fixed: dict, graph: str, engine: str, words: str
) -> None:
    wide = tuple((name, 1, 128) for name in ("num_partitions", "bias_rate", "num_workers"))
    ranges = (("batch_size", 2, 4096), *wide) if graph == "endless" else ()
    found = request.getfixturevalue("tiny_graph" if graph == "endless" else graph)
    big = dataclasses.replace(hardware, num_cores=64, device="a GPU", num_devices=1)
    asked = make_request(fixed=tuple(fixed.items()), ranges=ranges, engine=engine)
    with pytest.raises(UsageError, match=words):
        asked.space(Setting(asked.task, found.characteristics(), big if graph == "endless" else hardware))


def test_a_budget_of_trials() -> None:
    budget = Budget(2)
    assert budget.affords(10_000, 10_000)
    budget.record()
    assert (budget.affords(1.0, 1.0), budget.describe()) == (True, "1 trial left")
    budget.record()
    assert not budget.affords(0.0, 0.0)
    assert budget.describe_end(0.0, 0.0) == "the budget is spent"


def test_a_budget_of_seconds_keeps_up_to_a_third_for_the_verification() -> None:
    budget = Budget(90.0, spent_s=0.0)
    assert budget.verification_s == 30.0
    assert budget.affords(59, 30.0)
    assert not budget.affords(61, 30.0)
    assert budget.affords(61, 28.0)  # a verification that takes less
    assert budget.describe_end(61, 30.0) == "1 min left beside the verification, and another trial may take 1 min 1 s"
    assert budget.describe_end(12, 85.0) == "5.0 s left beside the verification, and another trial may take 12 s"
    assert budget.describe_end(12, 95.0) == "0.0 s left beside the verification, and another trial may take 12 s"
    later = Budget(90.0, spent_s=59.0)  # of a tune that goes on
    assert later.affords(0.5, 30.0)
    assert not later.affords(1.0, 30.0)


def test_the_clock_of_a_budget_starts_where_it_is_told() -> None:
    assert Budget(100.0, started=time.monotonic() - 30, spent_s=50.0).left_s <= 20
    assert Budget(100.0, started=time.monotonic() - 30, spent_s=80.0).describe_end(0.0, 0.0) == "the budget is spent"

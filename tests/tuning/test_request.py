import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn.config import Task
from a3gnn.errors import ConfigError, UsageError
from a3gnn.objectives import Priority
from a3gnn.tuning.budget import Budget
from a3gnn.tuning.folder import open_folder
from a3gnn.tuning.request import TuneRequest


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
            "engine": "ppo",
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


def test_the_accuracy_may_drop_below_the_reference_by_points(make_request, hardware) -> None:
    assert make_request().limits(hardware, 0.9).least_accuracy == pytest.approx(0.88)


def test_fixed_knobs_and_ranges_shape_the_space(make_request, hardware, tiny_graph) -> None:
    request = make_request(fixed=(("feature_tier", "disk"),), ranges=(("batch_size", 64, 256),))
    space = request.space(tiny_graph.characteristics(), hardware)
    assert space.knob("feature_tier").values == ("disk",)
    assert space.knob("batch_size").values == (64, 128, 256)
    with pytest.raises(ConfigError, match="must be one of"):
        make_request(fixed=(("feature_tier", "tape"),)).space(tiny_graph.characteristics(), hardware)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_accuracy_drop": -1.0}, ">= 0 points"),
        ({"max_accuracy_drop": float("nan")}, ">= 0 points"),
        ({"budget": 0}, "positive duration or number of probes"),
        ({"budget": float("inf")}, "positive duration"),
        ({"accuracy_epochs": 0}, ">= 1"),
        ({"seed": -1}, ">= 0"),
    ],
)
def test_laws(make_request, changes: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_request(**changes)


def test_a_folder_with_something_in_it_is_not_taken(make_request, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="new or empty folder; add --resume"):
        open_folder(tmp_path, make_request(), resume=False)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_resume_takes_the_same_request_with_any_budget(make_request, tmp_path: Path) -> None:
    open_folder(tmp_path / "run", make_request(), resume=False)
    open_folder(tmp_path / "run", make_request(budget=50), resume=True)
    with pytest.raises(UsageError, match="engine was 'ppo' and is 'tpe'"):
        open_folder(tmp_path / "run", make_request(engine="tpe"), resume=True)
    with pytest.raises(UsageError, match="a folder that a tune was started in"):
        open_folder(tmp_path / "nothing", make_request(), resume=True)


def test_a_request_is_json(make_request) -> None:
    assert json.loads(json.dumps(make_request().to_dict()))["task"]["model"] == "sage"


def test_a_budget_of_probes() -> None:
    budget = Budget(2)
    assert budget.affords(10_000)
    budget.record(1.0)
    assert (budget.affords(), budget.describe()) == (True, "1 probe left")
    budget.record(1.0)
    assert not budget.affords()


def test_a_budget_of_seconds_keeps_room_for_the_verification() -> None:
    budget = Budget(100.0, spent_s=0.0)
    assert budget.affords(90)
    budget.learn(40.0)
    assert budget.affords()
    assert not budget.affords(90)
    assert not Budget(100.0, spent_s=99.99, probes=3).affords(1.0)

"""Wrong options: each is refused with what it must be, and leaves no folder and no file."""

from pathlib import Path

import numpy as np
import pytest

from a3gnn import tune
from a3gnn.errors import A3GNNError, UsageError
from a3gnn.hardware import Hardware
from a3gnn.tuning.study.arguments import make_request, parsed_limit


class Unused:
    """An executor that nothing may use."""

    def run(self, *_: object) -> None:
        raise AssertionError

    close = run


SPEC = "synthetic:nodes=300,degree=8,classes=4,features=16"
REQUEST = {
    "priority": "throughput",
    "memory_limit": None,
    "host_memory_limit": None,
    "max_accuracy_drop": 1.0,
    "budget": 3,
    "engine": "ei",
    "task": None,
    "fix": None,
    "ranges": None,
}

#: Ranges of hundreds of thousands of configurations.
WIDE = dict.fromkeys(("batch_size", "num_partitions", "bias_rate", "num_workers"), (1, 128))
WRONG = [
    ({"budget": "abc"}, "^budget: a budget is a duration such as 10min"),
    ({"budget": True}, "^budget must be positive"),
    ({"budget": -1}, "^budget must be positive"),
    ({"budget": float("nan")}, "^budget must be positive"),
    ({"budget": None}, "^budget must be positive"),
    ({"memory_limit": 0}, "^memory_limit must be an integer >= 1, got"),
    ({"memory_limit": "x"}, "^memory_limit: a size is a number with a unit"),
    ({"memory_limit": True}, "^memory_limit must be an integer >= 1, got"),
    ({"memory_limit": 1.5}, "^memory_limit must be an integer >= 1, got"),
    ({"host_memory_limit": -5}, "^host_memory_limit must be an integer >= 1, got"),
    ({"max_accuracy_drop": "x"}, "^max_accuracy_drop must be >= 0 points"),
    ({"max_accuracy_drop": True}, "^max_accuracy_drop must be >= 0 points"),
    ({"fix": {"batch_size": "x"}}, "batch_size must be a whole number, got 'x'"),
    ({"fix": {"batch_size": 2.5}}, "batch_size must be a whole number, got 2.5"),
    ({"fix": {"batch_size": 0}}, "batch_size must be an integer >= 1, got 0"),
    ({"fix": {"batchsize": 5}}, "did you mean 'batch_size'"),
    ({"fix": {"parallel_mode": "mode7"}}, "parallel_mode must be one of"),
    ({"fix": [("batch_size", 5)]}, "fix must map knobs to values"),
    ({"ranges": {"batch_size": 5}}, r"ranges must map knobs to \(low, high\), got 5"),
    ({"ranges": {"batch_size": (1, 2, 3)}}, r"ranges must map knobs to \(low, high\)"),
    ({"ranges": {"batch_size": (5, "many")}}, "batch_size must be a whole number"),
    ({"ranges": {"batch_size": (9, 5)}}, "LOW <= HIGH"),
    ({"ranges": {"parallel_mode": ("a", "b")}}, "has no range"),
    ({"engine": "nsga3"}, "did you mean 'nsga2'"),
    ({"engine": ["ei"]}, "^engine must be one of"),
    ({"priority": "troughput"}, "did you mean 'throughput'"),
    ({"priority": 3}, "^priority must be one of"),
    ({"seed": -1}, "^seed must be an integer >= 0"),
    ({"seed": "a"}, "^seed must be an integer >= 0"),
    ({"accuracy_epochs": 0}, "^accuracy_epochs must be an integer >= 1"),
    ({"accuracy_epochs": 1.5}, "^accuracy_epochs must be an integer >= 1"),
    ({"task": {"model": "gcn"}}, "task must be a Task"),
    ({"fix": {"sampling_device": "cuda"}}, "needs a CUDA GPU, and this machine has none"),
    ({"fix": {"num_partitions": 500}}, "num_partitions must be at most 300"),
    ({"engine": "exhaustive", "ranges": WIDE}, "at most 200,000 configurations"),
    ({"store": "nowhere://else/what"}, "^store: can't open a profile store"),
    ({"store": 7}, "store must be a path, got 7"),
    ({"out": 7}, "out must be a path, got 7"),
    ({"resume": True}, r"holds no request\.json; run a3gnn tune --out .*run first"),
    ({"resume": True, "out": None}, "^resume needs the out folder"),
    ({"dataset": "nowhere.npz"}, "nowhere.npz"),
]


@pytest.mark.parametrize(("options", "words"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_option_is_refused_before_anything_is_made(
    options: dict, words: str, hardware: Hardware, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = {"dataset": SPEC, "out": tmp_path / "deep" / "run", "hardware": hardware, "executor": Unused(), **options}
    with pytest.raises(A3GNNError if "dataset" in options else UsageError, match=words):
        tune(asked.pop("dataset"), **asked)
    assert list(tmp_path.iterdir()) == []


def test_places_that_are_taken_by_something_else_are_refused_and_left_alone(hardware: Hardware, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("years of work")
    with pytest.raises(UsageError, match="must be a new or empty folder"):
        tune(SPEC, out=file, hardware=hardware, executor=Unused())
    with pytest.raises(UsageError, match="can't make the folder"):
        tune(SPEC, out=file / "run", hardware=hardware, executor=Unused())
    with pytest.raises(UsageError, match="a profile store must be a file, got the folder"):
        tune(SPEC, out=tmp_path / "run", store=tmp_path, hardware=hardware, executor=Unused())
    with pytest.raises(A3GNNError, match="profile store"):
        tune(SPEC, out=tmp_path / "run", store=file, hardware=hardware, executor=Unused())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert file.read_text() == "years of work"


def test_numbers_of_numpy_and_text_are_taken() -> None:
    request = make_request(
        **REQUEST | {"budget": "90s", "memory_limit": "1GiB", "fix": {"batch_size": np.int64(512)}},
        seed=np.int64(3),
    )
    assert (request.budget, request.memory_limit, request.seed) == (90.0, 2**30, 3)
    assert request.fixed == (("batch_size", 512),)
    assert [type(value) for value in (request.budget, request.seed, request.fixed[0][1])] == [float, int, int]
    assert make_request(**REQUEST | {"budget": "7"}).budget == 7


@pytest.mark.parametrize("name", ["memory_limit", "host_memory_limit"])
@pytest.mark.parametrize("value", ["4096", "900KiB"])
def test_a_limit_that_is_too_small_is_quoted_as_it_was_given(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} must be at least 1.00 MiB, got '{value}', because"):
        parsed_limit(name, value)

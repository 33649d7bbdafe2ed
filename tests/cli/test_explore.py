"""`a3gnn explore` as people call it."""

import json

import pytest

from a3gnn.cli.main import main
from tests.loaded import run_and_loaded


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    """What it prints on stdout and on stderr."""
    with pytest.raises(SystemExit) as ended:
        main(["explore", *arguments])
    found = capsys.readouterr()
    assert ended.value.code == code, found.err
    return found.out, found.err


def test_it_loads_nothing_heavy() -> None:
    out, loaded = run_and_loaded("explore", "--platform", "u250", "--json")
    heavy = {"torch", "numba", "scipy", "gymnasium", "optuna", "xgboost", "sklearn", "pandas"}
    assert not heavy & loaded
    found = json.loads(out)
    assert found["design"] == {"n": 8, "m": 2048}
    assert found["resources"] == "fitted to Table V of HitGNN"
    assert found["conditions"]["beta"] == 0.25


def test_a_graph_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    spec = "synthetic:nodes=2000,degree=8,features=24,classes=5"
    options = ["--dataset", spec, "--model", "gcn", "--fanouts", "5,4", "--batch-size", "100", "--hidden", "32"]
    found = json.loads(run(capsys, "--platform", "u250", *options, "--devices", "8", "--json")[0])
    (one,) = found["workloads"]
    assert one["workload"]["widths"] == [24, 32, 5]
    assert one["workload"]["vertices"][-1] == 100
    assert found["platform"]["num_devices"] == 8
    assert found["conditions"]["beta"] == 1 / 8


def test_conditions_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    said, _ = run(capsys, "--platform", "u250", "--beta", "0.8", "--indirect", "--sampling-seconds", "0.02")
    assert "80% in the device's memory (beta), the rest through another device" in said
    assert "not counted  the loss" in said


def test_every_design_is_in_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    said, _ = run(capsys, "--platform", "u250", "--every")
    assert "designs of a die; --json has them all" in said


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--platform", "u25"], 2, "--platform must be one of a5000, u200, u250, got 'u25'; did you mean"),
        (["--platform", "none.toml"], 2, "none.toml: the file can't be read"),
        (["--platform", "u250", "--beta", "2"], 2, "--beta must be a share of the input rows in [0, 1]"),
        (["--platform", "u250", "--ceiling", "0"], 2, "--ceiling must be a share of each resource in (0, 1]"),
        (["--platform", "u250", "--ceiling", "0.01"], 3, "raise --ceiling"),
        (["--platform", "u250", "--model", "gat"], 2, "'gat' is not one of"),
        (["--platform", "u250", "--layers", "3", "--fanouts", "5,5"], 2, "--fanouts must have a number for each"),
        (["--platform", "u250", "--loss-seconds", "-1"], 2, "--loss-seconds must be >= 0"),
    ],
)
def test_wrong_usage_is_said(arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    said, error = run(capsys, *arguments, code=code)
    assert words in " ".join(error.split())
    assert not said


def test_algorithms_are_compared_on_a_graph(capsys: pytest.CaptureFixture[str]) -> None:
    spec = "synthetic:nodes=2000,degree=8,features=24,classes=5"
    options = ["--platform", "u250", "--dataset", spec, "--fanouts", "5,4", "--batch-size", "64", "--algorithms"]
    found = json.loads(run(capsys, *options, "--json")[0])["algorithms"]
    names = [(one["algorithm"], one["devices"]) for one in found]
    assert names == [("distdgl", 1), *((name, count) for count in (2, 4) for name in ("distdgl", "pagraph", "p3"))]
    assert all(0 < one["beta"] <= 1 and one["epoch_s"] > 0 for one in found)
    said, _ = run(capsys, *options, "--platform", "a5000", "--devices", "2")
    assert "extras: mini-batches that another partition's device trains" in said
    assert [line.split()[0] for line in said.splitlines()[-5:-1]] == ["one", "distdgl", "pagraph", "p3"]


def test_an_algorithm_that_does_not_fit_is_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--dataset", "synthetic:nodes=300,features=2", "--fanouts", "3,2", "--batch-size", "32", "--algorithms"]
    said, err = run(capsys, "--platform", "u250", *options, "--json")
    assert "p3 on 4 devices is left out: features must have a column for each of 4 ranks, got 2" in err
    assert ("p3", 4) not in [(one["algorithm"], one["devices"]) for one in json.loads(said)["algorithms"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--algorithms"], "--algorithms needs --dataset"),
        (["--algorithms", "--dataset", "synthetic:nodes=300", "--devices", "1"], "needs several devices, got 1"),
    ],
)
def test_algorithms_need_a_graph_and_devices(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert words in run(capsys, "--platform", "u250", *arguments, code=2)[1]

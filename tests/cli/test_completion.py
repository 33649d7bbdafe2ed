"""What the shell completes, asked as shells ask."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ZshComplete

from a3gnn.cli.completion import Bash
from a3gnn.cli.main import app
from a3gnn.config import PARALLEL_MODES
from a3gnn.metric import METRIC_NAMES
from a3gnn.objectives import PRESETS, QUALITY
from a3gnn.tuning.study.study import ENGINES


def completed(*words: str) -> list[str]:
    """What is offered for the last of `words`."""
    *before, incomplete = words
    found = ZshComplete(app, {}, "a3gnn", "_A3GNN_COMPLETE").get_completions(before, incomplete)
    return [f"({item.type})" if item.type != "plain" else item.value for item in found]


def test_commands_and_options() -> None:
    assert completed("pi") == ["pick"]
    assert {"--max-memory", "--max-accuracy-drop", "--min-accuracy"} <= set(completed("pick", "runs/mine", "--m"))


@pytest.mark.parametrize("command", ["tune", "recommend", "pick"])
def test_priorities(command: str) -> None:
    assert completed(command, "--priority", "") == [*PRESETS, QUALITY]
    assert completed(command, "--priority", "th") == ["throughput"]


def test_metrics_and_engines() -> None:
    assert completed("tune", "--metric", "") == ["auto", *METRIC_NAMES]
    assert completed("tune", "--engine", "") == list(ENGINES)
    assert completed("tune", "--engine", "n") == ["nsga2"]


def test_platforms() -> None:
    assert completed("explore", "--platform", "u2") == ["u200", "u250"]
    assert completed("explore", "--platform", "mine") == ["(file)"]


@pytest.mark.parametrize("command", ["tune", "recommend"])
def test_knobs_and_their_values(command: str) -> None:
    assert "batch_size=" in completed(command, "--fix", "")
    assert completed(command, "--fix", "parallel") == ["parallel_mode="]
    assert completed(command, "--fix", "parallel_mode=") == [f"parallel_mode={mode}" for mode in PARALLEL_MODES]
    assert completed(command, "--fix", "seed_fanout=t") == ["seed_fanout=task"]
    assert completed(command, "--fix", "learning_rate_scale=0") == ["learning_rate_scale=0.5"]
    assert completed(command, "--range", "batch") == ["batch_size="]
    assert completed(command, "--range", "parallel") == []


@pytest.mark.parametrize("command", [("tune", "--dataset"), ("train", "--dataset"), ("predict", "m", "--dataset")])
def test_graphs(command: tuple[str, ...]) -> None:
    assert completed(*command, "syn") == ["synthetic:"]
    assert completed(*command, "synthetic:no") == ["synthetic:nodes=", "synthetic:noise="]
    assert completed(*command, "synthetic:nodes=5000,fea") == ["synthetic:nodes=5000,features="]
    assert "pyg:Cora" in completed(*command, "pyg:C")
    assert completed(*command, "../data/") == ["(file)"]
    assert completed(*command, "") == ["(file)"]


def test_graphs_are_completed_as_arguments_too() -> None:
    assert completed("graph", "info", "synthetic:de") == ["synthetic:degree=", "synthetic:density="]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["tune", "--priority", "th"], "throughput"),
        (["tune", "--fix", "parallel_mode", "=", "mode1"], "mode1"),  # bash parts words at = and :
        (["tune", "--fix", "feature_tier", "="], "ram disk"),
        (["tune", "--dataset", "synthetic", ":", "deg"], "degree="),
        (["tune", "--dataset", "synthetic", ":", "nodes", "=", "9,deg"], "9,degree="),
        (["tune", "--dataset", "synthetic", ":", "--engine", "tp"], "tpe"),
    ],
)
def test_bash_gets_what_follows_the_sign(words: list[str], found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_WORDS", " ".join(["a3gnn", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    answer = Bash(app, {}, "a3gnn", "_A3GNN_COMPLETE").complete()
    assert answer.splitlines() == [f"plain,{value}" for value in found.split()]


def test_accelerators() -> None:
    assert completed("acc") == ["accelerator"]
    assert completed("accelerator", "") == ["generate"]
    assert completed("accelerator", "generate", "--check") == ["--check", "--check-opencl"]
    assert completed("accelerator", "generate", "--out", "runs/") == ["(file)"]


def test_the_command_answers_bash() -> None:
    asked = {"_A3GNN_COMPLETE": "bash_complete", "COMP_WORDS": "a3gnn tune --fix feature_tier = d", "COMP_CWORD": "5"}
    run = subprocess.run(
        [sys.executable, "-m", "a3gnn"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | asked,
        cwd=Path(__file__).parents[2],
    )
    assert run.stdout.split() == ["plain,disk"], run.stderr

"""The options that say what is trained become a task."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import click
import pytest
from click.testing import CliRunner

from a3gnn.cli.main import main
from a3gnn.cli.study_options import take_task, task_options
from a3gnn.errors import ConfigError, UsageError
from a3gnn.task import NUMBER_OPTIONS, Task, usual_fanouts

SPEC = "synthetic:nodes=300,degree=8,classes=4,features=16"


@click.command()
@task_options
def command(**options: Any) -> None:
    """Prints the task that the options say."""
    assert {options.pop("dataset"), options.pop("metric")} == {"any", "auto"}
    click.echo(json.dumps(take_task(options, 7).to_dict()))
    assert options == {"split": None, "split_seed": 0}


def task_of(*arguments: str) -> Task:
    found = CliRunner().invoke(command, ["--dataset", "any", *arguments], catch_exceptions=False)
    return Task.from_dict(json.loads(found.stdout))


def test_without_options_the_task_is_the_default():
    assert task_of() == Task(seed=7)


def test_sizes_and_rates():
    given = ("--hidden", "64", "--lr", "0.01", "--dropout", "0", "--weight-decay", "5e-4", "--heads", "8")
    expected = Task(hidden_channels=64, learning_rate=0.01, dropout=0.0, weight_decay=5e-4, heads=8, seed=7)
    assert task_of(*given) == expected
    assert set(NUMBER_OPTIONS.values()) <= {field.name for field in dataclasses.fields(Task)}
    with pytest.raises(ConfigError, match="hidden_channels must be a multiple of heads, got 256 and 3"):
        task_of("--model", "gat", "--heads", "3")
    with pytest.raises(ConfigError, match="learning_rate must be positive, got nan"):
        task_of("--lr", "nan")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (Task(), "GraphSAGE, 2 layers of 256, fanouts 25,10, Adam 0.003, dropout 0.5"),
        (
            Task(model="gat", weight_decay=5e-4, norm="batch", residual=True, dropout=0.0),
            "GAT, 2 layers of 256, fanouts 25,10, Adam 0.003, dropout 0, 4 heads, weight decay 0.0005, batch norm, "
            "residual",
        ),
        (
            Task(model="mine:make", fanouts=(5,), learning_rate=0.01, lr_schedule="cosine", lr_epochs=30),
            "mine:make, 1 layer, fanouts 5, Adam 0.01, cosine schedule of 30 epochs",
        ),
    ],
    ids=["default", "attention", "own"],
)
def test_a_task_in_words_names_what_its_options_set(task: Task, words: str) -> None:
    assert task.describe() == words


def test_norms_and_residuals():
    assert task_of("--norm", "batch", "--residual") == Task(norm="batch", residual=True, seed=7)
    assert task_of("--linear-residual") == Task(residual="linear", seed=7)


def test_schedules():
    asked = task_of("--lr-schedule", "cosine", "--lr-epochs", "30")
    assert asked == Task(lr_schedule="cosine", lr_epochs=30, seed=7)
    with pytest.raises(ConfigError, match="lr_epochs must be an integer >= 1, got None"):
        task_of("--lr-schedule", "cosine")


@pytest.mark.parametrize(
    ("layers", "fanouts"), [(1, (25,)), (2, (25, 10)), (3, (15, 10, 5)), (4, (15, 10, 5, 5)), (6, (15, 10, 5, 5, 5, 5))]
)
def test_layers_have_their_usual_fanouts(layers, fanouts):
    assert usual_fanouts(layers) == task_of("--layers", str(layers)).fanouts == fanouts


def test_layers_and_fanouts_must_agree():
    assert task_of("--layers", "2", "--fanouts", "4,3").fanouts == (4, 3)
    with pytest.raises(UsageError, match=r"--fanouts must have a number for each of --layers, got 4,3 and 3; leave"):
        task_of("--layers", "3", "--fanouts", "4,3")
    with pytest.raises(ConfigError, match="layers must be an integer >= 1, got 0"):
        usual_fanouts(0)


def test_a_training_takes_layers_norms_and_residuals_and_goes_on_only_with_them(tmp_path, capsys):
    def train(*options: str) -> int:
        given = ["train", "--model", "sage", "--dataset", SPEC, "--out", str(tmp_path / "run"), *options]
        with pytest.raises(SystemExit) as ended:
            main(given)
        return int(ended.value.code or 0)

    kind = ["--layers", "3", "--norm", "layer", "--residual", "--hidden", "32", "--lr", "0.01", "--dropout", "0.2"]
    assert train(*kind, "--epochs", "1") == 0
    task = json.loads((tmp_path / "run" / "result.json").read_text())["task"]
    assert (task["fanouts"], task["norm"], task["residual"]) == ([15, 10, 5], "layer", True)
    assert (task["hidden_channels"], task["learning_rate"], task["dropout"]) == (32, 0.01, 0.2)
    assert train(*kind[:4], *kind[5:], "--epochs", "2", "--resume") == 2
    assert "residual was True and is False" in capsys.readouterr().err
    assert train(*kind, "--epochs", "2", "--resume") == 0


@pytest.mark.parametrize(
    ("options", "epochs", "said"),
    [
        ((), 2, ""),
        (("--lr-epochs", "1"), 1, "over 1 epoch of at most 2: later epochs change no weight"),
        (("--lr-epochs", "5"), 5, "over 5 epochs of at most 2: training ends before that"),
    ],
)
def test_a_trainings_rate_falls_over_its_epochs_by_default(options, epochs, said, tmp_path, capsys):
    given = ["train", "--model", "sage", "--dataset", SPEC, "--out", str(tmp_path / "run"), "--epochs", "2"]
    with pytest.raises(SystemExit):
        main([*given, "--lr-schedule", "linear", *options])
    task = json.loads((tmp_path / "run" / "result.json").read_text())["task"]
    assert (task["lr_schedule"], task["lr_epochs"]) == ("linear", epochs)
    told = " ".join(capsys.readouterr().err.split())
    assert said in told
    assert ("learning rate falls" in told) == bool(said)

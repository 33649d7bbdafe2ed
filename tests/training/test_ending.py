"""Where a training ends by itself: no better validation for long enough, at any batch size; and what is said there."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.learning_curve import CurveEnd, LearningCurve, next_point
from a3gnn.task import Task
from a3gnn.training.checkpoint import identity, restore_checkpoint
from a3gnn.training.curve import first_point
from a3gnn.training.ending import End, Ending
from a3gnn.training.progress import Progress
from a3gnn.training.trainer import Trainer, TrainerOptions

#: Seven mini-batches per epoch of the small graph.
CONFIG = TrainConfig(batch_size=128)


def stopped_improving(evaluations: list[tuple[int, float]]) -> bool:
    batches, quality = tuple(zip(*evaluations, strict=True)) or ((), ())
    return LearningCurve(batches, quality, CurveEnd.BUDGET).has_stopped_improving()


def flat_after(rise: int, flat: int, spacing: int) -> list[tuple[int, float]]:
    """Returns evaluations that rise `rise` times and then stay, so many mini-batches apart."""
    quality = [0.01 * i for i in range(rise)] + [0.01 * (rise - 1)] * flat
    return [(spacing * (i + 1), value) for i, value in enumerate(quality)]


@pytest.mark.parametrize(
    ("rise", "flat", "spacing", "stopped"),
    [
        (12, 7, 100, False),  # too few evaluations
        (13, 7, 100, True),
        (60, 29, 100, False),  # less than a third
        (60, 30, 100, True),
        (30, 40, 1, False),  # too few mini-batches: each epoch has one
        (30, 200, 1, True),
        (1, 20, 50, True),  # nothing was learned at all
        (100, 0, 100, False),
    ],
)
def test_improvement_has_stopped_over_a_third_and_200_mini_batches_with_twenty_evaluations(
    rise: int, flat: int, spacing: int, stopped: bool
) -> None:
    assert stopped_improving(flat_after(rise, flat, spacing)) == stopped


def test_a_gain_below_a_hundredth_of_a_point_is_none_but_many_add_up() -> None:
    level = flat_after(20, 30, 50)
    assert stopped_improving([*level[:-1], (level[-1][0], level[-1][1] + 0.9e-4)])
    assert not stopped_improving([*level[:-1], (level[-1][0], level[-1][1] + 1.1e-4)])
    creeping = [(50 * (i + 1), 0.5 + 0.4e-4 * i) for i in range(60)]
    assert not stopped_improving(creeping)


def test_nothing_has_stopped_before_it_began() -> None:
    assert not stopped_improving([])


def progress_of(out: Path, graph: Graph, task: Task, config: TrainConfig = CONFIG) -> Progress:
    with Trainer(graph, config, task, TrainerOptions(scratch=out)) as trainer:
        return restore_checkpoint(out / "checkpoint.pt", trainer, identity(graph, config, task))


@pytest.mark.parametrize("batch_size", [32, 1024], ids=["many_small", "one_large"])
def test_training_ends_by_itself(batch_size: int, small_folder_graph: Graph, task: Task, tmp_path: Path) -> None:
    config, said = TrainConfig(batch_size=batch_size), list[str]()
    result = train(config, small_folder_graph, task=task, out=tmp_path / "run", notify=said.append)
    progress = progress_of(tmp_path / "run", small_folder_graph, task, config)
    per_epoch = result.batches // result.epochs
    evaluations = progress.evaluations(per_epoch)
    assert (result.ended, result.still_improving) == (End.NO_BETTER, False)
    assert stopped_improving(evaluations)
    before = [one for one in evaluations if one[0] <= result.batches - per_epoch]
    assert not stopped_improving(before)  # it ended at the first epoch at which it could
    assert re.search(rf"validation accuracy has not improved since about epoch {result.best_epoch} of", said[-1])
    assert result.batches == per_epoch * result.epochs == evaluations[-1][0]
    assert 0 < result.train_seconds < result.seconds
    assert json.loads((tmp_path / "run" / "result.json").read_text())["ended"] == "no better"


def test_long_epochs_are_evaluated_at_the_points_of_the_curve(
    small_folder_graph: Graph, task: Task, tmp_path: Path
) -> None:
    config = TrainConfig(batch_size=16)
    result = train(config, small_folder_graph, task=task, epochs=2, out=tmp_path / "run")
    per_epoch = result.batches // 2
    with Trainer(small_folder_graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
        first = first_point(trainer)
    due, expected = next_point(0, first), []
    while due <= result.batches:
        expected += [due] if due % per_epoch else []
        due = next_point(due, first)
    assert expected
    points = progress_of(tmp_path / "run", small_folder_graph, task, config).points
    assert [point.batches for point in points] == expected
    patient = train(config, small_folder_graph, task=task, epochs=2, patience=5, out=tmp_path / "patient")
    assert not progress_of(tmp_path / "patient", small_folder_graph, task, config).points
    assert patient.val_accuracy == result.val_accuracy  # evaluations change no weight


def test_a_run_that_ends_by_itself_is_the_same_in_pieces(small_folder_graph: Graph, task: Task, tmp_path: Path) -> None:
    whole = train(CONFIG, small_folder_graph, task=task, out=tmp_path / "whole")
    for epochs in (1, 3, 26):
        part = train(CONFIG, small_folder_graph, task=task, epochs=epochs, out=tmp_path / "parts", resume=epochs > 1)
        assert part.epochs == epochs
    last = train(CONFIG, small_folder_graph, task=task, out=tmp_path / "parts", resume=True)
    assert (last.epochs, last.best_epoch, last.ended) == (whole.epochs, whole.best_epoch, whole.ended)
    assert (last.val_accuracy, last.test_accuracy) == (whole.val_accuracy, whole.test_accuracy)
    one, other = (progress_of(tmp_path / name, small_folder_graph, task) for name in ("whole", "parts"))
    assert one.evaluations(7) == other.evaluations(7)
    again = train(CONFIG, small_folder_graph, task=task, out=tmp_path / "parts", resume=True)
    assert again.epochs == last.epochs


def test_where_epochs_end_a_training_that_improves_it_is_said_with_the_remedy(
    small_folder_graph: Graph, task: Task, tmp_path: Path
) -> None:
    said, out = list[str](), tmp_path / "run"
    result = train(CONFIG, small_folder_graph, task=task, epochs=2, out=out, notify=said.append)
    assert (result.ended, result.still_improving, result.best_epoch) == (End.EPOCHS, True, 2)
    line = "validation accuracy was still improving when the 2 epochs ended (best at epoch 2); the same call with "
    assert said[-1].startswith(line)
    remedy = re.search(r"with (epochs=4, out='.*', resume=True) goes on", said[-1])
    assert remedy
    options = eval(f"dict({remedy[1]})")
    further = train(CONFIG, small_folder_graph, task=task, notify=said.append, **options)
    assert further.epochs == 4
    assert further.val_accuracy > result.val_accuracy


def test_epochs_that_were_enough_are_not_called_too_few(small_folder_graph: Graph, tmp_path: Path) -> None:
    said, task = list[str](), Task(hidden_channels=8, learning_rate=1e-8)  # it learns nothing
    result = train(CONFIG, small_folder_graph, task=task, epochs=9, out=tmp_path / "run", notify=said.append)
    assert (result.ended, result.still_improving) == (End.EPOCHS, False)
    assert not [line for line in said if "improv" in line]


def test_a_falling_learning_rate_is_trained_to_its_end(small_folder_graph: Graph, task: Task, tmp_path: Path) -> None:
    falling = dataclasses.replace(task, lr_schedule="linear", lr_epochs=31, learning_rate=1e-8)
    said: list[str] = []
    result = train(CONFIG, small_folder_graph, task=falling, out=tmp_path / "run", notify=said.append)
    assert (result.epochs, result.ended, result.still_improving) == (31, End.EPOCHS, False)
    assert not [line for line in said if "epochs of at most" in line or "improv" in line]
    early = train(CONFIG, small_folder_graph, task=falling, patience=2, out=tmp_path / "early")
    assert early.ended is End.PATIENCE
    assert early.epochs == early.best_epoch + 2


def test_patience_alone_has_no_limit_of_epochs(small_folder_graph: Graph, tmp_path: Path) -> None:
    task = Task(hidden_channels=8, learning_rate=1e-8)
    result = train(CONFIG, small_folder_graph, task=task, patience=60, out=tmp_path / "run")
    assert result.epochs == result.best_epoch + 60
    assert result.ended is End.PATIENCE


def test_a_training_without_end_is_refused(small_folder_graph: Graph, task: Task, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="patience=None needs epochs, or training never ends"):
        train(CONFIG, small_folder_graph, task=task, patience=None, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert Ending.of(None, None, dataclasses.replace(task, lr_schedule="linear", lr_epochs=9)).epochs == 9

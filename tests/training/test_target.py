"""Training towards a target: when it is reached, where training ends, and what resumes keep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.learning_curve import FOLLOWING, CurveEnd, LearningCurve
from a3gnn.training.checkpoint import identity, restore_checkpoint
from a3gnn.training.curve import first_point, train_curve
from a3gnn.training.progress import Point, Progress
from a3gnn.training.trainer import Trainer, TrainerOptions

CONFIG = TrainConfig(batch_size=128)
EPOCHS = 5


@pytest.fixture
def curve(small_folder_graph, task, tmp_path) -> LearningCurve:
    """What the task learns in the epochs of these tests, as a tune trains it."""
    with Trainer(small_folder_graph, CONFIG, task, TrainerOptions(scratch=tmp_path)) as trainer:
        last = EPOCHS * trainer.batches_per_epoch
        end = lambda curve, due: CurveEnd.BUDGET if due > last else None  # noqa: E731
        found = train_curve(trainer, None, first=first_point(trainer), should_end=end, state=None).curve
    assert len(found.batches) > 4
    return found


@pytest.fixture
def middle(curve) -> float:
    """A target in percent that the curve's middle reaches first, and that the next points keep."""
    kept, own = curve.held(), curve.val_accuracy
    places = range(len(kept) // 3, len(kept) - FOLLOWING)
    return 100 * next(kept[i] for i in places if kept[i] > max(kept[:i]) and max(own[i + FOLLOWING :]) >= kept[i])


def progress_of(out: Path, graph, task) -> Progress:
    with Trainer(graph, CONFIG, task, TrainerOptions(scratch=out)) as trainer:
        return restore_checkpoint(out / "checkpoint.pt", trainer, identity(graph, CONFIG, task))


def test_the_target_is_reached_where_the_curve_says(curve, middle, small_folder_graph, task, tmp_path):
    said: list[str] = []
    out = tmp_path / "run"
    options = {"task": task, "epochs": EPOCHS, "target_accuracy": middle, "notify": said.append}
    result = train(CONFIG, small_folder_graph, out=out, **options)
    reached = curve.first_reaching(middle / 100)
    assert result.batches_to_accuracy == reached
    assert result.target_accuracy == middle / 100
    assert result.epochs == EPOCHS
    progress = progress_of(out, small_folder_graph, task)
    place = curve.batches.index(reached)
    found = [(p.batches, p.val_accuracy) for p in progress.points]
    assert found[: place + 1] == list(zip(curve.batches[: place + 1], curve.val_accuracy, strict=False))
    assert set(found) <= set(zip(curve.batches, curve.val_accuracy, strict=True))  # later ones are within epochs
    assert 0 < progress.setup_s < result.seconds_to_accuracy < progress.train_s
    assert 0 < result.eval_seconds_to_accuracy < result.eval_seconds == progress.eval_s
    assert sum(line.startswith("reached ") for line in said) == 1
    assert json.loads((out / "result.json").read_text()) == result.to_dict()


def test_training_may_end_at_the_target(curve, middle, small_folder_graph, task, tmp_path):
    out = tmp_path / "run"
    ends = {"task": task, "epochs": EPOCHS, "target_accuracy": middle, "until_target": True, "out": out}
    result = train(CONFIG, small_folder_graph, **ends)
    reached = curve.first_reaching(middle / 100)
    assert (result.best_epoch, result.batches_to_accuracy) == (None, reached)
    decided = curve.batches.index(reached) + FOLLOWING  # the last point that decides whether the target is kept
    last = next(i for i in range(decided, len(curve.batches)) if curve.val_accuracy[i] >= middle / 100)
    assert (result.batches, result.val_accuracy) == (curve.batches[last], curve.val_accuracy[last])
    assert 0 < result.seconds_to_accuracy < result.train_seconds
    with Trainer(small_folder_graph, CONFIG, task, TrainerOptions(scratch=out)) as trainer:
        assert result.epochs == (curve.batches[last] - 1) // trainer.batches_per_epoch
        trainer.model.load_state_dict(torch.load(out / "model.pt", weights_only=True))
        assert (result.val_accuracy, result.test_accuracy) == (trainer.validate(), trainer.test())
    again = train(CONFIG, small_folder_graph, resume=True, **ends)
    assert (again.batches_to_accuracy, again.seconds_to_accuracy) == (reached, result.seconds_to_accuracy)
    assert again.test_accuracy == result.test_accuracy
    # It may go on, and is then like a run that never ended.
    further = train(CONFIG, small_folder_graph, task=task, epochs=EPOCHS, out=out, resume=True)
    whole = train(CONFIG, small_folder_graph, task=task, epochs=EPOCHS, out=tmp_path / "whole")
    assert accuracies(out) == accuracies(tmp_path / "whole")
    assert further.test_accuracy == whole.test_accuracy
    with pytest.raises(
        UsageError, match=r"reached .*, kept it until \d+ mini-batches and went on to .* start another run"
    ):
        train(CONFIG, small_folder_graph, resume=True, **ends)


def accuracies(out: Path) -> list[tuple[float, float]]:
    lines = (json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines())
    return [(line["loss"], line["val_accuracy"]) for line in lines]


def test_a_touch_that_the_next_points_do_not_keep_does_not_count():
    progress = Progress()
    for place, accuracy in enumerate([0.6, 0.82, 0.7, 0.71, 0.7, 0.81, 0.8], start=1):
        progress.points.append(Point(place, accuracy, float(place), 0.0))
    assert progress.reached(0.8) is progress.points[5]  # with as many points after it as there are
    assert progress.settled(0.8) is None
    progress.points.append(Point(8, 0.83, 8.0, 0.0))
    assert progress.settled(0.8) is None
    progress.points.append(Point(9, 0.79, 9.0, 0.0))
    assert progress.settled(0.8) is None  # known to be kept, but this point is below it
    progress.points.append(Point(10, 0.8, 10.0, 0.0))
    assert progress.settled(0.8) is progress.points[9]
    assert progress.reached(0.8) is progress.points[5]
    assert progress.reached(0.85) is None
    assert Progress().reached(0.8) is None


def test_a_target_reached_too_late_to_know_whether_it_is_kept(curve, small_folder_graph, task, tmp_path):
    said: list[str] = []
    best = max(curve.val_accuracy)
    late = {"task": task, "epochs": EPOCHS, "target_accuracy": 100 * best, "until_target": True}
    with Trainer(small_folder_graph, CONFIG, task, TrainerOptions(scratch=tmp_path)) as trainer:
        batches = trainer.batches_per_epoch
    epochs = -(-curve.batches[curve.val_accuracy.index(best)] // batches)
    result = train(CONFIG, small_folder_graph, out=tmp_path / "run", notify=said.append, **late | {"epochs": epochs})
    points = progress_of(tmp_path / "run", small_folder_graph, task).points
    kept = LearningCurve(*zip(*((p.batches, p.val_accuracy) for p in points), strict=True), CurveEnd.BUDGET)
    assert (result.ended, result.epochs) == ("epochs", epochs)
    assert result.batches_to_accuracy == kept.first_reaching(best)
    assert sum(line.startswith("reached ") for line in said) == (result.batches_to_accuracy is not None)


def test_a_target_that_is_not_reached(small_folder_graph, task, tmp_path):
    result = train(
        CONFIG, small_folder_graph, task=task, epochs=2, target_accuracy=100, until_target=True, out=tmp_path / "run"
    )
    assert result.epochs == 2
    assert result.best_epoch in (1, 2)
    assert (result.seconds_to_accuracy, result.batches_to_accuracy, result.eval_seconds_to_accuracy) == (None,) * 3


@pytest.mark.parametrize("stop", ["mini-batch", "point"])
def test_an_interrupted_run_reaches_it_where_a_whole_one_does(
    stop, curve, middle, small_folder_graph, task, tmp_path, monkeypatch
):
    options = {"task": task, "epochs": EPOCHS, "target_accuracy": middle}
    whole = train(CONFIG, small_folder_graph, out=tmp_path / "whole", **options)
    name = "_train" if stop == "mini-batch" else "validate"
    work, left = getattr(Trainer, name), [3 if stop == "mini-batch" else 2]

    def interrupt(self, *arguments):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return work(self, *arguments)

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, name, interrupt)
        with pytest.raises(KeyboardInterrupt, match="is saved"):
            train(CONFIG, small_folder_graph, out=out, **options)
    before = progress_of(out, small_folder_graph, task)
    resumed = train(CONFIG, small_folder_graph, out=out, resume=True, **options)
    assert resumed.batches_to_accuracy == whole.batches_to_accuracy
    assert accuracies(out) == accuracies(tmp_path / "whole")
    after = progress_of(out, small_folder_graph, task)
    assert after.setup_s == before.setup_s > 0
    assert after.points[: len(before.points)] == before.points


def test_the_tunes_target_holds_on_its_graph(write_tuned, small_folder_graph, tiny_graph, tmp_path):
    path = write_tuned(target_accuracy=0.3, seconds_to_accuracy={"median": 2.0, "low": 1.5, "high": 2.5})
    result = train(path, epochs=1, out=tmp_path / "tuned")
    assert result.target_accuracy == 0.3
    assert train(path, epochs=1, target_accuracy=50, out=tmp_path / "given").target_accuracy == 0.5
    assert train(path, tiny_graph, epochs=1, out=tmp_path / "other").target_accuracy is None


@pytest.mark.parametrize("value", [0, 0.88, 1, 101, -3, "88", True, float("nan")])
def test_a_target_is_in_per_cent(value, small_folder_graph, tmp_path):
    with pytest.raises(UsageError, match=r"must be in percent, above 1 and up to 100, got .*; 88 stands"):
        train(CONFIG, small_folder_graph, target_accuracy=value, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_ending_at_a_target_needs_one(small_folder_graph, tmp_path):
    with pytest.raises(UsageError, match="until_target needs a target"):
        train(CONFIG, small_folder_graph, until_target=True, out=tmp_path / "run")
    with pytest.raises(UsageError, match="until_target must be True or False"):
        train(CONFIG, small_folder_graph, target_accuracy=50, until_target="yes", out=tmp_path / "run")

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.learning_curve import CurveEnd, LearningCurve, next_point
from a3gnn.task import Task
from a3gnn.training import curve as curve_state
from a3gnn.training.curve import CurveTraining, first_point, train_curve
from a3gnn.training.trainer import Trainer, TrainerOptions

CONFIG = TrainConfig(batch_size=128)  # 10 mini-batches an epoch
FIRST = 3
LAST = 24


def until(batches: int) -> Callable[[LearningCurve, int], CurveEnd | None]:
    return lambda curve, due: CurveEnd.BUDGET if due > batches else None


def trained(
    graph: Graph, task: Task, config: TrainConfig, batches: int, folder: Path, curve: LearningCurve | None = None, **how
) -> tuple[CurveTraining, float | None]:
    with Trainer(graph, config, task, TrainerOptions(scratch=folder)) as trainer:
        next(trainer.steps(0))  # as a trial that has timed some
        training = train_curve(
            trainer, curve, first=FIRST, should_end=until(batches), state=how.pop("state", None), **how
        )
        return training, training.test_accuracy(trainer)


@pytest.fixture
def task() -> Task:
    return Task(hidden_channels=16, fanouts=(5, 5), learning_rate=0.01, dropout=0.3)


def assert_same(one: CurveTraining, other: CurveTraining) -> None:
    assert one.curve == other.curve
    assert one.best.keys() == other.best.keys()
    assert all(torch.equal(one.best[name], other.best[name]) for name in one.best)


KNOBS = {
    "sequential": CONFIG,
    "mode1": CONFIG.replace(parallel_mode="mode1", num_workers=2),
    "mode2": CONFIG.replace(parallel_mode="mode2", num_workers=2, feature_tier="disk"),
    "partitions": CONFIG.replace(num_partitions=3, partitioner="random"),
    "proximity_bias": CONFIG.replace(seed_order="proximity", cache_bytes=20_000, bias_rate=4.0),
    "work": CONFIG.replace(seed_fanout=2, deep_fanout=3, learning_rate_scale=4.0),
}


# Knobs with one model each; the other pairs are weekly, because no knob depends on the model.
@pytest.mark.parametrize(
    ("config", "model"),
    [
        pytest.param(config, model, id=f"{name}-{model}", marks=[] if at % 2 == other else pytest.mark.weekly)
        for at, (name, config) in enumerate(KNOBS.items())
        for other, model in enumerate(("sage", "gin"))
    ],
)
def test_pieces_equal_the_whole(config, model, small_folder_graph, task, tmp_path):
    task = dataclasses.replace(task, model=model)
    whole, test = trained(small_folder_graph, task, config, LAST, tmp_path, whole=True)
    assert whole.curve.batches[:3] == (3, 6, 9)
    assert whole.curve.trained <= LAST < next_point(whole.curve.trained, FIRST)
    state, curve = tmp_path / "state.pt", None
    for batches in (1, 7, 8, LAST):
        piece, found = trained(small_folder_graph, task, config, batches, tmp_path, curve, state=state)
        curve = piece.curve
    assert_same(piece, whole)
    assert found == test
    assert test is not None
    # A known curve without a state gives the same state, and the same weights.
    again, _ = trained(small_folder_graph, task, config, LAST + 3, tmp_path, curve)
    assert again.curve.val_accuracy[:-1] == whole.curve.val_accuracy
    further, _ = trained(small_folder_graph, task, config, LAST + 3, tmp_path, curve, state=state)
    assert_same(again, further)


def test_pieces_equal_the_whole_while_the_rate_falls(small_folder_graph, task, tmp_path):
    """Beyond its end too: the rate is of the mini-batch's number, not of how far a curve is going to be trained."""
    falling, last = dataclasses.replace(task, lr_schedule="cosine", lr_epochs=1), 27  # it ends after 10 mini-batches
    whole, _ = trained(small_folder_graph, falling, CONFIG, last, tmp_path, whole=True)
    state, curve = tmp_path / "state.pt", None
    for batches in (7, 12, last):
        piece, _ = trained(small_folder_graph, falling, CONFIG, batches, tmp_path, curve, state=state)
        curve = piece.curve
    assert_same(piece, whole)
    assert whole.curve.batches == (3, 6, 9, 18, 27)
    assert whole.curve.val_accuracy[3] == whole.curve.val_accuracy[4]
    constant, _ = trained(small_folder_graph, task, CONFIG, last, tmp_path, whole=True)
    assert constant.curve.val_accuracy[3:] != whole.curve.val_accuracy[3:]


def test_another_mode_extends_a_curve_of_the_same_key(small_folder_graph, task, tmp_path):
    whole, _ = trained(small_folder_graph, task, CONFIG, LAST, tmp_path)
    state = tmp_path / "state.pt"
    trained(small_folder_graph, task, CONFIG, 9, tmp_path, state=state)
    other = CONFIG.replace(parallel_mode="mode1", num_workers=2)
    rest, _ = trained(small_folder_graph, task, other, LAST, tmp_path, state=state)  # the state knows the curve
    assert_same(rest, whole)


def test_known_points_are_neither_trained_nor_evaluated_again(small_folder_graph, task, tmp_path, monkeypatch):
    state = tmp_path / "state.pt"
    before, _ = trained(small_folder_graph, task, CONFIG, 9, tmp_path, state=state)
    counts = {"steps": 0, "validations": 0}
    train, validate = Trainer._train, Trainer.validate

    def count_train(self, batch):
        counts["steps"] += 1
        return train(self, batch)

    def count_validate(self):
        counts["validations"] += 1
        return validate(self)

    monkeypatch.setattr(Trainer, "_train", count_train)
    monkeypatch.setattr(Trainer, "validate", count_validate)
    same, _ = trained(small_folder_graph, task, CONFIG, 9, tmp_path, before.curve)
    assert same.curve == before.curve
    assert (same.train_seconds, same.eval_seconds, dict(same.best)) == (0.0, 0.0, {})
    assert counts == {"steps": 1, "validations": 0}
    trained(small_folder_graph, task, CONFIG, 18, tmp_path, before.curve, state=state)
    assert counts == {"steps": 1 + 1 + 9, "validations": 1}
    trained(small_folder_graph, task, CONFIG, 27, tmp_path, before.curve)  # no state: from the start
    assert counts == {"steps": 11 + 1 + 27, "validations": 1 + 2}


@pytest.mark.parametrize("spoil", ["missing", "damaged", "other_task", "other_grid", "other_curve"])
def test_a_state_that_does_not_fit_is_not_used(spoil, small_folder_graph, task, tmp_path, monkeypatch):
    state = tmp_path / "state.pt"
    expected, _ = trained(small_folder_graph, task, CONFIG, 18, tmp_path)
    known, _ = trained(small_folder_graph, task, CONFIG, 6, tmp_path)
    if spoil == "damaged":
        state.write_bytes(b"no state")
    elif spoil == "other_task":
        trained(small_folder_graph, dataclasses.replace(task, seed=9), CONFIG, 9, tmp_path, state=state)
    elif spoil == "other_grid":
        monkeypatch.setattr(curve_state, "CURVE_STATE_VERSION", 0)
        trained(small_folder_graph, task, CONFIG, 9, tmp_path, state=state)
        monkeypatch.undo()
    elif spoil == "other_curve":
        trained(small_folder_graph, task, CONFIG, 9, tmp_path, state=state)
        fields = torch.load(state, weights_only=True)
        fields["curve"]["val_accuracy"] = (0.0, *fields["curve"]["val_accuracy"][1:])
        torch.save(fields, state)
    found, _ = trained(small_folder_graph, task, CONFIG, 18, tmp_path, known.curve, state=state)
    assert_same(found, expected)
    assert torch.load(state, weights_only=True)["batches"] == 18


def test_of_the_best_weights_there_is_one_copy(small_folder_graph, task, tmp_path):
    with Trainer(small_folder_graph, CONFIG, task, TrainerOptions(scratch=tmp_path)) as trainer:
        state = curve_state.CurveState()
        steps = trainer.steps(0)
        for accuracy, kept in ((0.5, True), (0.4, False), (0.6, True)):
            next(steps)
            state.batches += 1
            before = {name: tensor.data_ptr() for name, tensor in state.best.items()}
            state.add(accuracy, trainer)
            weights = trainer.model.state_dict()
            assert all(torch.equal(state.best[name], weights[name]) == kept for name in weights if "weight" in name)
            assert not before or before == {name: tensor.data_ptr() for name, tensor in state.best.items()}
            assert all(state.best[name].data_ptr() != weights[name].data_ptr() for name in weights)
        steps.close()


def test_what_is_interrupted_goes_on_from_the_last_state(small_folder_graph, task, tmp_path, monkeypatch):
    whole, _ = trained(small_folder_graph, task, CONFIG, LAST, tmp_path)
    state = tmp_path / "state.pt"
    monkeypatch.setattr("a3gnn.training.run_folder._PERIOD_S", 0.0)
    monkeypatch.setattr("a3gnn.training.run_folder._PERIOD_WRITES", 0)
    train, left = Trainer._train, [12]

    def die(self, batch):
        left[0] -= 1
        if left[0] == 0:
            raise RuntimeError("as if killed")
        return train(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_train", die)
        with pytest.raises(RuntimeError, match="as if killed"):
            trained(small_folder_graph, task, CONFIG, LAST, tmp_path, state=state)
    assert torch.load(state, weights_only=True)["batches"] == 10  # one was trained before the curve began
    rest, _ = trained(small_folder_graph, task, CONFIG, LAST, tmp_path, state=state)
    assert_same(rest, whole)


def test_the_end_is_asked_with_each_point_to_come(small_folder_graph, task, tmp_path):
    asked = []

    def should_end(curve: LearningCurve, due: int) -> CurveEnd | None:
        asked.append((curve.trained, due))
        return CurveEnd.TARGET if curve.first_reaching(0.0) is not None else None

    with Trainer(small_folder_graph, CONFIG, task, TrainerOptions(scratch=tmp_path)) as trainer:
        training = train_curve(trainer, None, first=FIRST, should_end=should_end, state=None)
    assert asked == [(0, 3), (3, 6)]
    assert training.curve.ended is CurveEnd.TARGET
    assert training.train_seconds > 0
    assert training.eval_seconds > 0


def test_a_curve_of_another_grid_is_refused(small_folder_graph, task, tmp_path):
    known = LearningCurve((4,), (0.5,), CurveEnd.BUDGET)
    with pytest.raises(UsageError, match="first point must be at 3 mini-batches, got 4"):
        trained(small_folder_graph, task, CONFIG, LAST, tmp_path, known)


def test_the_first_point_is_fixed_by_the_learning_key(small_folder_graph, task, tmp_path):
    def first(config: TrainConfig, graph: Graph = small_folder_graph, task: Task = task) -> int:
        with Trainer(graph, config, task, TrainerOptions(scratch=tmp_path)) as trainer:
            return first_point(trainer)

    few = first(TrainConfig(batch_size=16))
    assert few > first(TrainConfig(batch_size=512)) >= 1
    assert few == first(TrainConfig(batch_size=16, parallel_mode="mode2", num_workers=3, feature_tier="disk"))
    assert few > first(TrainConfig(batch_size=16), task=dataclasses.replace(task, fanouts=(20, 20)))

"""The run's folder among ranks: who writes the checkpoint where one of them is lost."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import PeerLostError
from a3gnn.task import Task
from a3gnn.training.checkpoint import save_checkpoint
from a3gnn.training.ending import Ending
from a3gnn.training.fit import run
from a3gnn.training.progress import EpochTotals, Progress
from a3gnn.training.rank_processes import FollowerFolder, LeaderFolder
from a3gnn.training.run_folder import SaveTimer
from a3gnn.training.step import EpochWork
from a3gnn.training.trainer import Trainer


class Group:
    """Ranks that are called one after the other, rank 0 first, and their store."""

    def __init__(self) -> None:
        self.sent: bytes = b""
        self.claimed: list[str] = []

    def bytes_of_first(self, content: bytes) -> bytes:
        self.sent = content or self.sent
        return self.sent

    def claim(self, name: str) -> bool:
        self.claimed.append(name)
        return self.claimed.count(name) == 1


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, list[str]]:
    """Returns the folders of two ranks after the first checkpoint, and a list of who writes another."""
    group, wrote = Group(), []
    leader, follower = LeaderFolder(tmp_path / "run", resume=False, ranks=group), FollowerFolder(group)  # type: ignore[arg-type]
    for name, folder in (("leader", leader), ("follower", follower)):
        folder._progress = Progress()
        folder._trainer = SimpleNamespace(ready_to_save=lambda: True)  # type: ignore[assignment]
        monkeypatch.setattr(folder, "_write", lambda name=name: wrote.append(name))
    leader._checkpoint.touch()
    return leader, follower, wrote


def test_both_have_one_path_and_only_the_first_keeps_scratch_there(pair, tmp_path):
    leader, follower, _ = pair
    assert leader.path == follower.path == tmp_path / "run"
    assert leader.scratch == leader.path
    assert follower.scratch is None


def test_figures_of_an_epoch_that_was_counted_by_ranks_that_are_gone_are_not_told(tiny_graph, tmp_path):
    group, known, path = Group(), {"a run": 1}, tmp_path / "run"
    counted = Progress(under_way=EpochTotals(batches=2, seeds=64, input_nodes=9, seconds=1.0, work=[10.0, 20.0, 3.0]))
    path.mkdir()
    with Trainer(tiny_graph, TrainConfig(), Task(hidden_channels=4)) as trainer:
        save_checkpoint(path / "checkpoint.pt", trainer, counted, known)
        folders = LeaderFolder(path, resume=True, ranks=group), FollowerFolder(group)  # type: ignore[arg-type]
        found = [folder.begin(trainer, known) for folder in folders]
    assert found[0].under_way.seeds == 64
    work = EpochWork(*found[0].under_way.work).plus(found[1].under_way.work)
    ended = found[0].finish_epoch(0.5, 0.1, work)
    assert (ended.nvtps, ended.mteps, ended.kilojoules) == (None, None, None)


def test_between_epochs_nothing_is_lost():
    totals = EpochTotals()
    totals.forget_work()
    assert totals.work == [0.0, 0.0, 0.0]


def test_one_of_those_that_are_left_saves(pair):
    leader, follower, wrote = pair
    assert [follower.save_without_all(), leader.save_without_all()] == [True, False]
    assert wrote == ["follower"]


def test_who_does_not_see_the_folder_leaves_the_checkpoint_to_others(pair):
    leader, follower, wrote = pair
    leader._checkpoint.unlink()  # as on another machine
    assert [follower.save_without_all(), leader.save_without_all()] == [False, True]
    assert wrote == ["leader"]


def test_who_does_not_see_the_best_weights_leaves_the_checkpoint_to_others(pair, monkeypatch):
    leader, follower, wrote = pair
    monkeypatch.setattr(follower, "_best_epoch", lambda: 3)
    assert [follower.save_without_all(), leader.save_without_all()] == [False, True]
    follower._best_path(3).touch()
    assert not follower.save_without_all()
    assert wrote == ["leader"]


@pytest.mark.parametrize("which", [0, 1])
def test_who_has_no_whole_model_leaves_the_checkpoint_to_others(which, pair):
    without, other = pair[which], pair[1 - which]
    without._trainer.ready_to_save = lambda: False
    assert [without.save_without_all(), other.save_without_all()] == [False, True]


def test_a_due_checkpoint_waits_for_the_whole_model(pair, monkeypatch):
    leader, _, wrote = pair
    monkeypatch.setattr(SaveTimer, "is_due", True)
    leader._trainer.ready_to_save = iter([False, True]).__next__
    leader.save_if_due()
    assert not wrote
    leader.save_if_due()
    assert wrote == ["leader"]


def test_two_runs_of_one_group_save_each(tmp_path):
    group = Group()
    folders = [LeaderFolder(tmp_path / str(number), resume=False, ranks=group) for number in range(2)]  # type: ignore[arg-type]
    assert [group.claim(folder._turn) for folder in folders] == [True, True]


@pytest.mark.parametrize("first", ["leader", "follower"])
def test_an_interrupt_that_ends_one_rank_before_the_others_is_saved_once(first, pair, monkeypatch):
    leader, follower, wrote = pair

    class Interrupt(SimpleNamespace):
        noted, forced = True, False

        def __enter__(self) -> Interrupt:
            return self

        def __exit__(self, *_: object) -> None: ...

    def ended(folder: Any, error: BaseException) -> str:
        def stop(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("a3gnn.training.fit.fit", stop)
        trainer: Any = SimpleNamespace(batches_per_epoch=1, metric=None)
        with pytest.raises(KeyboardInterrupt) as caught:
            run(
                trainer,
                folder,
                folder._progress,
                Interrupt(),  # type: ignore[arg-type]
                ending=Ending(1, None),
                first=None,
                target=None,
                progress=False,
                notify=print,
            )
        return str(caught.value)

    order = [leader, follower] if first == "leader" else [follower, leader]
    said = [ended(order[0], KeyboardInterrupt()), ended(order[1], PeerLostError("gone"))]
    assert wrote == ["leader"]
    assert "is saved" in said[order.index(leader)]

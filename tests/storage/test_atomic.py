"""Files that appear whole or not at all, and outlast a failure of power."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from a3gnn.apply.train import train
from a3gnn.config import TrainConfig
from a3gnn.errors import A3GNNError
from a3gnn.storage.atomic import persist, replacing, write_text
from a3gnn.task import Task
from a3gnn.training.checkpoint import persist_saved, save


class Disk:
    """What is written to the disk and renamed meanwhile, in its order; all of it really is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, str]] = []
        fsync, replace = os.fsync, os.replace

        def noted_fsync(file: int) -> None:
            self.done.append(("fsync", os.readlink(f"/proc/self/fd/{file}")))
            fsync(file)

        def noted_replace(source: Path, target: Path) -> None:
            self.done.append(("replace", str(target)))
            replace(source, target)

        monkeypatch.setattr(os, "fsync", noted_fsync)
        monkeypatch.setattr(os, "replace", noted_replace)

    def steps(self, path: Path) -> list[str]:
        """What was done for `path`: its draft's content, its name, and the names in its folder after that."""
        found = []
        for what, place in self.done:
            if what == "replace" and place == str(path):
                found.append("name")
            elif what == "fsync" and place == str(path.parent) and "name" in found:
                found.append("entries")
            elif what == "fsync" and Path(place).name == path.name:
                found.append("content")
        return found


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_content_is_on_the_disk_before_its_name_and_its_name_when_it_returns(disk: Disk, tmp_path: Path) -> None:
    write_text(tmp_path / "state.json", "{}")
    assert disk.steps(tmp_path / "state.json") == ["content", "name", "entries"]
    assert (tmp_path / "state.json").read_text() == "{}"


def test_every_file_of_a_folder_is(disk: Disk, tmp_path: Path) -> None:
    with replacing(tmp_path / "graph") as draft:
        (draft / "inner").mkdir(parents=True)
        (draft / "inner" / "x.npy").write_bytes(b"1")
        (draft / "meta.json").write_bytes(b"2")
    done = [Path(place).name for what, place in disk.done[:-1] if what == "fsync"]
    assert sorted(done) == ["graph", "inner", "meta.json", "x.npy"]
    assert disk.done[-2:] == [("replace", str(tmp_path / "graph")), ("fsync", str(tmp_path))]


def test_what_can_be_made_again_does_not_wait_for_the_disk(disk: Disk, tmp_path: Path) -> None:
    with replacing(tmp_path / "table", durable=False) as draft:
        draft.write_bytes(b"1")
    assert disk.done == [("replace", str(tmp_path / "table"))]
    persist(tmp_path / "table")
    assert disk.done[1:] == [("fsync", str(tmp_path / "table")), ("fsync", str(tmp_path))]


def test_a_disk_that_fails_leaves_what_there_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "model.pt", {"a": 1})
    before = (tmp_path / "model.pt").read_bytes()

    def fail(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(
        A3GNNError, match=r"model.pt can't be written .*No space left.*The previous checkpoint still exists"
    ):
        save(tmp_path / "model.pt", {"a": 2})
    with pytest.raises(A3GNNError, match=r"model.pt can't be written"):
        persist_saved(tmp_path / "model.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]
    assert (tmp_path / "model.pt").read_bytes() == before


def test_all_that_a_training_leaves_is_on_the_disk(disk: Disk, small_folder_graph, tmp_path: Path) -> None:
    task = Task(hidden_channels=8, fanouts=(3, 3))
    result = train(TrainConfig(batch_size=128), small_folder_graph, task=task, epochs=2, out=tmp_path / "run")
    for name in ("checkpoint.pt", "model.pt", "result.json"):
        steps = disk.steps(tmp_path / "run" / name)
        assert steps[:3] == ["content", "name", "entries"], name
    best = str(tmp_path / "run" / f"best-{result.best_epoch}.pt")
    last = max(i for i, step in enumerate(disk.done) if step == ("replace", str(tmp_path / "run" / "checkpoint.pt")))
    assert ("fsync", best) in disk.done[:last]

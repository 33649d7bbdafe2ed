"""Where the states of learning curves lie, and that they take a bounded size."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from a3gnn.profiling.known import curve_state, drop_oldest
from a3gnn.storage.cache_content import entries, to_remove


def _write(root: Path, name: str, size: int, age: float) -> Path:
    path = curve_state(root, name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def test_the_place_tells_trainings_apart(tmp_path: Path) -> None:
    key = (("batch_size", 64), ("bias_rate", 1.0))
    place = curve_state(tmp_path, "graph", "task", key, "hardware", 3)
    assert place == curve_state(tmp_path, "graph", "task", tuple(key), "hardware", 3)
    others = [
        curve_state(tmp_path, "graph", "task", (("batch_size", 32), ("bias_rate", 1.0)), "hardware", 3),
        curve_state(tmp_path, "graph", "other", key, "hardware", 3),
        curve_state(tmp_path, "graph", "task", key, "hardware", 4),
    ]
    assert len({place, *others}) == 4


@pytest.mark.parametrize(("most", "left"), [(100, "abc"), (60, "abc"), (59, "ac"), (40, "ac"), (20, "c"), (9, "")])
def test_the_oldest_go_first(tmp_path: Path, most: int, left: str) -> None:
    paths = {name: _write(tmp_path, name, size, age) for name, size, age in (("a", 30, 5), ("b", 20, 9), ("c", 10, 1))}
    drop_oldest(tmp_path, most)
    assert "".join(name for name, path in paths.items() if path.exists()) == left


def test_nothing_to_drop(tmp_path: Path) -> None:
    drop_oldest(tmp_path, 0)
    assert not list(tmp_path.iterdir())


def test_the_cache_commands_know_them(tmp_path: Path) -> None:
    path = _write(tmp_path, "a", 30, 5)
    (path.parent / "notes.txt").write_text("mine")
    draft = path.parent / f".{path.name}.abcdef_1"
    draft.mkdir()
    found = entries(tmp_path)
    assert [(entry.kind, entry.path) for entry in found] == [("curve", path), ("draft", draft)]
    assert to_remove(found, None, downloads=False) == found
    for entry in found:
        entry.remove()
    assert [left.name for left in path.parent.iterdir()] == ["notes.txt"]

"""A stage of a killed process counts only if its source is the same and its files have their checksums."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.storage.npy import NpyWriter, open_npy
from a3gnn.storage.unfinished import GrowingFile, Mark, Unfinished


def left_by(folder: Path, source: str = "graph.npz|1") -> dict[str, object]:
    """The state of a process that was killed while a file of two finished pieces had a third one."""
    unfinished = Unfinished(folder, source)
    with GrowingFile(folder / "edges") as file:
        file.append(memoryview(b"one"))
        file.append(memoryview(b"two"))
        unfinished.keep("adjacency", {folder / "edges": file.mark}, done=2)
        state = unfinished.stage("adjacency")
        file.append(memoryview(b"three"))
    assert state is not None
    return state


def test_a_finished_part_is_found_and_continued(tmp_path: Path) -> None:
    state = left_by(tmp_path)
    found = Unfinished(tmp_path, "graph.npz|1").stage("adjacency")
    assert found == state == {"done": 2, "files": {"edges": Mark(0, 6, state["files"]["edges"].checksum)}}  # type: ignore[index]
    with GrowingFile(tmp_path / "edges", found["files"]["edges"]) as file:
        file.append(memoryview(b"3"))
    assert (tmp_path / "edges").read_bytes() == b"onetwo3"


def test_files_that_are_not_listed_are_deleted(tmp_path: Path) -> None:
    left_by(tmp_path)
    (tmp_path / ".draft").mkdir()
    (tmp_path / ".draft" / "half").write_text("of a file")
    Unfinished(tmp_path, "graph.npz|1")
    assert {path.name for path in tmp_path.rglob("*")} == {"edges", "finished.json"}


@pytest.mark.parametrize("content", [b"onetwX", b"onet", b"", None])
def test_a_part_with_another_content_does_not_count(content: bytes | None, tmp_path: Path) -> None:
    left_by(tmp_path)
    (tmp_path / "edges").unlink() if content is None else (tmp_path / "edges").write_bytes(content)
    assert Unfinished(tmp_path, "graph.npz|1").stage("adjacency") is None


@pytest.mark.parametrize("listed", [None, "", "{", "[]", '{"of": 3}'])
def test_nothing_counts_of_another_source_or_without_a_list(listed: str | None, tmp_path: Path) -> None:
    left_by(tmp_path)
    if listed is not None:
        (tmp_path / "finished.json").write_text(listed)
    found = Unfinished(tmp_path, "graph.npz|2" if listed is None else "graph.npz|1")
    assert not found.begun
    assert {path.name for path in tmp_path.iterdir()} <= {"finished.json"}


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    kept=st.integers(0, 6),
    columns=st.none() | st.integers(1, 3),
    dtype=st.sampled_from(["i4", "i8", "f2"]),
)
def test_a_continued_array_is_the_whole_one(
    lengths: list[int], kept: int, columns: int | None, dtype: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("npy")
    shapes = [(n,) if columns is None else (n, columns) for n in lengths]
    rows = [np.arange(np.prod(shape)).reshape(shape).astype(dtype) for shape in shapes]
    with NpyWriter(folder / "whole.npy", dtype, columns) as writer:
        for piece in rows:
            writer.append(piece)
    with suppress(InterruptedError), NpyWriter(folder / "killed.npy", dtype, columns) as writer:
        for piece in rows[:kept]:
            writer.append(piece)
        mark = writer.mark
        writer.append(np.concatenate(rows))  # which the list does not have
        raise InterruptedError
    with NpyWriter(folder / "killed.npy", dtype, columns, mark) as continued:
        for piece in rows[kept:]:
            continued.append(piece)
    assert (folder / "killed.npy").read_bytes() == (folder / "whole.npy").read_bytes()
    np.testing.assert_array_equal(open_npy(folder / "killed.npy"), np.concatenate(rows).astype(dtype))

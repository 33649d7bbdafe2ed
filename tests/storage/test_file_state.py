"""What tells files apart that have the same size and times."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from a3gnn.storage.stamp import content_state, file_state


def test_the_time_of_change_tells_what_the_time_of_modification_hides(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    os.utime(path, (1, 1))
    before = file_state(path)
    assert file_state(path) == before
    (tmp_path / "new").write_bytes(b"after_")
    os.utime(tmp_path / "new", (1, 1))
    os.replace(tmp_path / "new", path)
    after = file_state(path)
    assert after[:2] == before[:2]
    assert after != before


@pytest.mark.parametrize("compressed", [False, True])
def test_archives_of_other_arrays_have_other_hashes(tmp_path: Path, compressed: bool) -> None:
    save = np.savez_compressed if compressed else np.savez
    large = np.zeros(1 << 16)  # more than is read of the file
    states = []
    for value in (0, 1, 0):
        large[0] = value
        save(tmp_path / "arrays.npz", first=large, last=np.zeros(1 << 16))
        os.utime(tmp_path / "arrays.npz", (1, 1))
        states.append(content_state(tmp_path / "arrays.npz"))
    assert states[0] != states[1]


def test_any_of_many_arrays_counts(tmp_path: Path) -> None:
    states = []
    for value in (0, 1):
        arrays = {f"array_{place}": np.array([value if place == 0 else 0]) for place in range(2000)}
        np.savez(tmp_path / "arrays.npz", **arrays)
        states.append(content_state(tmp_path / "arrays.npz"))
    assert states[0] != states[1]


def test_a_damaged_directory_is_hashed_as_any_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", first=np.zeros(9))
    content = bytearray((tmp_path / "arrays.npz").read_bytes())
    place = content.index(b"PK\x01\x02")
    content[place] ^= 1
    (tmp_path / "arrays.npz").write_bytes(content)
    before = content_state(tmp_path / "arrays.npz")
    content[40] ^= 1
    (tmp_path / "arrays.npz").write_bytes(content)
    assert content_state(tmp_path / "arrays.npz") != before


def test_any_byte_of_another_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = bytearray(1 << 18)
    path.write_bytes(content)
    before = content_state(path)
    content[1 << 17] = 1
    path.write_bytes(content)
    assert content_state(path) != before

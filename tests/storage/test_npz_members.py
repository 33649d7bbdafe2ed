"""Arrays read where they are in an .npz file, against NumPy's."""

from __future__ import annotations

import io
import os
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.storage.npz_members import Member, Pipe


def test_a_stored_member_is_a_map_of_the_file(tmp_path: Path) -> None:
    path, arrays = tmp_path / "graph.npz", {"a": np.arange(7, dtype="i1"), "x": np.arange(12.0).reshape(3, 4)}
    arrays |= {"fortran": np.asfortranarray(arrays["x"]), "none": np.empty((0, 4)), "big": arrays["x"].astype(">f4")}
    np.savez(path, **arrays)
    before = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        for name, array in arrays.items():
            member = Member.read(path, archive, name)
            member.check(lambda size: None)
            found = member.array()
            np.testing.assert_array_equal(found, array)
            assert found.dtype == array.dtype
            found[...] = 0  # copy-on-write
            if not member.fortran and array.size:
                assert len(list(member.checked(iter([member.array()[:2], member.array()[2:]])))) == 2
    assert path.read_bytes() == before


@settings(max_examples=60, deadline=None)
@given(
    rows=st.sampled_from([2, 5]),
    columns=st.integers(1, 60),
    order=st.sampled_from("CF"),
    dtype=st.sampled_from(["i1", ">i8", "f4"]),
    cuts=st.lists(st.integers(0, 60), max_size=6),
)
def test_slices_of_a_pipe_are_those_of_the_array(
    rows: int, columns: int, order: Any, dtype: str, cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("npz") / "graph.npz"
    array = np.random.default_rng(0).integers(0, 99, size=(rows, columns)).astype(dtype, order=order)
    np.savez_compressed(path, a=array)
    with zipfile.ZipFile(path) as archive:
        member = Member.read(path, archive, "a")
        pipe = Pipe(archive, member, nullcontext)
        assert (member.begin, pipe.shape, pipe.size, pipe.nbytes) == (None, array.shape, array.size, array.nbytes)
        for start in (*sorted(cuts), *cuts):  # in order, and back again
            np.testing.assert_array_equal(pipe[:, start : start + 7], array[:, start : start + 7])
            if not member.fortran:
                np.testing.assert_array_equal(pipe[start : start + 2], array[start : start + 2])
        pipe.close()


@pytest.mark.parametrize("compressed", [False, True])
def test_a_changed_byte_is_noticed_before_the_last_value(compressed: bool, tmp_path: Path) -> None:
    path, array = tmp_path / "graph.npz", np.random.default_rng(0).integers(0, 255, size=5000, dtype=np.uint8)
    (np.savez_compressed if compressed else np.savez)(path, a=array)
    data = bytearray(path.read_bytes())
    data[3000] ^= 1
    path.write_bytes(data)
    with zipfile.ZipFile(path) as archive:
        member = Member.read(path, archive, "a")
        with pytest.raises(Exception, match=r"CRC|invalid"):
            Pipe(archive, member, nullcontext)[:] if compressed else member.check(lambda size: None)
        if not compressed:
            with pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"):
                list(member.checked(iter([member.array()])))


class Holes(io.FileIO):
    """A file in which long runs of zeros take no disk."""

    def write(self, data: Any) -> int:
        if len(data) < 1 << 20 or np.frombuffer(data, dtype=np.uint8).any():
            return super().write(data)
        self.seek(len(data), os.SEEK_CUR)
        return len(data)


@pytest.mark.weekly
def test_a_member_of_more_than_two_to_the_31_columns(tmp_path: Path) -> None:
    path, columns, ends = tmp_path / "graph.npz", 2**31 + 5, np.array([[1, 2, 3], [4, 5, 6]], dtype=np.int8)
    header = {"descr": "|i1", "fortran_order": False, "shape": (2, columns)}
    with (
        Holes(path, "w") as file,
        zipfile.ZipFile(file, "w") as archive,
        archive.open("edge_index.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_1_0(member, header)
        for row in ends:
            for start in range(0, columns - 3, 1 << 24):
                member.write(bytes(min(1 << 24, columns - 3 - start)))
            member.write(row.tobytes())
    assert path.stat().st_blocks * 512 < 1 << 26
    with zipfile.ZipFile(path) as archive:
        found = Member.read(path, archive, "edge_index")
    assert found.shape == (2, columns)
    np.testing.assert_array_equal(found.array()[:, -3:], ends)
    path.unlink()

"""Errors of files during a tune name their cause: a fault of the disk, or a permission that is missing."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from a3gnn.errors import A3GNNError
from a3gnn.tuning.tune import _disk_errors

#: A user without rights to files of others, as which root reads and writes here.
_NOBODY = 65534


@contextmanager
def without_rights() -> Iterator[None]:
    """Takes root's rights to all files away in its context."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.fixture
def folder() -> Iterator[Path]:
    """The folder of a tune, which others may read."""
    with tempfile.TemporaryDirectory() as parent:  # others may not look into `tmp_path`
        Path(parent).chmod(0o755)
        folder = Path(parent) / "run"
        folder.mkdir()
        (folder / "request.json").touch()
        yield folder
        folder.chmod(0o755)


@pytest.mark.parametrize(("mode", "words"), [(0o555, "may not write to {}"), (0o000, "may not read {}")])
def test_a_folder_that_may_not_be_written_is_no_fault_of_the_disk(mode: int, words: str, folder: Path) -> None:
    folder.chmod(mode)
    with without_rights(), pytest.raises(A3GNNError) as raised, _disk_errors(folder):
        (folder / "state.json").write_text("{}")
    text = str(raised.value)
    assert text.startswith(f"user {_NOBODY if os.geteuid() == 0 else os.geteuid()} {words.format(folder)}; ")
    assert "what was measured is kept; change its permissions, and the same" in text
    assert "goes on" in text


def test_a_fault_of_the_disk_is_named_as_the_system_names_it(folder: Path) -> None:
    place = folder / "state.json"
    with pytest.raises(A3GNNError) as raised, _disk_errors(folder):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(place))
    assert str(raised.value).startswith(f"can't read or write {place}: Input/output error; what was measured is kept;")


@pytest.mark.parametrize("number", [errno.EPERM, errno.ECHILD])
def test_an_error_of_no_file_is_not_blamed_on_the_disk(number: int, folder: Path) -> None:
    with pytest.raises(OSError, match=os.strerror(number)) as raised, _disk_errors(folder):
        raise OSError(number, os.strerror(number))
    assert not isinstance(raised.value, A3GNNError)

"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from a3gnn.units import format_size


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a path beside `path` to write a file or folder at; on success it becomes `path`, else it is removed.

    Of two processes that write the same folder, the first wins and the second's copy is dropped. What a killed process
    leaves is a hidden folder beside `path` that nobody has locked.

    Raises:
        OSError: It can't be written, such as when the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch:
        draft = Path(scratch) / path.name
        with _locked(scratch):
            yield draft
            try:
                os.replace(draft, path)
            except OSError:
                if not (draft.is_dir() and path.is_dir() and any(path.iterdir())):
                    raise
                shutil.rmtree(draft)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Holds a lock on `folder`, which the system drops when the process ends, however it ends."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def need_room(folder: Path, needed: int) -> None:
    """Checks that the disk of `folder` has room for `needed` bytes.

    Raises:
        OSError: It has not.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(f"{format_size(needed)} are needed, {format_size(free)} are free")

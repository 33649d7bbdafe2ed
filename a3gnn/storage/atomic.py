"""Writes files and folders that appear whole or not at all, and survive a power failure.

Also contains file locks, and a check of free disk space.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from a3gnn.storage.cache import explained
from a3gnn.units import format_size


@contextmanager
def replacing(path: Path, *, durable: bool = True, continued: bool = False) -> Iterator[Path]:
    """Yields a path beside `path` for a new file or folder; on success it replaces `path`, else it is removed.

    If two processes write the same folder, the first one wins and the second copy is dropped. A killed process leaves a
    hidden folder beside `path` that nobody has locked.

    Args:
        path: The file or folder.
        durable: Whether it must survive a power failure from then on. False saves the wait for the disk, for files that
            are made again after damage.
        continued: Whether the hidden folder has a fixed name, so that the next process finds what a killed one has
            written there. The caller makes sure that no other process writes `path`.

    Raises:
        OSError: It can't be written, such as when the disk is full.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        place = (
            _removed(_own(path.parent / f".{path.name}.unfinished"))
            if continued
            else tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent)
        )
    except OSError as error:
        if f".{path.name}." in str(error.filename) and error.errno != errno.EPERM:
            error.filename = str(path)  # in place of the hidden folder, of which nobody has heard
        raise explained(error, path) from error
    with place as scratch:
        draft = Path(scratch) / path.name
        with _locked(scratch):
            yield draft
            if durable:
                _persist(draft)
            try:
                os.replace(draft, path)
            except OSError:
                if not (draft.is_dir() and path.is_dir() and any(path.iterdir())):
                    raise
                shutil.rmtree(draft)
        if durable:
            _persist_entries(path.parent)


def _own(folder: Path) -> Path:
    """Returns `folder`, created if necessary. What is in it is continued and removed, so it must be the user's own.

    Raises:
        OSError: It is a link or another user's, or can't be created.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "is not a folder of this user; delete it", str(folder)) from None
    return folder


@contextmanager
def _removed(folder: Path) -> Iterator[str]:
    """Yields the path of `folder`, and removes it at the end."""
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder)


def is_draft(path: Path) -> bool:
    """Returns whether `path` is a hidden folder that a killed process left (`replacing`): only its file may be in it.

    Locks are not looked at. Whoever claims the folder that has it knows that no other process writes there.
    """
    name = path.name[1:].rpartition(".")[0]
    if not name or not path.name.startswith(".") or path.is_symlink() or not path.is_dir():
        return False
    try:
        return all(inner.name == name for inner in path.iterdir())
    except OSError:  # another user's, or gone meanwhile
        return False


def write_text(path: Path, text: str) -> None:
    """Writes `text` to the file at `path` in UTF-8, whole or not at all; it is on the disk when this returns.

    Raises:
        OSError: It can't be written, such as when the disk is full.
    """
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def persist(path: Path) -> None:
    """Waits until the file or folder at `path` would survive a power failure.

    Raises:
        OSError: The disk failed to write it.
    """
    _persist(path)
    _persist_entries(path.parent)


def need_room(folder: Path, needed: int) -> None:
    """Checks that the disk of `folder` has room for `needed` bytes.

    Raises:
        OSError: There is less room.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(f"{format_size(needed)} are needed, {format_size(free)} are free")


def try_lock(file: int) -> bool:
    """Returns whether the open file `file` is now locked by this process; False if the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def wait_for_lock(file: int, *, shared: bool = False) -> None:
    """Locks the open file `file` after all other processes have unlocked it; does nothing without file-system locks.

    Args:
        file: Its descriptor. Forked processes share the lock, which lasts until all of them have closed it.
        shared: Whether other processes may hold shared locks on it at the same time.
    """
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def release(file: int) -> None:
    """Unlocks the open file `file` and closes it; a forked child may have a copy open, so closing is not enough."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


def _persist(path: Path) -> None:
    """Waits until the content of `path` is on the disk."""
    if path.is_dir():
        for inner in path.iterdir():
            _persist(inner)
        _persist_entries(path)
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _persist_entries(folder: Path) -> None:
    """Waits until the names in `folder` are on the disk, if its file system supports that."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Holds a lock on `folder`, which the system releases when the process ends, even after a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)

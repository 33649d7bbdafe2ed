"""Files and folders that appear whole or not at all, and are then on the disk."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from a3gnn.errors import A3GNNError
from a3gnn.units import format_size

VARIABLE = "A3GNN_CACHE"


def cache_root(chosen: str | Path | None = None) -> Path:
    """Returns the cache folder: `chosen`, else $A3GNN_CACHE, else a3gnn in $XDG_CACHE_HOME or ~/.cache.

    Raises:
        A3GNNError: None of them is set, and the user has no home folder.
    """
    if chosen is not None:
        return Path(chosen)
    if own := os.environ.get(VARIABLE):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "a3gnn"
    try:
        return Path.home() / ".cache" / "a3gnn"
    except RuntimeError:
        raise A3GNNError(
            f"the cache folder is in the user's home folder, but user {os.getuid()} has none, and HOME is not set; set "
            f"{VARIABLE} to a folder that can be written"
        ) from None


def expanded(path: str | Path) -> Path:
    """Returns `path` with `~` replaced by the home folder.

    Raises:
        A3GNNError: The user whose folder is meant has none.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise A3GNNError(f"{path} is in a home folder that is not known ({error}); give the path in full") from error


def named(error: OSError, path: Path) -> OSError:
    """Returns `error`, raised where `path` was to be made; in a cache folder that can't be written, with the remedy."""
    try:
        inside = path.absolute().is_relative_to(cache_root().absolute())
    except A3GNNError:
        return error
    if not inside or error.errno is None:
        return error
    text = f"{os.strerror(error.errno)}: the cache folder can't be written; set {VARIABLE} to one that can"
    return type(error)(error.errno, text, str(error.filename or path))


def try_lock(file: int) -> bool:
    """Returns whether the open file `file` is now locked by this process; never where the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def wait_for_lock(file: int, *, shared: bool = False) -> None:
    """Locks the open file `file` as soon as no other process locks it; does nothing if the file system has no locks.

    Args:
        file: Its descriptor. Forked processes share the lock, which lasts until all of them have closed it.
        shared: Whether others may lock it too, if they share it.
    """
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def release(file: int) -> None:
    """Unlocks the open file `file` and closes it: a child that was forked meanwhile may have a copy open."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yields a path beside `path` to write a file or folder at; on success it becomes `path`, else it is removed.

    Of two processes that write the same folder, the first wins and the second's copy is dropped. What a killed process
    leaves is a hidden folder beside `path` that nobody has locked.

    Args:
        path: The file or folder.
        durable: Whether it must outlast a failure of power from then on; for what is made again where it is damaged,
            the disk need not be waited for.

    Raises:
        OSError: It can't be written, such as when the disk is full.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        place = tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise named(error, path) from error
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


def write_text(path: Path, text: str) -> None:
    """Has the file at `path` hold `text`, in UTF-8: on the disk when this returns, and whole or not at all.

    Raises:
        OSError: It can't be written, such as when the disk is full.
    """
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def persist(path: Path) -> None:
    """Has the file or folder at `path` outlast a failure of power from now on.

    Raises:
        OSError: The disk failed to write it.
    """
    _persist(path)
    _persist_entries(path.parent)


def _persist(path: Path) -> None:
    """Waits until what `path` holds is on the disk."""
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
    """Waits until the names in `folder` are on the disk, where its file system can do that."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


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

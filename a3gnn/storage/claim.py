"""Claims on places that a run writes: a second run in the same folder would overwrite the first one's files."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from socket import gethostname

from a3gnn.errors import A3GNNError, UsageError
from a3gnn.storage.atomic import release

#: In a folder that is written by a run. The kernel releases its lock when that process ends, however it ends.
LOCK_NAME = ".lock"
#: Seconds that a held lock is tried for: a killed process gives back its memory before it releases its locks. Guess.
_PATIENCE_S, _POLL_S = 2.0, 0.05
#: Bytes that are written, and shown, of who holds a lock. Guess.
MAX_HOLDER_BYTES = 300
#: A password in a database's URL, which other users must not see.
_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@\s]*@")
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)

_held: set[int] = set()


@contextmanager
def claimed(folder: Path, notify: Callable[[str], None] = lambda line: None) -> Iterator[Path]:
    """Yields `folder`, made if it does not exist, which no other run that claims it writes meanwhile.

    A folder that is empty at the end and was made here is removed again.

    Args:
        folder: Of a run.
        notify: Takes a line where the file system has no locks: then the run goes on without.

    Raises:
        UsageError: Another run writes there, or the folder can't be made.
        A3GNNError: It can't be written.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"can't make the folder {folder}: {error.strerror}; choose another") from error
    with _removed_if_empty(made), ExitStack() as stack:
        try:
            stack.enter_context(_locked(folder / LOCK_NAME, folder, notify))
        except OSError as error:
            raise A3GNNError(f"can't write to {folder}: {error.strerror}; choose another folder") from error
        yield folder


@contextmanager
def claimed_next(name: str, notify: Callable[[str], None] = lambda line: None) -> Iterator[Path]:
    """Yields the first of runs/NAME, runs/NAME-2, ... that does not exist, made and claimed as by `claimed`."""
    had_runs = _RUNS.exists()
    folder = reserved_next(name)
    with _removed_if_empty([folder] if had_runs else [folder, _RUNS]), claimed(folder, notify):
        yield folder


_RUNS = Path("runs")


def reserved_next(name: str) -> Path:
    """Returns the first of runs/NAME, runs/NAME-2, ... that does not exist, made: no other call returns it.

    Raises:
        A3GNNError: It can't be made.
    """
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "graph"
    number = 1
    while True:
        folder = _RUNS / (safe if number == 1 else f"{safe}-{number}")
        try:
            _RUNS.mkdir(exist_ok=True)
        except OSError as error:  # a file or a link to nowhere, too
            raise A3GNNError(f"can't make the folder {_RUNS}: {error.strerror}; run this elsewhere") from error
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        except FileNotFoundError:  # whoever made it has removed it, which was empty, meanwhile
            continue
        except OSError as error:
            raise A3GNNError(f"can't make the folder {folder}: {error.strerror}; run this elsewhere") from error
        else:
            return folder


@contextmanager
def claimed_whole(path: Path, notify: Callable[[str], None] = lambda line: None) -> Iterator[Path]:
    """Yields `path`, a file or folder that appears whole (`replacing`), which no other run makes meanwhile.

    Its lock lies beside it. Where none can be made, `path` can't be written either, which whoever tries will say.

    Raises:
        UsageError: Another run makes it.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_locked(path.parent / f".{path.name}{LOCK_NAME}", path, notify))
        yield path


def is_vacant(folder: Path) -> bool:
    """Returns whether a run may begin in `folder`: it does not exist, or has no file but a claim's."""
    return not folder.exists() or (folder.is_dir() and all(one.name == LOCK_NAME for one in folder.iterdir()))


def this_process(name: str = "") -> str:
    """Returns what others are told of this process, which holds a lock: at most `MAX_HOLDER_BYTES`.

    Args:
        name: Stands for its command; "" shows that, without passwords.
    """
    what = name or _PASSWORD.sub(r"\1:...@", " ".join(sys.orig_argv))
    return f"process {os.getpid()} since {datetime.now().astimezone():%H:%M:%S} ({what})"


def holder_of(file: int) -> str:
    """Returns what the holder of the lock on `file` wrote of itself: another user may have written anything."""
    text = os.pread(file, MAX_HOLDER_BYTES, 0).decode("utf-8", "replace")
    return "".join(filter(str.isprintable, text)) or "a process that does not say which"


@contextmanager
def _locked(lock: Path, place: Path, notify: Callable[[str], None]) -> Iterator[None]:
    """Holds the lock of `place`, which is on the file `lock`."""
    file = _taken(lock, place, notify)
    _held.add(file)
    try:
        with suppress(OSError):  # a full disk: then nobody is told who holds it
            os.ftruncate(file, 0)
            os.pwrite(file, os.fsencode(f"{this_process()} on {gethostname()}")[:MAX_HOLDER_BYTES], 0)
        yield
    finally:
        if file in _held:  # a forked child has closed it (`_forget`), and another file may have its number
            with suppress(OSError):
                if _is_at(lock, file):
                    lock.unlink()
            _held.discard(file)
            release(file)


def _taken(lock: Path, place: Path, notify: Callable[[str], None]) -> int:
    """Returns the open file `lock`, locked; unlocked where the file system has no locks, which `notify` is told.

    Raises:
        UsageError: Another process holds it.
        OSError: It can't be made.
    """
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except FileNotFoundError:  # its holder removed the folder, which was empty, at its end
            lock.parent.mkdir(parents=True, exist_ok=True)
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _TAKEN:
                notify(
                    f"warning: {lock.parent} has no file locks ({error.strerror}); see to it that no other run writes "
                    f"{place}: each would overwrite what the other writes"
                )
                return file
            holder = holder_of(file)
            os.close(file)
            if time.monotonic() > end:
                raise UsageError(
                    f"one run at a time may write {place}, and another process is running there: {holder}; wait for "
                    "its end, or choose another place"
                ) from error
            time.sleep(_POLL_S)
            continue
        if _is_at(lock, file):
            return file
        os.close(file)  # its holder removed it between the two calls


def _is_at(path: Path, file: int) -> bool:
    """Returns whether the open `file` is the one at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


@contextmanager
def _removed_if_empty(folders: Sequence[Path]) -> Iterator[None]:
    """Removes those of `folders`, the innermost first, that are empty at the end."""
    try:
        yield
    finally:
        with suppress(OSError):
            for folder in folders:
                folder.rmdir()


def _forget() -> None:
    # A forked child does not hold its parent's locks, and must not keep them when its parent ends.
    for file in _held:
        with suppress(OSError):
            os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_forget)

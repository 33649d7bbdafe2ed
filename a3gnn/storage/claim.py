"""Claims on files and folders of a run: a second run in the same folder would overwrite the first one's files."""

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
from a3gnn.storage.atomic import is_draft, release
from a3gnn.units import MOST_CHARACTERS

#: Lock file in a folder that a run writes. The kernel releases the lock when the process ends, even after a crash.
LOCK_NAME = ".lock"
#: Seconds to retry a held lock: a killed process frees its memory before it releases its locks (2 GiB took .8 s on two
#: busy cores).
_PATIENCE_S, _POLL_S = 2.0, 0.05
#: Parent of the folders that `reserved_next` creates.
_RUNS = Path("runs")
#: A password in a database's URL, which other users must not see.
_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@\s]*@")
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)

_held: set[int] = set()


@contextmanager
def claimed(folder: Path, notify: Callable[[str], None] = lambda line: None) -> Iterator[Path]:
    """Yields `folder`, created if necessary; no other run that claims it can write it until the context ends.

    A folder that was created here and is empty at the end is removed again.

    Args:
        folder: Folder of a run.
        notify: Takes a warning if the file system has no locks; the run then continues without one.

    Raises:
        UsageError: Another run writes there, or the folder can't be created.
        A3GNNError: The folder can't be written.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"can't make the folder {folder}: {error.strerror}; choose another folder") from error
    with _removed_if_empty(made), ExitStack() as stack:
        try:
            stack.enter_context(_locked(folder / LOCK_NAME, folder, notify))
        except OSError as error:
            raise A3GNNError(f"can't write to {folder}: {error.strerror}; choose another folder") from error
        yield folder


@contextmanager
def claimed_next(name: str, notify: Callable[[str], None] = lambda line: None) -> Iterator[Path]:
    """Creates and yields the first of runs/NAME, runs/NAME-2, ... that does not exist, claimed as by `claimed`."""
    had_runs = _RUNS.exists()
    folder = reserved_next(name)
    with _removed_if_empty([folder] if had_runs else [folder, _RUNS]), claimed(folder, notify):
        yield folder


def reserved_next(name: str) -> Path:
    """Creates and returns the first of runs/NAME, runs/NAME-2, ... that does not exist; no other call returns it.

    Raises:
        A3GNNError: It can't be created.
    """
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "graph"
    number = 1
    while True:
        folder = _RUNS / (safe if number == 1 else f"{safe}-{number}")
        try:
            _RUNS.mkdir(exist_ok=True)
        except OSError as error:  # including a file or a broken link of that name
            raise A3GNNError(f"can't make the folder {_RUNS}: {error.strerror}; run this in another folder") from error
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        except FileNotFoundError:  # another run has just removed the empty folder
            continue
        except OSError as error:
            raise A3GNNError(f"can't make the folder {folder}: {error.strerror}; run this in another folder") from error
        else:
            return folder


@contextmanager
def claimed_whole(path: Path, notify: Callable[[str], None] = lambda line: None) -> Iterator[Path]:
    """Yields `path`, a file or folder that appears whole (`replacing`); no other run can make it in this context.

    Its lock file is beside it. If no lock file can be created, `path` can't be written either, and the writer will
    report that.

    Raises:
        UsageError: Another run makes it.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_locked(path.parent / f".{path.name}{LOCK_NAME}", path, notify))
        yield path


def is_vacant(folder: Path) -> bool:
    """Returns whether a run may begin in `folder`: it does not exist, or has only what a run killed at once left."""
    if not folder.exists():
        return True
    return folder.is_dir() and all(one.name == LOCK_NAME or is_draft(one) for one in folder.iterdir())


def writer_of(folder: Path) -> str:
    """Returns the description of the process whose run writes `folder` (`claimed`); "" if none does."""
    try:
        file = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return ""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return holder_of(file) if error.errno in _TAKEN else ""
    finally:
        os.close(file)
    return ""


def this_process(name: str = "") -> str:
    """Returns this process's description for processes that wait for its lock; they see `MOST_CHARACTERS` bytes.

    Args:
        name: Replaces its command; "" shows the command, without passwords.
    """
    what = name or _PASSWORD.sub(r"\1:...@", " ".join(sys.orig_argv))
    return f"process {os.getpid()} since {datetime.now().astimezone():%H:%M:%S} ({what})"


def holder_of(file: int) -> str:
    """Returns the description of the holder in the lock file `file`; only printable text, as any user may write it."""
    text = os.pread(file, MOST_CHARACTERS, 0).decode("utf-8", "replace")
    return "".join(filter(str.isprintable, text)) or "an unknown process"


@contextmanager
def _locked(lock: Path, place: Path, notify: Callable[[str], None]) -> Iterator[None]:
    """Holds the lock file `lock`, which stands for `place`."""
    file = _taken(lock, place, notify)
    _held.add(file)
    try:
        with suppress(OSError):  # on a full disk the holder stays unknown
            os.ftruncate(file, 0)
            os.pwrite(file, os.fsencode(f"{this_process()} on {gethostname()}")[:MOST_CHARACTERS], 0)
        yield
    finally:
        if file in _held:  # a forked child has closed it (`_forget`), and another file may have its number
            with suppress(OSError):
                if _is_at(lock, file):
                    lock.unlink()
            _held.discard(file)
            release(file)


def _taken(lock: Path, place: Path, notify: Callable[[str], None]) -> int:
    """Returns the open file `lock`, locked; unlocked, with a warning to `notify`, if the file system has no locks.

    Raises:
        UsageError: Another process holds it.
        OSError: It can't be created.
    """
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except FileNotFoundError:  # its last holder removed the empty folder
            lock.parent.mkdir(parents=True, exist_ok=True)
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _TAKEN:
                notify(
                    f"warning: {lock.parent} has no file locks ({error.strerror}); make sure that no other run writes "
                    f"{place}, because both would overwrite each other"
                )
                return file
            holder = holder_of(file)
            os.close(file)
            if time.monotonic() > end:
                raise UsageError(
                    f"only one run at a time may write {place}, but another process runs there: {holder}; wait for its "
                    "end, or choose another place"
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
    """Removes empty `folders` at the end, the innermost first."""
    try:
        yield
    finally:
        with suppress(OSError):
            for folder in folders:
                folder.rmdir()


def _forget() -> None:
    # A forked child does not hold its parent's locks, and must not keep them after its parent's end.
    for file in _held:
        with suppress(OSError):
            os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_forget)

"""Lets one trial at a time run on a machine: two at once would slow each other down and distort their times."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from a3gnn.storage.claim import holder_of, this_process
from a3gnn.units import MOST_CHARACTERS

#: Environment variable with the path of the lock file; by default one in /tmp.
LOCK_VARIABLE = "A3GNN_MACHINE_LOCK"
_DEFAULT_LOCK = Path("/tmp/a3gnn-machine.lock")


class _Held:
    """This process's hold on the machine's lock: one thread has it at a time, and may take it again."""

    def __init__(self) -> None:
        self.mine = threading.RLock()
        self.depth = 0
        self.lock = -1
        self.waited_s = 0.0
        self.name = ""


_held = _Held()


@contextmanager
def machine_turn(notify: Callable[[str], None]) -> Iterator[None]:
    """Holds the machine's lock in its context; waits, with a message, for the process that has it, of any user.

    The kernel releases the lock when its process ends, even after a crash. If the lock's file can't be used, it calls
    `notify` and continues without the lock.
    """
    begun = time.monotonic()
    with _held.mine:
        if _held.depth == 0:
            _held.lock = _take(notify)
        _held.depth += 1
        _held.waited_s += time.monotonic() - begun
        try:
            yield
        finally:
            _held.depth -= 1
            if _held.depth == 0:
                _give_back(_held.lock)


def seconds_waited() -> float:
    """Returns the seconds that this process has waited so far for the lock and for other machines."""
    return _held.waited_s


def call_this_process(name: str) -> None:
    """Shows `name` instead of this process's command to processes that wait for it."""
    _held.name = name


def note_waited(seconds: float) -> None:
    """Adds seconds of waiting for another machine to the seconds of waiting for this machine's lock."""
    _held.waited_s += seconds


def _take(notify: Callable[[str], None]) -> int:
    """Takes the lock and returns its open file, or -1 if the file can't be used."""
    path = Path(os.environ.get(LOCK_VARIABLE) or _DEFAULT_LOCK)
    try:
        file = _open(path)
    except OSError as error:
        notify(
            f"trials of other processes may disturb this run's trials, because the lock file {path} can't be used "
            f"({error.strerror}); remove it, or set {LOCK_VARIABLE} to another file"
        )
        return -1
    try:
        _lock(file, notify)
    except BaseException:
        os.close(file)
        raise
    with suppress(OSError):  # another user's file may be read-only; then the holder stays unknown
        os.ftruncate(file, 0)
        os.pwrite(file, os.fsencode(this_process(_held.name))[:MOST_CHARACTERS], 0)
    return file


def _give_back(lock: int) -> None:
    if lock >= 0:
        with suppress(OSError):
            os.ftruncate(lock, 0)
        fcntl.flock(lock, fcntl.LOCK_UN)  # a forked child may not have closed its copy yet
        os.close(lock)


def _open(path: Path) -> int:
    """Opens the file at `path`, which any user may lock; it is created if it does not exist.

    Raises:
        OSError: It is not a plain file, is a link, or may not be opened.
    """
    # O_CREAT comes second: in a shared folder the kernel refuses it for a file of another user.
    for flags in (os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR, os.O_RDONLY):
        try:
            file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except (FileNotFoundError, FileExistsError, PermissionError):
            if flags == os.O_RDONLY:
                raise
            continue
        break
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        os.close(file)
        raise OSError(0, "it is not a plain file")
    if status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) != 0o666:
        os.fchmod(file, 0o666)  # independent of this user's umask, because other users lock it too
    return file


def _lock(file: int, notify: Callable[[str], None]) -> None:
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    notify(f"waiting for another trial on this machine to end: {holder_of(file)}")
    fcntl.flock(file, fcntl.LOCK_EX)


def _forget() -> None:
    # A forked child does not hold its parent's lock, and must not keep it after its parent releases it.
    global _held
    if _held.depth and _held.lock >= 0:
        os.close(_held.lock)
    _held = _Held()


os.register_at_fork(after_in_child=_forget)

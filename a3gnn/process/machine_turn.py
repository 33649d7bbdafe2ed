"""One trial at a time on a machine: two at once would slow each other down, and their times would be wrong."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from a3gnn.storage.claim import MAX_HOLDER_BYTES, holder_of, this_process

#: Environment variable with the path of the lock file; by default one in /tmp.
LOCK_VARIABLE = "A3GNN_MACHINE_LOCK"
_DEFAULT_LOCK = Path("/tmp/a3gnn-machine.lock")


class _Held:
    """This process's hold on the machine's lock: one thread has it at a time, which may take it again."""

    def __init__(self) -> None:
        self.mine = threading.RLock()
        self.depth = 0
        self.lock = -1
        self.waited_s = 0.0
        self.name = ""


_held = _Held()


@contextmanager
def machine_turn(notify: Callable[[str], None]) -> Iterator[None]:
    """Holds the machine's lock meanwhile; waits for the process that has it, of any user, and says so.

    The kernel releases the lock when its process ends, however that ends. Where the lock's file can't be used
    everything goes on without, and `notify` is told.
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
    """Returns the seconds that this process has waited for the lock so far, and for other machines."""
    return _held.waited_s


def call_this_process(name: str) -> None:
    """Has those who wait for this process told `name` in the place of its command."""
    _held.name = name


def note_waited(seconds: float) -> None:
    """Counts seconds that this process waited for another machine as those for this one's lock."""
    _held.waited_s += seconds


def _take(notify: Callable[[str], None]) -> int:
    """Returns the open file whose lock is held now, or -1 where there is none to be had."""
    path = Path(os.environ.get(LOCK_VARIABLE) or _DEFAULT_LOCK)
    try:
        file = _open(path)
    except OSError as error:
        notify(
            f"trials of other processes on this machine may disturb these: {path}, whose lock lets one run at a time, "
            f"can't be used ({error.strerror}); remove it, or set {LOCK_VARIABLE} to another file"
        )
        return -1
    try:
        _lock(file, notify)
    except BaseException:
        os.close(file)
        raise
    with suppress(OSError):  # a file of another user, who lets nobody write it: then nobody is told who holds it
        os.ftruncate(file, 0)
        os.pwrite(file, os.fsencode(this_process(_held.name))[:MAX_HOLDER_BYTES], 0)
    return file


def _give_back(lock: int) -> None:
    if lock >= 0:
        with suppress(OSError):
            os.ftruncate(lock, 0)
        fcntl.flock(lock, fcntl.LOCK_UN)  # a child that was forked meanwhile may not have closed its copy yet
        os.close(lock)


def _open(path: Path) -> int:
    """Returns the file at `path`, which any user may lock; it is made where there is none.

    Raises:
        OSError: It is no plain file, a link, or may not be opened.
    """
    # Without O_CREAT first: in a shared folder the kernel refuses that for a file of another user.
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
        os.fchmod(file, 0o666)  # whatever this user's umask: other users lock it too
    return file


def _lock(file: int, notify: Callable[[str], None]) -> None:
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    notify(f"waiting for another trial on this machine to end: {holder_of(file)}")
    fcntl.flock(file, fcntl.LOCK_EX)


def _forget() -> None:
    # A forked child does not hold its parent's lock, and must not keep it when its parent releases it.
    global _held
    if _held.depth and _held.lock >= 0:
        os.close(_held.lock)
    _held = _Held()


os.register_at_fork(after_in_child=_forget)

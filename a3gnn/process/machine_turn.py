"""One trial at a time on a machine: two at once would slow each other down, and be believed."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

#: Names the file by whose lock processes take turns; by default one in /tmp.
LOCK_VARIABLE = "A3GNN_MACHINE_LOCK"
_DEFAULT_LOCK = Path("/tmp/a3gnn-machine.lock")
#: Bytes that are kept, and shown, of who holds the lock.
_MOST_TOLD = 300
#: A password in a database's URL, which is nobody else's business.
_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@\s]*@")


class _Turn:
    """What this process holds: its threads take turns too, and one that has the turn may take it again."""

    def __init__(self) -> None:
        self.mine = threading.RLock()
        self.depth = 0
        self.lock = -1
        self.waited_s = 0.0


_turn = _Turn()


@contextmanager
def machine_turn(notify: Callable[[str], None]) -> Iterator[None]:
    """Holds the machine meanwhile; waits for whoever holds it, of this user or another one, and says so.

    The kernel gives the turn back when its process ends, however that ends. Where the lock's file can't be used
    everything goes on without, and `notify` is told.
    """
    begun = time.monotonic()
    with _turn.mine:
        if _turn.depth == 0:
            _turn.lock = _take(notify)
        _turn.depth += 1
        _turn.waited_s += time.monotonic() - begun
        try:
            yield
        finally:
            _turn.depth -= 1
            if _turn.depth == 0:
                _give_back(_turn.lock)


def seconds_waited() -> float:
    """Returns how long this process has waited for its turns so far."""
    return _turn.waited_s


def _take(notify: Callable[[str], None]) -> int:
    """Returns the open file whose lock is held now, or -1 where there is none to be had."""
    path = Path(os.environ.get(LOCK_VARIABLE) or _DEFAULT_LOCK)
    try:
        file = _open(path)
    except OSError as error:
        notify(
            f"trials of other processes on this machine may disturb these: {path}, by which they would take turns, "
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
        os.pwrite(file, _this_process().encode()[:_MOST_TOLD], 0)
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
        os.fchmod(file, 0o666)  # whatever this user's umask: others take turns by it too
    return file


def _lock(file: int, notify: Callable[[str], None]) -> None:
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    notify(f"waiting for another trial on this machine to end: {_holder(file)}")
    fcntl.flock(file, fcntl.LOCK_EX)


def _holder(file: int) -> str:
    """Returns who holds the lock, as it says itself: another user may have written anything."""
    text = os.pread(file, _MOST_TOLD, 0).decode("utf-8", "replace")
    return "".join(filter(str.isprintable, text)) or "a process that does not say which"


def _this_process() -> str:
    command = _PASSWORD.sub(r"\1:...@", " ".join(sys.orig_argv))
    return f"process {os.getpid()} since {datetime.now().astimezone():%H:%M:%S} ({command})"


def _forget() -> None:
    # A forked child has not got its parent's turn, and must not keep it when its parent gives it back.
    global _turn
    if _turn.depth and _turn.lock >= 0:
        os.close(_turn.lock)
    _turn = _Turn()


os.register_at_fork(after_in_child=_forget)

"""Locks on open files, which the kernel gives back when their process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress


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

"""Locks on open files, which the kernel gives back when their process ends, however it ends."""

from __future__ import annotations

import fcntl


def try_lock(file: int) -> bool:
    """Returns whether the open file `file` is now locked by this process; never where the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

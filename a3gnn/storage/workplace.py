"""A folder for temporary files that is removed even where its process was killed: by the next one that needs one."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path

from a3gnn.storage.atomic import try_lock

_PREFIX = "a3gnn-work-"
#: Locked by the folder's process as long as that runs: the kernel gives the lock back however it ends.
_LOCK = "lock"
#: Seconds after which a folder without a lock must have been left behind by a process that died as it made it. Guess.
_ABANDONED_SECONDS = 3600.0


class Workplace:
    """A new folder in the temporary directory; those of processes that have ended are removed when it is made.

    Only folders of this user are touched, and only where their lock is free.

    Attributes:
        folder: Its path.

    Raises:
        OSError: There is no temporary directory that can be written.
    """

    def __init__(self) -> None:
        sweep(Path(tempfile.gettempdir()))
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._remove = weakref.finalize(self, _remove, self.folder, _locked(self.folder / _LOCK))

    def close(self) -> None:
        """Removes the folder; so does the end of the program."""
        self._remove()


def sweep(parent: Path) -> None:
    """Removes the workplaces in `parent` whose processes have ended, without another user's and without an error."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                _remove_abandoned(folder, time.time() - status.st_mtime)


def _locked(path: Path) -> int:
    """Returns the open file `path`, which has appeared with its lock held: nobody finds it free in between."""
    draft = path.with_suffix(".draft")
    file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try_lock(file)
    draft.rename(path)
    return file


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _remove_abandoned(folder: Path, age_s: float) -> None:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        if age_s > _ABANDONED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
        return
    try:
        if try_lock(lock):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)

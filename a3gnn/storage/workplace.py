"""A folder for temporary files; if its process was killed, the next process that needs a folder removes it."""

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
#: Lock file, held by the folder's process; the kernel releases it at the process's end, even after a crash.
_LOCK = "lock"
#: Seconds after which a folder without a lock file was left by a process that died while making it, a
#: matter of milliseconds.
_ABANDONED_SECONDS = 3600.0


class Workplace:
    """A new folder in the temporary directory; making one also removes the folders of processes that have ended.

    Only folders of this user are removed, and only if their lock is free.

    Attributes:
        folder: Path of the new folder.

    Raises:
        OSError: There is no writable temporary directory.
    """

    def __init__(self) -> None:
        sweep(Path(tempfile.gettempdir()))
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._remove = weakref.finalize(self, _remove, self.folder, _locked(self.folder / _LOCK))

    def close(self) -> None:
        """Removes the folder; the end of the program does so too."""
        self._remove()


def sweep(parent: Path) -> None:
    """Removes this user's workplaces in `parent` whose processes have ended; raises no errors."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                _remove_abandoned(folder, time.time() - status.st_mtime)


def _locked(path: Path) -> int:
    """Creates the file `path` and returns it, open; its lock is held before the name appears, so it is never free."""
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

"""`Home`: the folder with a server's studies, graphs and trainings; several servers may share one."""

from __future__ import annotations

import os
import re
import secrets
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from a3gnn.errors import A3GNNError
from a3gnn.service.event_log import EventLog
from a3gnn.service.job import Job
from a3gnn.storage.atomic import try_lock
from a3gnn.storage.cache import cache_root

#: Requests in a3gnn's own messages. They are no paths, even if a folder has the same name.
_REQUEST = r"(?P<request>\b(?:GET|POST|DELETE) /(?:graphs|studies|trainings|docs)(?![\w~-]))"
#: A path may begin after any character that can't continue a name, or after a line break or tab as `repr` writes it.
_BEFORE = r"(?:(?<![a-zA-Z0-9_.~-])|(?<=\\[ntr]))"
#: The folder alone or with a path below it, but not as the beginning of another name. A final dot ends it, too.
_AFTER = r"(?:(?P<below>/+(?=[\w.~-]))|(?!\.*[\w~-]|\.+/))"
#: The file with the id of a home folder.
_MARK = "home-id"


class Home:
    """The home folder of a server.

    Args:
        folder: Path of the folder, which is made if missing.
        data_root: Folder below which graphs may be registered, if any.

    Attributes:
        id: The folder's mark, which its jobs carry.
        places: Shortens the server's paths in texts that leave it.

    Raises:
        A3GNNError: The folder can't be made or written.
    """

    def __init__(self, folder: Path, data_root: Path | None = None) -> None:
        self.folder, self.places = folder.resolve(), Places((folder, data_root))
        try:
            for name in ("studies", "trainings", "graphs", "uploads"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            self.id = self._marked()
        except OSError as error:
            raise A3GNNError(f"can't use the folder {folder}: {error.strerror}; choose another --folder") from error

    def of(self, job: Job) -> JobFolder:
        """Returns the folder of `job`, which may not exist yet."""
        folder = self.folder / {"study": "studies", "training": "trainings"}[job.kind]
        return JobFolder(folder / str(job.id), self.places)

    @property
    def uploads(self) -> Path:
        """Folder of uploads that are not examined yet."""
        return self.folder / "uploads"

    @property
    def graphs(self) -> Path:
        """Folder of uploaded graphs, converted."""
        return self.folder / "graphs"

    def _marked(self) -> str:
        mark = self.folder / _MARK
        draft = self.folder / f".{_MARK}.{secrets.token_hex(4)}"
        if not mark.exists():
            draft.write_text(secrets.token_hex(8), encoding="ascii")
            with suppress(FileExistsError):  # another server was first
                os.link(draft, mark)
            draft.unlink()
        return mark.read_text(encoding="ascii").strip()


class JobFolder:
    """The files of one job.

    Attributes:
        path: The job's folder.
        run: The output folder of `tune` or `train`.
        events: The log of the job's events.
        log: The stderr of the job's process.
        retries: While this file exists, the study forgets its failed trials before it goes on.
        hurry: This file exists if a stop was requested more than once.
        asked: The folder of suggested trials and their figures, if the client runs them.
        places: Shortens the server's paths in texts that leave it.
    """

    def __init__(self, path: Path, places: Places) -> None:
        self.places = places
        self.path, self.run, self.log = path, path / "run", path / "process.log"
        self.asked, self.retries, self.hurry = path / "asked", path / "retry", path / "hurry"
        self.events = EventLog(path / "events.jsonl")

    def ask_for_retries(self) -> None:
        """Makes the file `retries`, which the job's process removes once it has obeyed; the job must not run now."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.retries.touch()

    def lock(self) -> int | None:
        """Locks the job, and returns the open lock file; None if another server holds the lock.

        The kernel releases the lock when that server's process ends, however it ends.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if try_lock(file):
            return file
        os.close(file)
        return None


class Places:
    """Shortens paths below the server's folders, and below the folders of its Python.

    Args:
        folders: The server's folders; None is skipped.

    Attributes:
        folders: The server's folders, so that another process can shorten the same paths.
    """

    def __init__(self, folders: Iterable[str | Path | None]) -> None:
        self.folders = tuple(str(folder) for folder in folders if folder is not None)
        python = (*sys.path, sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"))
        ours = (*self.folders, str(cache_root()), tempfile.gettempdir(), os.path.expanduser("~"), os.getcwd())
        named = {os.path.abspath(folder) for folder in (*python, *ours) if folder}
        known = {name for folder in named for name in (folder, os.path.realpath(folder))} - {os.sep}
        longest_first = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
        self._known = re.compile(rf"{_REQUEST}|{_BEFORE}(?:{longest_first}){_AFTER}")

    def shown(self, text: str) -> str:
        """Returns `text` with paths below the folders made relative to them; a folder itself becomes a dot."""
        if os.sep not in text:
            return text
        return self._known.sub(lambda found: found["request"] or ("" if found["below"] else "."), text)

    def shown_in(self, value: Any) -> Any:
        """Returns a JSON value with `shown` applied to all its texts."""
        if isinstance(value, str):
            return self.shown(value)
        if isinstance(value, dict):
            return {self.shown_in(name): self.shown_in(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.shown_in(one) for one in value]
        return value

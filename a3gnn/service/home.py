"""`Home`: the folder in which a server keeps studies, graphs and trainings; several servers may share one."""

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

#: What a3gnn's own messages tell people to ask the server, which is no path even where a folder is called the same.
_REQUEST = r"(?P<request>\b(?:GET|POST|DELETE) /(?:graphs|studies|trainings|docs)(?![\w~-]))"
#: What a path may begin after: no name that goes on, or a line break or tab as `repr` writes it.
_BEFORE = r"(?:(?<![a-zA-Z0-9_.~-])|(?<=\\[ntr]))"
#: A folder with what lies below it, or alone; not the beginning of another name. The dot of a sentence ends it, too.
_AFTER = r"(?:(?P<below>/+(?=[\w.~-]))|(?!\.*[\w~-]|\.+/))"


class Places:
    """Shortens the paths of files below the server's folders, and below those that its Python lives in.

    Args:
        folders: The server's own.

    Attributes:
        folders: The same, for another process.
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
        """Returns `text` with paths of files below the folders as paths from there; a folder's own is a dot."""
        if os.sep not in text:
            return text
        return self._known.sub(lambda found: found["request"] or ("" if found["below"] else "."), text)

    def shown_in(self, value: Any) -> Any:
        """Returns JSON types with every text in them as `shown` has it."""
        if isinstance(value, str):
            return self.shown(value)
        if isinstance(value, dict):
            return {self.shown_in(name): self.shown_in(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.shown_in(one) for one in value]
        return value


_MARK = "home-id"


class JobFolder:
    """What is kept of one job.

    Attributes:
        path: Its folder.
        run: In it, what `tune` or `train` itself writes.
        events: In it, what has happened.
        log: In it, what its process wrote to stderr.
        retries: In it, a file that asks for the trials that failed to be forgotten before the study goes on.
        hurry: In it, a file that says that a stop was asked for more than once.
        asked: In it, which trials someone else is to run, and what they told of them.
        places: What its files are called in texts that leave the server.
    """

    def __init__(self, path: Path, places: Places) -> None:
        self.places = places
        self.path, self.run, self.log = path, path / "run", path / "process.log"
        self.asked, self.retries, self.hurry = path / "asked", path / "retry", path / "hurry"
        self.events = EventLog(path / "events.jsonl")

    def ask_for_retries(self) -> None:
        """Makes the file `retries`, which the job's process removes once it has obeyed; nobody may run it meanwhile."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.retries.touch()

    def lock(self) -> int | None:
        """Returns the open file whose lock says that the job runs, or None where another server holds it.

        The kernel gives the lock back when that server's process ends, however it ends.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if try_lock(file):
            return file
        os.close(file)
        return None


class Home:
    """The folder.

    Args:
        folder: Where it is; it is made where there is none.
        data_root: What graphs are registered from, if anything.

    Attributes:
        id: Its mark, which jobs in it carry.
        places: What the server's files are called in texts that leave it.

    Raises:
        A3GNNError: It can't be made or written.
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
        """Returns the folder of `job`, which there may not be yet."""
        folder = self.folder / {"study": "studies", "training": "trainings"}[job.kind]
        return JobFolder(folder / str(job.id), self.places)

    @property
    def uploads(self) -> Path:
        """Where uploads go until they are looked at."""
        return self.folder / "uploads"

    @property
    def graphs(self) -> Path:
        """Where graphs that were uploaded are kept, converted."""
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

"""`Home`: the folder with a server's studies, graphs and trainings, and the event logs of its jobs."""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from a3gnn.errors import A3GNNError
from a3gnn.service.http.problems import conflict
from a3gnn.service.jobs.job import Job
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
#: Statuses that end a job's log. A resumed job appends to it again.
LAST = ("finished", "stopped", "failed")


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

    def check_has(self, job: Job) -> None:
        """Checks that the files of `job` are here, or nowhere.

        Raises:
            ProblemDetails: Another server has them.
        """
        if job.home not in (None, self.id):
            raise conflict(
                f"the server with the home {job.home} has the files of {job.kind} {job.id}, and this server does not; "
                "ask that server"
            )

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
        phase: The phase of a study: baseline, search or verify. Missing before the first.
        asked: The folder of suggested trials and their figures, if the client runs them.
        choice: A training's copy of the tuned.json that it trains with.
        places: Shortens the server's paths in texts that leave it.
    """

    def __init__(self, path: Path, places: Places) -> None:
        self.places = places
        self.path, self.run, self.log = path, path / "run", path / "process.log"
        self.asked, self.retries, self.hurry = path / "asked", path / "retry", path / "hurry"
        self.phase, self.choice = path / "phase", path / "tuned.json"
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


class LogLine(NamedTuple):
    """One line of the log."""

    id: int  # the byte at which the next line begins, from which a reader continues
    kind: str  # line (of output), trial (one has ended), phase or status
    data: dict[str, Any]  # the text, the trial's number, the phase or the status; and the time in seconds since 1970

    @property
    def is_last(self) -> bool:
        """Whether the job has ended with this event."""
        return self.kind == "status" and self.data.get("status") in LAST


class EventLog:
    """The file `events.jsonl` of a job. Its server and its process append to it, each line with one call.

    Args:
        path: The file, made by the first event.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, kind: str, **data: Any) -> None:
        """Appends an event with the current time."""
        line = json.dumps({"kind": kind, "data": {**data, "time": round(time.time(), 3)}}) + "\n"
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            size = os.fstat(file).st_size
            torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # a crash cut the last line short
            os.write(file, (b"\n" if torn else b"") + line.encode())
        finally:
            os.close(file)

    @property
    def size(self) -> int:
        """Bytes of the file, or 0 if there is none."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def since(self, place: int) -> Iterator[LogLine]:
        """Yields the events after `place`, an event's id or 0; lines that a crash cut short are left out.

        A place in the middle of a line counts as the line's end.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(max(place - 1, 0))
            if place > 0 and file.read(1) != b"\n":
                file.readline()
            while (line := file.readline()).endswith(b"\n"):
                try:
                    fields = json.loads(line)
                    yield LogLine(file.tell(), fields["kind"], fields["data"])
                except (ValueError, KeyError, TypeError):
                    continue

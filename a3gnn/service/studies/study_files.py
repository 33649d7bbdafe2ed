"""Reads the folder of a study: its trials, front and choice so far, and its files as downloads.

Files are read again only after a change. Paths of the server are shortened by the study's `Places`.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar, get_args

from a3gnn.page.views import study_views
from a3gnn.report.front import Front
from a3gnn.report.text import describe_config
from a3gnn.service.http.problems import ProblemDetails, conflict
from a3gnn.service.jobs.home import JobFolder
from a3gnn.service.jobs.job import Job
from a3gnn.service.studies.orders import PickOrder
from a3gnn.storage.stamp import file_state
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.pick import pick
from a3gnn.tuning.outcome.result import unfinished_front
from a3gnn.tuning.study.folder import Journal, seconds_so_far
from a3gnn.tuning.study.trial import UNCOUNTED
from a3gnn.units import MOST_CHARACTERS

T = TypeVar("T")
#: Contents of files, and answers, that are kept in memory. A front of 100 trials takes some 200 KiB, so 50 MiB in all.
KEPT = 256
#: Most lines of a log in one answer, of up to 1 MB, and most characters of each.
_LOG_LINES, _LOG_CHARACTERS = 500, 2000
_one_makes_views = threading.Lock()
#: The files that `front`, `report`, `pick`, `compare` and `export` read, in reading order. The state comes first: if it
#: says that the tune has finished, the last two files exist.
FileName = Literal[
    "state.json",
    "request.json",
    "probes.jsonl",
    "timings.jsonl",
    "product_speeds.json",
    "predicted_front.json",
    "importance.json",
    "front.json",
    "tuned.json",
]
FILES: tuple[FileName, ...] = get_args(FileName)


class FileCache:
    """A cache of values made from files, each valid until its files change."""

    def __init__(self) -> None:
        self._values: OrderedDict[tuple[str, Path], tuple[list[list[int]], Any]] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, name: str, path: Path, make: Callable[[], T], *beside: Path) -> T:
        """Returns the cached result of `make`, or calls it if `path` or a file `beside` it has changed.

        Raises:
            FileNotFoundError: The file `path` does not exist.
        """
        stamp, key = [file_state(path), *(file_state(one) for one in beside if one.exists())], (name, path)
        with self._mutex:
            before = self._values.get(key)
            if before is not None and before[0] == stamp:
                self._values.move_to_end(key)
                value: T = before[1]
                return value
        made = make()
        with self._mutex:
            self._values[key] = stamp, made
            self._values.move_to_end(key)
            while len(self._values) > KEPT:
                self._values.popitem(last=False)
        return made


_kept = FileCache()


def trials(folder: JobFolder) -> list[dict[str, Any]]:
    """Returns the trials so far as measured, in order and numbered, with the machine's drift as known by now."""
    journal = Journal(folder.run)

    def read() -> list[dict[str, Any]]:
        found = [{"number": number, **one.to_dict()} for number, one in enumerate(journal.read(mend=False))]
        for measurement in (trial["measurement"] for trial in found):
            if "failure" in measurement:
                measurement["failure"] = folder.places.shown_in(measurement["failure"])
        return found

    try:
        return _kept.get("trials", journal.path, read, journal.timings_path)
    except FileNotFoundError:
        return []


def front_json(folder: JobFolder) -> bytes:
    """Returns the front as JSON: the final front of a finished study, or the front so far.

    Raises:
        ProblemDetails: Nothing was measured yet.
    """
    journal = Journal(folder.run)
    try:
        if not _has_finished(folder):
            so_far = _kept.get(
                "so far", journal.path, lambda: _encoded(unfinished_front(folder.run)), journal.timings_path
            )
            if so_far is not None:
                return with_places(folder, so_far)
        return with_places(folder, (folder.run / "front.json").read_bytes())
    except FileNotFoundError:
        raise conflict("the study has no front before its first trial has ended") from None


def _has_finished(folder: JobFolder) -> bool:
    """Returns whether the state file marks the tune as finished; to read 100 trials instead would take 20 ms."""
    try:
        return json.loads((folder.run / "state.json").read_bytes())["finished_budget"] is not None
    except FileNotFoundError:
        return False


def views(folder: JobFolder, graph: str) -> dict[str, Any]:
    """Returns the content of a study's page. It is made once for all readers, and again after the next event.

    Args:
        folder: The study's folder.
        graph: The name of its graph, as the user gave it.

    Raises:
        ProblemDetails: Its tune has not begun.
    """
    if not has_begun(folder):
        raise conflict("the study has no views before its tune has begun; follow it with GET .../events")

    def make() -> dict[str, Any]:
        shown: dict[str, Any] = folder.places.shown_in(study_views(folder.run, graph))
        return shown

    with _one_makes_views:
        return _kept.get("views", folder.events.path, make, Journal(folder.run).timings_path)


def phase(folder: JobFolder, started: float) -> str:
    """Returns the phase of a study: baseline, search or verify; "" before the first since it was `started`.

    The file of an earlier run stays until the job's process has loaded its libraries.
    """
    try:
        return folder.phase.read_text(encoding="ascii") if folder.phase.stat().st_mtime >= started else ""
    except OSError:
        return ""


def used(folder: JobFolder, study: Job) -> tuple[int, float | None]:
    """Returns how much of its budget a study has used: trials, and the seconds of `seconds_so_far`."""
    counted = sum(trial["reason"] not in UNCOUNTED for trial in trials(folder))
    return counted, seconds_so_far(folder.run, study.status == "running")


def has_begun(folder: JobFolder) -> bool:
    """Returns whether the study's tune has written its first files."""
    return (folder.run / "request.json").exists() and (folder.run / "probes.jsonl").exists()


def chosen_file(folder: JobFolder, name: str) -> bytes:
    """Returns the content of the file `name` of a study that has chosen.

    Raises:
        ProblemDetails: The study has not chosen yet.
    """
    try:
        return (folder.run / name).read_bytes()
    except FileNotFoundError:
        raise conflict(
            "the study has not chosen a configuration yet; POST .../stop makes it choose the best so far, which GET "
            ".../front shows"
        ) from None


def picked(folder: JobFolder, order: PickOrder) -> bytes:
    """Returns the content of the tuned.json of a pick.

    Raises:
        InfeasibleError: Nothing measured keeps the limits.
        UsageError: A field has a wrong value.
        ProblemDetails: Nothing was measured yet.
    """
    if not trials(folder):
        raise conflict("the study has nothing to pick from before its first trial has ended")
    return json.dumps(pick(folder.run, **order.model_dump()).tuned.to_dict(), indent=2).encode()


def summary(folder: JobFolder) -> dict[str, Any]:
    """Returns the progress of a job: its last line and, for a study, the number of trials and the choice once made."""
    found: dict[str, Any] = {"line": _last_line(folder)}
    journal, tuned = folder.run / "probes.jsonl", folder.run / "tuned.json"
    if journal.is_file():
        found["trials"] = journal.read_bytes().count(b"\n")
    if tuned.is_file():
        choice = TunedConfig.read(tuned)
        against = choice.against_default
        found["chosen"] = describe_config(choice.config)
        found["against_default"] = None if against is None else dict(against)
        found["no_gain"] = None if choice.no_gain is None else dict(choice.no_gain)
    return found


def _encoded(front: Front | None) -> bytes | None:
    return None if front is None else json.dumps(front.to_dict()).encode()


def _last_line(folder: JobFolder) -> str:
    events = folder.events
    lines = [event.data.get("text", "") for event in events.since(max(events.size - 8192, 0)) if event.kind == "line"]
    return str(lines[-1])[:MOST_CHARACTERS] if lines else ""


def log_lines(folder: JobFolder, after: int) -> dict[str, Any]:
    """Returns the log's next lines with their times, the id to continue from, and whether there are more lines.

    Args:
        folder: The study's folder.
        after: The id of the last event that was read; 0 for none. An id beyond the log's end starts again.
    """
    lines: list[dict[str, Any]] = []
    place = after if after <= folder.events.size else 0
    for event in folder.events.since(place):
        if len(lines) == _LOG_LINES:
            return {"lines": lines, "next": place, "more": True}
        place = event.id
        if event.kind in ("line", "status"):
            text = event.data.get("text") or f"[{event.data.get('status', '')}]"
            lines.append({"time": event.data.get("time"), "text": str(text)[:_LOG_CHARACTERS]})
    return {"lines": lines, "next": place, "more": False}


def pieces(folder: JobFolder, name: FileName, graph: str) -> Iterator[bytes]:
    """Returns the content of a file in pieces, with the server's paths shortened.

    Args:
        folder: The study's folder.
        name: The file's name. Of a .jsonl file, only whole lines are sent.
        graph: The name of the study's graph, as the user gave it. It replaces the dataset that loads it here.

    Raises:
        ProblemDetails: The study has no such file yet.
    """
    try:
        file = (folder.run / name).open("rb")
    except FileNotFoundError:
        raise ProblemDetails(
            404, "not-found", f"the study has no {name} so far; GET .../files lists its files"
        ) from None
    if Path(name).suffix == ".jsonl":
        return _lines(folder, file)
    with file:
        return iter((with_places(folder, file.read(), graph),))


def sizes(folder: JobFolder) -> dict[str, int]:
    """Returns the existing files with their sizes in bytes."""
    paths = {name: folder.run / name for name in FILES}
    return {name: path.stat().st_size for name, path in paths.items() if path.is_file()}


def with_places(folder: JobFolder, content: bytes, graph: str | None = None) -> bytes:
    """Returns a JSON object with the server's paths shortened, and `graph`, if given, as its graph's dataset."""
    if graph is None and b"/" not in content:
        return content
    found = json.loads(content)
    shown = folder.places.shown_in(found)
    if graph is not None and isinstance(shown, dict):
        _name_graph(shown, graph)
    return content if shown == found else json.dumps(shown, indent=1).encode()


def _name_graph(fields: dict[str, Any], graph: str) -> None:
    """Sets the graph's dataset in a request or a tuned.json."""
    for place in (fields, fields.get("graph")):
        if isinstance(place, dict) and "spec" in place:
            place["spec"] = graph


def _lines(folder: JobFolder, file: BinaryIO) -> Iterator[bytes]:
    with file:
        is_whole = True
        while is_whole and (lines := file.readlines(1 << 16)):
            if not (is_whole := lines[-1].endswith(b"\n")):  # it is being written
                lines.pop()
            yield b"".join(line if b"/" not in line else _shown_line(folder, line) for line in lines)


def _shown_line(folder: JobFolder, line: bytes) -> bytes:
    return json.dumps(folder.places.shown_in(json.loads(line))).encode() + b"\n"

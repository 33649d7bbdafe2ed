"""Ask and tell: the user's own trainer runs the trials, through the same protocol as a3gnn's own trials."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.measurement import Failure, FailureKind, Metrics, StageSeconds
from a3gnn.notify import LOOK_S
from a3gnn.profiling.replay import as_asked
from a3gnn.profiling.request import TrialRequest
from a3gnn.service.http.problems import ProblemDetails, conflict
from a3gnn.storage.atomic import write_text

#: Name of the file with the number of the last suggestion.
_LAST = "last"
#: Name of the file whose time is that of the client's last request.
_SEEN = "seen"


class Suggestions:
    """The folder through which a study suggests trials, one at a time, and receives their figures.

    Args:
        folder: Made with the first suggestion if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ask(self, asked: Mapping[str, Any]) -> int:
        """Suggests a trial, and returns its number. A suggestion that was set aside is reused if it equals this one.

        Figures that were already reported for it count. All other suggestions are withdrawn.
        """
        self.folder.mkdir(exist_ok=True)
        last = self.folder / _LAST
        number = int(last.read_text(encoding="ascii")) if last.exists() else 0
        aside = self._file(number, "aside")
        if aside.exists() and json.loads(aside.read_text(encoding="utf-8")) == {"number": number, **asked}:
            aside.rename(self._file(number, "json"))
            return number
        for old in (*self.folder.glob("*.json"), *self.folder.glob("*.aside")):
            old.unlink()
        number += 1
        write_text(last, str(number))
        write_text(self._file(number, "json"), json.dumps({"number": number, **asked}))
        return number

    def note_client(self) -> None:
        """Notes that a client asks for trials, or reports one."""
        with suppress(FileNotFoundError):  # the study has suggested nothing yet
            (self.folder / _SEEN).touch()

    def client_seen(self) -> float:
        """Returns when a client was last noted, in seconds since 1970; 0 if none was."""
        try:
            return (self.folder / _SEEN).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def set_aside(self) -> None:
        """Stops the open suggestion of an ended process from taking answers, until it is asked again."""
        for path in self.folder.glob("[0-9]*.json"):
            if path.stem.isdecimal():
                path.rename(self._file(int(path.stem), "aside"))

    def open(self) -> dict[str, Any] | None:
        """Returns the suggestion that waits for an answer, or None."""
        for path in self.folder.glob("[0-9]*.json"):
            if path.stem.isdecimal() and not self._file(int(path.stem), "told.json").exists():
                try:
                    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
                except FileNotFoundError:  # it was withdrawn just now
                    continue
                return found
        return None

    def tell(self, number: int, told: Mapping[str, Any]) -> None:
        """Answers a suggestion.

        Raises:
            ProblemDetails: It does not wait for an answer, or the answer lacks the requested learning curve.
        """
        asked = self.open()
        if asked is None or asked["number"] != number:
            raise conflict(
                f"trial {number} does not wait for figures; POST .../suggestions returns the trial that does"
            )
        if told.get("failure") is None and asked["plan"]["curve"] is not None and not told["batches"]:
            raise ProblemDetails(
                422,
                "usage",
                f"trial {number} needs a learning curve (plan.curve), got none; batches and val_accuracy must have at "
                "least one point",
            )
        write_text(self._file(number, "told.json"), json.dumps(told))

    def answer(self, number: int) -> dict[str, Any]:
        """Waits for the answer to a suggestion, closes the suggestion, and returns the answer."""
        while not (answer := self._file(number, "told.json")).exists():
            time.sleep(LOOK_S)
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        self._file(number, "json").unlink()  # else, if the same trial is asked twice, a restart would count it again
        return found

    def _file(self, number: int, kind: str) -> Path:
        """Returns the file of a suggestion: open (`json`), set aside (`aside`) or answered (`told.json`)."""
        return self.folder / f"{number}.{kind}"


class ToldTrials:
    """A `TrialExecutor` whose trials the user runs."""

    def __init__(self, suggestions: Suggestions) -> None:
        self._suggestions = suggestions

    def run(self, request: TrialRequest) -> Metrics | Failure:
        """Returns the reported figures of the trial, with as much of its curve as the request asks for."""
        asked = {name: request.to_dict()[name] for name in ("config", "plan")}
        number = self._suggestions.ask(asked | {"task": request.task.to_dict()})
        return told_outcome(self._suggestions.answer(number), request)

    def close(self) -> None:
        """Does nothing: there are no resources to release."""


def told_outcome(told: Mapping[str, Any], request: TrialRequest) -> Metrics | Failure:
    """Returns the figures `told` of a trial as its outcome. Figures that no client reports, such as stages, are 0."""
    if told.get("failure") is not None:
        return Failure(FailureKind(told["failure"]), told["detail"], told["peak_host_bytes"])
    per_epoch = told["batches_per_epoch"] or math.ceil(request.setting.graph.num_train / request.config.batch_size)
    curve = LearningCurve(tuple(told["batches"]), tuple(told["val_accuracy"]), CurveEnd.BUDGET)
    speeds = told["throughput_epochs_per_s"]
    metrics = Metrics(
        throughput_epochs_per_s=statistics.median(speeds),
        peak_host_bytes=told["peak_host_bytes"],
        peak_device_bytes=told["peak_device_bytes"],
        resident_file_bytes=0,
        test_accuracy=told["test_accuracy"],
        val_accuracy=None,
        accuracy_epochs=0,
        timed_batches=per_epoch,
        batches_per_epoch=per_epoch,
        epoch_overhead_s=0.0,
        stage_seconds=StageSeconds(0.0, 0.0, 0.0, 0.0),
        cache_hit_rate=0.0,
        cache_bytes=0,
        input_nodes_per_batch=0.0,
        sampled_edges_per_batch=0.0,
        throughput_replicates=tuple(speeds),
        setup_seconds=told["setup_seconds"],
        curve=curve,
        curve_first=curve.batches[0] if curve.batches else None,
    )
    return as_asked(metrics, request)

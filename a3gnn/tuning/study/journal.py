"""`Journal`: writes the trials of a tune to disk one by one, so an interrupted tune can be resumed."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from a3gnn._fields import from_fields
from a3gnn.errors import A3GNNError, ConfigError
from a3gnn.storage.atomic import write_text
from a3gnn.tuning.study.drift import SpeedTiming
from a3gnn.tuning.study.trial import Trial

_Line = TypeVar("_Line")


class Journal:
    """The file `probes.jsonl` in the folder of a tune, one trial per line; "probe" was once the word for a trial.

    `timings.jsonl` beside it contains one line for each timing of the machine's speed. A trial is written before the
    next timing is made, so both files together determine how it is judged.

    Attributes:
        folder: The tune's folder.
        path: The file of trials.
        timings_path: The file of timings; missing in tunes of older versions.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "probes.jsonl"
        self.timings_path = folder / "timings.jsonl"

    @classmethod
    def start(cls, folder: Path) -> Self:
        """Returns an empty journal in `folder`, in place of an earlier run's."""
        journal = cls(folder)
        for path in (journal.path, journal.timings_path):
            write_text(path, "")
        return journal

    def append(self, trial: Trial) -> None:
        """Adds `trial`; it is on disk when this returns."""
        _append(self.path, trial.to_dict())

    def append_timing(self, timing: SpeedTiming) -> None:
        """Adds `timing`; it is on disk when this returns."""
        _append(self.timings_path, dataclasses.asdict(timing))

    def read(self, mend: bool = True) -> list[Trial]:
        """Returns the trials, judged by the timings, without an incomplete last line left by an interruption.

        Args:
            mend: Whether to cut such a line off the file. Only for the process that appends to it: otherwise a running
                tune may be writing that line.

        Raises:
            ConfigError: The file is not a journal of this version.
        """
        timings = self.timings(mend)
        return [one.judged_by(timings) for one in _read(self.path, Trial.from_dict, mend)]

    def timings(self, mend: bool = True) -> list[SpeedTiming]:
        """Returns the timings; arguments and errors as in `read`."""
        if not self.timings_path.exists():
            return []
        return _read(self.timings_path, lambda fields: from_fields(SpeedTiming, fields), mend)


def _append(path: Path, fields: Mapping[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(fields) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path, parse: Callable[[Mapping[str, Any]], _Line], mend: bool) -> list[_Line]:
    try:
        text = path.read_bytes().decode("utf-8")
        whole = text[: text.rfind("\n") + 1]
        found = [parse(json.loads(line)) for line in whole.splitlines()]
    except (OSError, ValueError, KeyError, TypeError, A3GNNError) as error:
        raise ConfigError(
            f"{path} must be the journal of a tune by this version of a3gnn: {error}; tune again, into another folder"
        ) from error
    if mend and whole != text:
        write_text(path, whole)
    return found

"""The trials of one tune in their order, on disk as they are made: an interrupted tune resumes from them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Self

from a3gnn.errors import A3GNNError, ConfigError
from a3gnn.storage.atomic import write_text
from a3gnn.tuning.trial import Trial


class Journal:
    """The file `probes.jsonl` in the folder of a tune, one trial per line; "probe" was once the word for a trial.

    Attributes:
        folder: The tune's.
        path: The file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "probes.jsonl"

    @classmethod
    def start(cls, folder: Path) -> Self:
        """Returns an empty journal in `folder`; one of an earlier run is replaced."""
        journal = cls(folder)
        write_text(journal.path, "")
        return journal

    def append(self, trial: Trial) -> None:
        """Adds `trial`, on disk when this returns."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(trial.to_dict()) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self, mend: bool = True) -> list[Trial]:
        """Returns the trials; a last line that an interruption cut short is left out.

        Args:
            mend: Whether such a line is cut off the file: only by who appends to it, for a tune that runs may be
                writing it just now.

        Raises:
            ConfigError: The file is not a journal of this version.
        """
        try:
            text = self.path.read_bytes().decode("utf-8")
            whole = text[: text.rfind("\n") + 1]
            trials = [Trial.from_dict(json.loads(line)) for line in whole.splitlines()]
        except (OSError, ValueError, KeyError, TypeError, A3GNNError) as error:
            raise ConfigError(
                f"{self.path} must be the journal of a tune by this version of a3gnn: {error}; tune again, into "
                "another folder"
            ) from error
        if mend and whole != text:
            write_text(self.path, whole)
        return trials

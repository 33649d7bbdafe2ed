"""`TuneState`: the progress of a tune: its seconds over all runs, and whether it has finished."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from a3gnn._fields import from_fields
from a3gnn.errors import ConfigError, UsageError
from a3gnn.storage.atomic import write_text
from a3gnn.tuning.study.folder import read_request
from a3gnn.tuning.study.trial import Trial

_FILE = "state.json"


@dataclass(frozen=True, slots=True)
class TuneState:
    """The file `state.json` in the folder of a tune.

    Attributes:
        elapsed_s: Wall-clock seconds of all its runs, from the call of `tune` on, without compiling kernels.
        finished_budget: The budget with which it finished, in seconds (float) or trials (int); None before that.
        started: When its first run began, ISO 8601, UTC. Its surrogate starts from the measurements stored by then. ""
            in files of older versions.
        round_after: Identifier of the last measurement before the current round of proposals; "" before the first
            round.
        stalls: Number of consecutive stalled rounds before that one.
    """

    elapsed_s: float = 0.0
    finished_budget: float | int | None = None
    started: str = ""
    round_after: str = ""
    stalls: int = 0

    def write(self, folder: Path) -> None:
        """Writes the state into `folder`, whole or not at all."""
        write_text(folder / _FILE, json.dumps(dataclasses.asdict(self)))

    @classmethod
    def read(cls, folder: Path, trials: Sequence[Trial]) -> Self:
        """Returns the state in `folder`; a tune of an older version has no such file, and gets it from its `trials`.

        Raises:
            ConfigError: The file is not a state.
        """
        try:
            return from_fields(cls, json.loads((folder / _FILE).read_text(encoding="utf-8")))
        except FileNotFoundError:
            finished = read_request(folder).budget if (folder / "tuned.json").exists() else None
            return cls(sum(trial.measurement.seconds for trial in trials), finished)
        except (ValueError, TypeError, UsageError) as error:
            raise ConfigError(
                f"{folder / _FILE} must be the state of a tune: {error}; remove it to go on without"
            ) from error

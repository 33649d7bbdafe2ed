"""How far the tune in a folder is: the seconds it has taken, over all its runs, and whether it has finished."""

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
        elapsed_s: Wall clock of all its runs: everything from the call of `tune` on, fitting and searching included,
            but for the compiling of kernels.
        finished_budget: The budget, seconds (float) or trials (int), with which it finished; None while it has not.
        started: When its first run began, ISO 8601, UTC: what was stored by then is what its surrogate starts from;
            "" in the files of tunes from before.
        round_after: The identifier of the last measurement before the round of proposals that it is in; "" before the
            first round.
        stalls: How many rounds before that one had stalled, one after the other.
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
        """Returns the state in `folder`; of a tune from before there was such a file, what its `trials` say.

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

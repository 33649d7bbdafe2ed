"""`KeptTune`: a tune as its folder holds it, finished or not; nothing in the folder is changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from a3gnn.errors import UsageError
from a3gnn.measurement import Metrics
from a3gnn.report.front import Front
from a3gnn.report.front_row import FrontRow
from a3gnn.setting import Setting
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.folder import no_tune, read_request
from a3gnn.tuning.history import History
from a3gnn.tuning.journal import Journal
from a3gnn.tuning.measured_front import measured_front
from a3gnn.tuning.product_speeds import with_kept_speeds
from a3gnn.tuning.state import TuneState
from a3gnn.tuning.study import Study


@dataclass(frozen=True)
class KeptTune:
    """A tune that is there.

    Attributes:
        folder: Its --out.
        history: Its trials before the play-off, judged by what it was asked for.
        front: What it measured, the play-off included; of one that has not chosen yet, so far.
        tuned: What it chose; None while it has not.
        state: How long it took, and whether it has finished.
    """

    folder: Path
    history: History
    front: Front
    tuned: TunedConfig | None
    state: TuneState

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Returns the tune in `folder`.

        Raises:
            UsageError: There is none, or it has measured nothing yet.
            ConfigError: Its files are not those of this version.
        """
        folder = Path(folder)
        request = read_request(folder)
        if not (folder / "probes.jsonl").is_file():
            raise no_tune(folder, "probes.jsonl")
        trials = tuple(Journal(folder).read(mend=False))
        if not trials:
            raise UsageError(f"the tune in {folder} has no trial yet; wait until it has measured the default")
        measured = trials[0].measurement.setting
        setting = Setting(measured.task, measured.graph, with_kept_speeds(folder, measured.hardware))
        timings = tuple(Journal(folder).timings(mend=False))
        history, state = History(Study.of(request, setting), trials, timings), TuneState.read(folder, trials)
        if state.finished_budget is None:
            return cls(folder, history, measured_front(history), None, state)
        return cls(folder, history, Front.read(folder), TunedConfig.read(folder), state)

    @property
    def setting(self) -> Setting:
        """What was trained, on which graph and machine."""
        return self.history.study.setting

    @cached_property
    def played_off(self) -> dict[str, FrontRow]:
        """The rows that were measured in the play-off, by the keys of their configurations."""
        return {row.config.key(): row for row in self.front.rows if row.in_play_off}

    @cached_property
    def rejected(self) -> dict[str, FrontRow]:
        """The rows that failed or broke a limit in the play-off, by the keys of their configurations."""
        return {row.config.key(): row for row in self.front.rows if row.rejected}

    @cached_property
    def timed_again(self) -> dict[str, Metrics]:
        """What the choice and the default came to in the play-off, by the keys of their configurations."""
        reference, tuned = self.history.reference_trial, self.tuned
        if tuned is None or tuned.measured is None:
            return {}
        found = {tuned.config.key(): tuned.measured}
        if reference is not None and tuned.against_default is not None and isinstance(tuned.default, Metrics):
            found[reference.measurement.config.key()] = tuned.default
        return found

    @cached_property
    def play_off_drift(self) -> float:
        """The machine's speed in the play-off, over that at which the reference was measured.

        The play-off's rows are at the former, all others at the latter. 1 where the default was not timed again.
        """
        reference = self.history.reference_trial
        if reference is None or reference.metrics is None:
            return 1.0
        again = self.timed_again.get(reference.measurement.config.key())
        return 1.0 if again is None else again.throughput_epochs_per_s / reference.metrics.throughput_epochs_per_s

"""`TuneStatus`: how far a tune is, read from its folder while another process runs it; and the request to stop it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from a3gnn.errors import A3GNNError, UsageError
from a3gnn.option_names import program
from a3gnn.report.rows import FrontRow
from a3gnn.storage.claim import writer_of
from a3gnn.tuning.outcome.kept_tune import ToldTune
from a3gnn.tuning.study.budget import ask_to_stop, stop_is_asked
from a3gnn.tuning.study.folder import Journal, TuneState, holds_tune, read_request, seconds_so_far

#: starting, baseline, search, verify and stopping are phases of a running tune.
TunePhase = Literal[
    "starting", "baseline", "search", "verify", "stopping", "finished", "failed", "interrupted", "unreadable"
]
_ENDED = ("finished", "failed", "unreadable")


@dataclass(frozen=True, slots=True)
class TuneStatus:
    """How far a tune is.

    Attributes:
        folder: Its --out.
        running: Whether a process runs it now.
        phase: starting, baseline, search, verify or stopping while it runs; then finished, failed (nothing was chosen)
            or interrupted (--resume continues). Among several tunes, unreadable: its figures are 0 or None.
        budget: Its trials (int) or seconds (float).
        trials: Number of trials after the baseline.
        trials_left: Trials left of a budget in trials, 0 once it has finished or failed; None for one in seconds.
        seconds: Seconds so far, of all its runs.
        seconds_left: Seconds left of a budget in seconds, 0 once it has finished or failed, even if early (the budget
            less `seconds` was not needed); None for one in trials.
        best: The choice, or the best measured configuration so far; None if nothing keeps the limits yet.
        baseline: The baseline as measured; None before that.
        problem: Why its last run ended without a choice, or its files can't be read, with the remedy; else "".
    """

    folder: Path
    running: bool
    phase: TunePhase
    budget: float | int
    trials: int
    trials_left: int | None
    seconds: float
    seconds_left: float | None
    best: FrontRow | None
    baseline: FrontRow | None
    problem: str

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Returns the status of the tune in `folder`; changes nothing.

        Raises:
            UsageError: The folder holds no tune, or one that still examines its graph.
            ConfigError: Its files are not in this version's format.
        """
        running, journal = bool(writer_of(folder)), Journal(folder)
        if running and not holds_tune(folder):
            raise UsageError(f"the run in {folder} has just begun and still examines its graph; ask again in a minute")
        budget = read_request(folder).budget
        trials = journal.read(mend=False) if journal.path.exists() else []
        state, told = TuneState.read(folder, trials), ToldTune.read(folder, 0) if trials else None
        seconds, counted = seconds_so_far(folder, running) or state.elapsed_s, sum(one.counts for one in trials)
        phase = _phase(folder, running, state)
        is_open, rows = phase not in _ENDED, () if told is None else told.front.rows
        return cls(
            folder=folder,
            running=running,
            phase=phase,
            budget=budget,
            trials=counted,
            trials_left=max(budget - counted, 0) * is_open if isinstance(budget, int) else None,
            seconds=seconds,
            seconds_left=None if isinstance(budget, int) else max(budget - seconds, 0.0) * is_open,
            best=next((row for row in rows if told is not None and row.config == told.config), None),
            baseline=next((row for row in rows if "default" in row.labels), None),
            problem=state.problem,
        )

    @property
    def has_ended(self) -> bool:
        """Whether it has finished or failed."""
        return self.phase in _ENDED

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__} | {"folder": str(self.folder)}
        rows = {name: None if (row := fields[name]) is None else row.to_dict() for name in ("best", "baseline")}
        return fields | rows


def _phase(folder: Path, running: bool, state: TuneState) -> TunePhase:
    if running:
        begun: dict[str, TunePhase] = {"baseline": "baseline", "search": "search", "verify": "verify"}
        return "stopping" if stop_is_asked(folder) else begun.get(state.phase, "starting")
    if state.finished_budget is not None:
        return "finished"
    return "failed" if state.problem else "interrupted"


def statuses(folder: Path) -> list[TuneStatus]:
    """Returns the status of the tune in `folder`; if that has tunes as its folders, of each, by their names.

    Raises:
        UsageError: The folder holds no tune, or is one that still examines its graph.
        ConfigError: The files of the only tune are not in this version's format.
    """
    within = [] if holds_tune(folder) or not folder.is_dir() else sorted(filter(holds_tune, folder.iterdir()))
    return list(map(_status_of, within)) or [TuneStatus.read(folder)]


def _status_of(folder: Path) -> TuneStatus:
    """Returns the status of one of several tunes: an unreadable one must not hide the others."""
    try:
        return TuneStatus.read(folder)
    except A3GNNError as error:
        return TuneStatus(folder, bool(writer_of(folder)), "unreadable", 0, 0, None, 0.0, None, None, None, str(error))


def stop_tune(folder: Path) -> list[TuneStatus]:
    """Asks the running tune in `folder` to end now with the best configuration so far; with --machines, all of them.

    Returns:
        The statuses, as `statuses` does.

    Raises:
        UsageError: The folder holds no tune, or no process runs it.
    """
    found = statuses(folder)
    if not writer_of(folder):  # with --machines, the process that started the tunes
        phases = ", ".join(dict.fromkeys(one.phase for one in found))
        if running := [one.folder for one in found if one.running and one.folder != folder]:
            raise UsageError(
                f"only the tunes of one --machines run can be stopped together, and no such run writes {folder}; "
                f"{program()} stop {running[0]} stops one of them"
            )
        raise UsageError(
            f"only a running tune can be stopped, but the one in {folder} is {phases}; {program()} status "
            f"{folder} shows it"
        )
    ask_to_stop(folder)
    return [dataclasses.replace(one, phase="stopping") if one.running else one for one in found]

"""`StoredStudy`: the study in a folder, whether it still runs or is finished; nothing in the folder is changed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.report.front import Front, FrontRow
from a3gnn.tuning.outcome.candidates import candidates
from a3gnn.tuning.outcome.kept_tune import KeptTune
from a3gnn.tuning.study.folder import read_request
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.request import TuneRequest
from a3gnn.tuning.study.state import TuneState
from a3gnn.tuning.study.trial import JudgedTrial, Trial


class Measured:
    """What a study has measured: its tune, whose trials are known by their index.

    Args:
        tune: The tune, with a trial at least.
    """

    def __init__(self, tune: KeptTune) -> None:
        self.tune = tune

    @property
    def history(self) -> History:
        """The trials, judged by what the tune was asked for."""
        return self.tune.history

    @property
    def front(self) -> Front:
        """Everything that was measured."""
        return self.tune.front

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials in their order, failed ones included."""
        return self.history.trials

    @cached_property
    def rows(self) -> dict[int, FrontRow]:
        """The front's row of each trial that succeeded, by the trial's index.

        A configuration has one row, which is its last trial's; earlier ones show it with their own figures, off the
        front, unless the play-off has measured them all anew. Older fronts have a row per trial, told apart by figures.
        """
        left: dict[str, list[FrontRow]] = {}
        for row in self.front.rows:
            left.setdefault(row.config.key(), []).append(row)
        last = {trial.measurement.config.key(): i for i, trial in enumerate(self.trials) if trial.metrics}
        found = {}
        for i, trial in enumerate(self.trials):
            key, figures = trial.measurement.config.key(), self.history.figures(trial)
            own = left.get(key)
            if not own or figures is None:
                continue
            if len(own) > 1:
                found[i] = own.pop(next((n for n, row in enumerate(own) if row.measured == figures), 0))
            else:
                found[i] = own[0] if i == last[key] else self._earlier(own[0], figures)
        return found

    def _earlier(self, row: FrontRow, figures: Figures) -> FrontRow:
        """Returns what `row` is to a trial before its last one, which came to `figures`."""
        row = dataclasses.replace(row, on_front=False, compared=False, labels=())
        if row.in_play_off:
            return row
        broken = self.history.objectives.limits.broken_by(figures)
        return dataclasses.replace(row, measured=figures, feasible=not broken, broken=broken)

    @cached_property
    def candidates(self) -> dict[int, JudgedTrial]:
        """What may be picked from: each configuration once, at the speed of the play-off, by the index of its trial."""
        index = {id(trial): i for i, trial in enumerate(self.trials)}
        return {index[id(one.trial)]: one for one in candidates(self.tune, self.history)}

    @cached_property
    def judged(self) -> dict[int, JudgedTrial]:
        """The trials that succeeded by their index, each with the metrics that its row stands for."""
        again = self.tune.timed_again
        found = {}
        for i, row in self.rows.items():
            trial = self.trials[i]
            metrics = again.get(row.config.key()) if row.in_play_off else None
            if (metrics := metrics or trial.metrics) is not None:
                found[i] = JudgedTrial(trial, metrics, row.measured)
        return found

    @cached_property
    def default(self) -> int | None:
        """The index of the default's last successful trial, or None: of one configuration the last trial counts."""
        wanted = TrainConfig().canonical()
        return max((i for i in self.rows if self.trials[i].measurement.config == wanted), default=None)

    @cached_property
    def best(self) -> int | None:
        """The index of the trial of what was chosen, or before that of the best measured so far; None without one."""
        if self.tune.tuned is not None:
            chosen = self.tune.tuned.config.key()
            # Of one configuration the last trial counts, as in the history's order by the priority.
            return max((i for i in self.rows if self.trials[i].measurement.config.key() == chosen), default=None)
        best = self.history.best()
        return None if best is None else next(i for i, trial in enumerate(self.trials) if trial is best.trial)

    @cached_property
    def names(self) -> list[str]:
        """What each trial is called: `trial 3` as a tune counts them, others `default`, `default 2` by their reason."""
        return list(_names(self.trials))


@dataclass(frozen=True)
class StoredStudy:
    """A study as its folder has it.

    Attributes:
        folder: The tune's.
        request: What was asked for.
        state: How far it is.
        measured: What it has measured; None before its first trial is done.
    """

    folder: Path
    request: TuneRequest
    state: TuneState
    measured: Measured | None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Returns the study in `folder`.

        Raises:
            UsageError: No tune was started there.
            ConfigError: Its files are not those of this version.
        """
        request, path = read_request(folder), folder / "probes.jsonl"
        # The journal is made after the request is written, and a trial's line is there once it is whole.
        if not path.exists() or b"\n" not in path.read_bytes():
            return cls(folder, request, TuneState.read(folder, ()), None)
        tune = KeptTune.read(folder)
        return cls(folder, request, tune.state, Measured(tune))


def _names(trials: tuple[Trial, ...]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for trial in trials:
        kind = "trial" if trial.counts else trial.reason
        seen[kind] += 1
        yield kind if kind != "trial" and seen[kind] == 1 else f"{kind} {seen[kind]}"

"""`StoredStudy`: the study in a folder, running or finished; reading it does not change the folder."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from a3gnn.figures import Figures
from a3gnn.report.front import Front
from a3gnn.report.rows import FrontRow
from a3gnn.tuning.outcome.kept_tune import KeptTune, candidates
from a3gnn.tuning.study.folder import TuneState, read_request
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.study import TuneRequest
from a3gnn.tuning.study.trial import BASELINE, JudgedTrial, Trial


class Measured:
    """The measurements of a study, whose trials are identified by their index.

    Args:
        tune: A tune with at least one trial.
    """

    def __init__(self, tune: KeptTune) -> None:
        self.tune = tune

    @property
    def history(self) -> History:
        """The trials, judged by the tune's request."""
        return self.tune.history

    @property
    def front(self) -> Front:
        """All measured configurations."""
        return self.tune.front

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials in their order, failed ones included."""
        return self.history.trials

    @cached_property
    def rows(self) -> dict[int, FrontRow]:
        """The front's row of each trial that succeeded, by the trial's index.

        A configuration has one row, from its last trial. Its earlier trials show a copy with their own figures, off the
        front, unless the verification measured the configuration anew. Older fronts have a row per trial, matched by
        figures.
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
        """Returns the copy of `row` for an earlier trial, which had `figures`."""
        row = dataclasses.replace(row, on_front=False, compared=False, labels=())
        if row.in_play_off:
            return row
        broken = self.history.limits(row.config).broken_by(figures)
        return dataclasses.replace(row, measured=figures, feasible=not broken, broken=broken)

    @cached_property
    def candidates(self) -> dict[int, JudgedTrial]:
        """The candidates of a pick by their trial's index: each configuration once, at the verification's speed."""
        index = {id(trial): i for i, trial in enumerate(self.trials)}
        return {index[id(one.trial)]: one for one in candidates(self.tune, self.history)}

    @cached_property
    def judged(self) -> dict[int, JudgedTrial]:
        """The successful trials by their index, each with the metrics that its row stands for."""
        again = self.tune.timed_again
        found = {}
        for i, row in self.rows.items():
            trial = self.trials[i]
            metrics = again.get(row.config.key()) if row.in_play_off or "chosen" in row.labels else None
            if (metrics := metrics or trial.metrics) is not None:
                found[i] = JudgedTrial(trial, metrics, row.measured)
        return found

    @cached_property
    def default(self) -> int | None:
        """The index of the default's last successful trial, or None."""
        wanted = self.history.study.baseline
        return max((i for i in self.rows if self.trials[i].measurement.config == wanted), default=None)

    @cached_property
    def best(self) -> int | None:
        """The index of the choice's trial, or before a choice of the best trial so far; None without one."""
        if self.tune.tuned is not None:
            chosen = self.tune.tuned.config.key()
            # The last trial of a configuration counts, as in the history's order by the priority.
            return max((i for i in self.rows if self.trials[i].measurement.config.key() == chosen), default=None)
        best = self.history.best()
        return None if best is None else next(i for i, trial in enumerate(self.trials) if trial is best.trial)

    @cached_property
    def names(self) -> list[str]:
        """Display names of the trials: `trial 3` if the tune counts it, others by reason, such as `baseline 2`."""
        return list(_names(self.trials))


@dataclass(frozen=True)
class StoredStudy:
    """A study, read from its folder."""

    folder: Path  # the tune's folder
    request: TuneRequest  # the tune's request
    state: TuneState  # the tune's progress
    measured: Measured | None  # the measurements; None before the first trial is done

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Returns the study in `folder`.

        Raises:
            UsageError: No tune was started there.
            ConfigError: The tune's files are not from this version.
        """
        request, path = read_request(folder), folder / "probes.jsonl"
        # The journal is created after the request, and a trial's line counts only once it is complete.
        if not path.exists() or b"\n" not in path.read_bytes():
            return cls(folder, request, TuneState.read(folder, ()), None)
        tune = KeptTune.read(folder)
        return cls(folder, tune.history.study.request, tune.state, Measured(tune))


def _names(trials: tuple[Trial, ...]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for trial in trials:
        kind = "trial" if trial.counts else "baseline" if trial.reason in BASELINE else trial.reason
        seen[kind] += 1
        yield kind if kind != "trial" and seen[kind] == 1 else f"{kind} {seen[kind]}"

"""A tune that is there already: finished, to be returned as it is; or not, to be shown so far."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from a3gnn.option_names import option
from a3gnn.report.front import Front
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.choice import STOPPED
from a3gnn.tuning.folder import check_request, read_request
from a3gnn.tuning.history import History
from a3gnn.tuning.journal import Journal
from a3gnn.tuning.measured_front import measured_front
from a3gnn.tuning.request import TuneRequest
from a3gnn.tuning.result import SearchSummary, TuneResult
from a3gnn.tuning.state import TuneState
from a3gnn.tuning.study import Study
from a3gnn.units import count, format_duration


def finished_result(folder: Path, request: TuneRequest) -> TuneResult | None:
    """Returns what the tune in `folder` found, if it has finished with at least the budget of `request`, or None.

    One that was stopped has not: its play-off is due, whatever of the budget is spent.

    Raises:
        UsageError: The folder holds no tune, or one of another request.
        ConfigError: Its files are not those of this version.
    """
    check_request(folder, request)
    trials = Journal(folder).read()
    state = TuneState.read(folder, trials)
    counted = sum(trial.counts for trial in trials)
    if state.finished_budget is None or not (folder / "tuned.json").exists():
        return None
    spent = state.finished_budget
    if isinstance(spent, int) != isinstance(request.budget, int):
        spent = counted if isinstance(request.budget, int) else state.elapsed_s
    tuned = TunedConfig.read(folder)
    if request.budget > spent or STOPPED in tuned.left_out:
        return None
    nothing_new = SearchSummary(request.engine, 0, None, None, None, None, 0.0)
    return TuneResult(folder, tuned, Front.read(folder), nothing_new, counted, state.elapsed_s)


def say_finished(result: TuneResult, notify: Callable[[str], None]) -> None:
    """Says that the tune of `result` is finished, and how it would go on."""
    notify(
        f"the tune in {result.folder} is finished: {count(result.trials, 'trial')} after the default, "
        f"{format_duration(result.seconds)}; a larger {option('budget')} goes on with it"
    )


def unfinished_front(folder: Path) -> Front | None:
    """Returns the front so far of the tune in `folder`, or None where it holds none that is under way.

    Raises:
        ConfigError: Its files are not those of this version.
    """
    if not (folder / "probes.jsonl").is_file():
        return None
    trials = Journal(folder).read(mend=False)
    if not trials or TuneState.read(folder, trials).finished_budget is not None:
        return None
    study = Study.of(read_request(folder), trials[0].measurement.setting)
    return measured_front(History(study, tuple(trials)))

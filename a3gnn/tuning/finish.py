"""From a choice to the files and lines that a person sees."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Sequence

from a3gnn.config import TrainConfig
from a3gnn.report.text import describe_config, describe_metrics
from a3gnn.search.result import SearchResult
from a3gnn.threads import wait_policy
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.choice import Choice
from a3gnn.tuning.history import History
from a3gnn.tuning.result import SearchSummary, TuneResult, compare, write_result
from a3gnn.tuning.runner import Runner
from a3gnn.units import format_duration
from a3gnn.version import __version__

_VERSIONS_OF = ("torch", "torch_geometric", "numba", "numpy", "stable-baselines3", "optuna")


def finish(history: History, choice: Choice, searches: Sequence[SearchResult], runner: Runner) -> TuneResult:
    """Returns the result of a tune, its files written into its folder, and reports it; the tune is finished then.

    Args:
        history: What was measured.
        choice: What was chosen of it.
        searches: What was searched for it.
        runner: Knows the folder and the time.
    """
    request, setting, objectives = history.study.request, history.study.setting, history.objectives
    config, default, budget = choice.trial.measurement.config, history.default, runner.budget
    tuned = TunedConfig(
        config=config,
        setting=setting,
        spec=request.spec,
        limits=objectives.limits,
        predicted=choice.trial.predicted,
        measured=choice.measured,
        default=default.measurement.outcome if default else None,
        seeds={"tune": request.seed, "task": setting.task.seed},
        versions=_versions(),
        wait_policy=wait_policy.of_trials(),
    )
    search = _summary(request.engine, searches)
    result = TuneResult(runner.folder, tuned, history.front(config), search, budget.trials, budget.elapsed_s)
    write_result(result, runner.notify)
    runner.finished_budget = request.budget
    reference = default.measurement.metrics if default else None
    runner.notify(f"chosen   {describe_config(config)}")
    runner.notify(f"    -> {describe_metrics(choice.measured, objectives.memory)}")
    against = compare(choice.measured, reference, objectives.memory)
    if config != TrainConfig().canonical() and against:
        runner.notify(f"    against the default: {against}")
    if searches:
        runner.notify(_describe(search))
    return result


def _describe(search: SearchSummary) -> str:
    text = f"search   {search.engine}, {search.evaluations:,} predictions in {format_duration(search.seconds)}"
    if search.hypervolume_ratio is None:
        return text
    beside = f"; random search {search.random_ratio:.1%}" if search.random_ratio is not None else ""
    return f"{text}: {search.hypervolume_ratio:.1%} of the exhaustive front's hypervolume{beside}"


def _summary(engine: str, searches: Sequence[SearchResult]) -> SearchSummary:
    return SearchSummary(
        engine=engine,
        evaluations=sum(search.evaluations for search in searches),
        hypervolume_ratio=searches[-1].hypervolume_ratio if searches else None,
        random_ratio=searches[-1].random_ratio if searches else None,
        seconds=sum(search.seconds for search in searches),
    )


def _versions() -> dict[str, str]:
    found = {"a3gnn": __version__, "python": platform.python_version()}
    for name in _VERSIONS_OF:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found

"""From a choice to the files and lines that a person sees."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path

from a3gnn.config import TrainConfig
from a3gnn.report.text import describe_config, describe_metrics
from a3gnn.threads import wait_policy
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.choice import Choice
from a3gnn.tuning.result import SearchSummary, TuneResult, compare, write_result
from a3gnn.tuning.study import Study
from a3gnn.units import format_duration
from a3gnn.version import __version__

_VERSIONS_OF = ("torch", "torch_geometric", "numba", "numpy", "stable-baselines3", "optuna")


def finish(study: Study, choice: Choice, folder: Path) -> TuneResult:
    """Returns the result of `study` with `choice`, its files written into `folder`; the tune is finished then."""
    config = choice.probe.measurement.config
    default = study.history.default
    tuned = TunedConfig(
        config=config,
        task=study.request.task,
        graph=study.graph,
        spec=study.request.spec,
        hardware=study.hardware,
        limits=study.history.limits,
        predicted=choice.probe.predicted,
        measured=choice.measured,
        default=default.measurement.outcome if default else None,
        seeds={"tune": study.request.seed, "task": study.request.task.seed},
        versions=_versions(),
        wait_policy=wait_policy.of_trials(),
    )
    front, budget = study.history.front(config), study.budget
    result = TuneResult(folder, tuned, front, _summary(study), budget.trials, budget.elapsed_s)
    write_result(result, study.notify)
    study.finished = True
    reference = default.measurement.metrics if default else None
    study.notify(f"chosen   {describe_config(config)}")
    study.notify(f"    -> {describe_metrics(choice.measured, study.history.memory)}")
    against = compare(choice.measured, reference, study.history.memory)
    if config != TrainConfig().canonical() and against:
        study.notify(f"    against the default: {against}")
    if study.searches:
        study.notify(_describe(result.search))
    return result


def _describe(search: SearchSummary) -> str:
    text = f"search   {search.engine}, {search.evaluations:,} predictions in {format_duration(search.seconds)}"
    if search.hypervolume_ratio is None:
        return text
    beside = f"; random search {search.random_ratio:.1%}" if search.random_ratio is not None else ""
    return f"{text}: {search.hypervolume_ratio:.1%} of the exhaustive front's hypervolume{beside}"


def _summary(study: Study) -> SearchSummary:
    searches = study.searches
    return SearchSummary(
        engine=study.request.engine,
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

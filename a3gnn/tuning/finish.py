"""From a choice to the files and lines that a person sees."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path

from a3gnn import __version__, wait_policy
from a3gnn.config import TrainConfig
from a3gnn.report.text import describe_config, describe_metrics
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.campaign import Campaign
from a3gnn.tuning.choice import Choice
from a3gnn.tuning.result import SearchSummary, TuneResult, compare, write_result
from a3gnn.units import format_duration

_VERSIONS_OF = ("torch", "torch_geometric", "numba", "numpy", "stable-baselines3", "optuna")


def finish(campaign: Campaign, choice: Choice, folder: Path) -> TuneResult:
    """Returns the result of `campaign` with `choice`, its files written into `folder`; the tune is finished then."""
    config = choice.probe.measurement.config
    default = campaign.findings.default
    tuned = TunedConfig(
        config=config,
        task=campaign.request.task,
        graph=campaign.graph,
        spec=campaign.request.spec,
        hardware=campaign.hardware,
        limits=campaign.findings.limits,
        predicted=choice.probe.predicted,
        measured=choice.measured,
        default=default.measurement.outcome if default else None,
        seeds={"tune": campaign.request.seed, "task": campaign.request.task.seed},
        versions=_versions(),
        wait_policy=wait_policy.of_trials(),
    )
    front, budget = campaign.findings.front(config), campaign.budget
    result = TuneResult(folder, tuned, front, _summary(campaign), budget.trials, budget.elapsed_s)
    write_result(result, campaign.notify)
    campaign.finished = True
    reference = default.measurement.metrics if default else None
    campaign.notify(f"chosen   {describe_config(config)}")
    campaign.notify(f"    -> {describe_metrics(choice.measured, campaign.findings.memory)}")
    against = compare(choice.measured, reference, campaign.findings.memory)
    if config != TrainConfig().canonical() and against:
        campaign.notify(f"    against the default: {against}")
    if campaign.searches:
        campaign.notify(_describe(result.search))
    return result


def _describe(search: SearchSummary) -> str:
    text = f"search   {search.engine}, {search.evaluations:,} predictions in {format_duration(search.seconds)}"
    if search.hypervolume_ratio is None:
        return text
    beside = f"; random search {search.random_ratio:.1%}" if search.random_ratio is not None else ""
    return f"{text}: {search.hypervolume_ratio:.1%} of the exhaustive front's hypervolume{beside}"


def _summary(campaign: Campaign) -> SearchSummary:
    searches = campaign.searches
    return SearchSummary(
        engine=campaign.request.engine,
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

"""`--memory-limit default`: what the default was measured to take is the limit of all others after it; by formulas."""

from __future__ import annotations

import math

import pytest

from a3gnn.cli.options import LIMIT
from a3gnn.config import TrainConfig
from a3gnn.errors import InfeasibleError
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.profiling.request import TrialRequest
from a3gnn.tuning.run.plans import timing_plan, trial_plan, whole_plan
from a3gnn.tuning.study.history import DEFAULT_TOLERANCE
from a3gnn.tuning.study.trial import Proposal
from tests.tuning.formulas import SMALL_SPACE
from tests.tuning.measured import TWO_PARTS

MiB = 2**20
#: Two configurations: the default, and the same with features on disk.
TIERS = SMALL_SPACE | {"parallel_mode": "sequential", "num_partitions": 1}


def allowed(peak: int) -> int:
    return math.ceil(peak * (1 + DEFAULT_TOLERANCE))


def test_the_limit_is_what_the_default_took_and_every_later_trial_has_it(measured) -> None:
    history = measured(memory_limit="default").history
    peak = history.default.measurement.metrics.peak_host_bytes
    assert history.objectives.limits.host_bytes == allowed(peak)
    for plan in (
        trial_plan(Proposal("best", TWO_PARTS), history),
        timing_plan(history),
        whole_plan(history, TWO_PARTS),
    ):
        assert plan.host_limit_bytes == allowed(peak)
        assert plan.device_limit_bytes is None
    before = type(history)(history.study)
    assert before.objectives.limits.host_bytes is None
    assert trial_plan(Proposal("default", TrainConfig()), before).host_limit_bytes is None


def test_a_tune_keeps_it_and_writes_it_down(quick_tune, formulas) -> None:
    lines: list[str] = []
    executor = formulas()
    found = quick_tune(executor=executor, memory_limit="default", notify=lines.append)
    peak = found.tuned.default.peak_host_bytes
    assert found.tuned.limits.host_bytes == allowed(peak)
    assert found.tuned.to_dict()["limits"]["host_bytes"] == allowed(peak)
    assert found.tuned.measured.peak_host_bytes <= allowed(peak)
    first, *later = executor.ran
    assert first.config == TrainConfig().canonical()
    assert first.plan.host_limit_bytes is None
    others = [request for request in later if request.config != first.config]
    assert {request.plan.host_limit_bytes for request in others} == {allowed(peak)}
    assert {request.plan.host_limit_bytes for request in later if request.config == first.config} == {None}
    assert sum("the baseline's largest peak plus 5%" in line for line in lines) == 1


def test_the_largest_of_three_peaks_counts(quick_tune, formulas) -> None:
    """The second of the default's trials takes most."""

    def bulges(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        more = 50 * MiB if request.config == TrainConfig().canonical() and before == 1 else 0
        return Metrics.from_dict(metrics.to_dict() | {"peak_host_bytes": metrics.peak_host_bytes + more})

    executor = formulas(bulges)
    found = quick_tune(executor=executor, memory_limit="default")
    own = [request for request in executor.ran[:3] if request.config == TrainConfig().canonical()]
    assert len(own) == 3
    plain = quick_tune(executor=formulas(), memory_limit="default", out=found.folder / "plain")
    assert found.tuned.limits.host_bytes == plain.tuned.limits.host_bytes + math.ceil(50 * MiB * 1.05)


def test_a_default_that_takes_more_when_repeated_is_compared_with_all_the_same(quick_tune, formulas) -> None:
    """Its own peak is the limit: repetitions of it break none, but those of others do."""

    def grows(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        peak, limit = metrics.peak_host_bytes, request.plan.host_limit_bytes
        if request.config == TrainConfig().canonical():
            peak = round(peak * (1 + 0.1 * (before >= 3)))
        if limit is not None and peak > limit:
            return Failure(FailureKind.OUT_OF_MEMORY, "passed the limit", limit=limit)
        return Metrics.from_dict(metrics.to_dict() | {"peak_host_bytes": peak})

    found = quick_tune(executor=formulas(grows), memory_limit="default", max_accuracy_drop=10.0)
    assert found.tuned.config != TrainConfig().canonical()
    assert found.tuned.against_default is not None
    only = quick_tune(
        executor=formulas(grows), memory_limit="default", fix=TIERS | {"feature_tier": "ram"}, out=found.folder / "only"
    )
    assert only.tuned.config == TrainConfig().canonical()
    assert only.tuned.limits.host_bytes >= only.tuned.measured.peak_host_bytes > found.tuned.limits.host_bytes


def test_a_resumed_tune_has_the_limit_of_its_first_run(quick_tune, formulas) -> None:
    peaks: list[int] = []

    def grows(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        peaks.append(metrics.peak_host_bytes + 2 * MiB * before)
        return Metrics.from_dict(metrics.to_dict() | {"peak_host_bytes": peaks[-1]})

    executor = formulas(grows)
    options = {"executor": executor, "memory_limit": "default"}
    first = quick_tune(budget=2, **options)
    assert quick_tune(budget=2, resume=True, **options).tuned == first.tuned
    longer = quick_tune(budget=4, resume=True, **options)
    assert longer.trials > first.trials
    others = [request for request in executor.ran if request.config != TrainConfig().canonical()]
    third = peaks[2]  # the last of the default's trials
    assert {request.plan.host_limit_bytes for request in others} == {allowed(third)}


def test_what_stands_in_for_a_default_that_fits_nowhere_sets_the_limit(quick_tune, formulas) -> None:
    def fails_in_ram(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if request.config.feature_tier == "ram":
            return Failure(FailureKind.OUT_OF_MEMORY, "the machine's memory ran out", limit=1.0)
        return metrics

    executor = formulas(fails_in_ram)
    found = quick_tune(executor=executor, memory_limit="default", fix=TIERS)
    assert found.tuned.config.feature_tier == "disk"
    peak = executor.explored[1]
    assert peak.config.feature_tier == "disk"
    assert found.tuned.limits.host_bytes == allowed(260 * MiB + 1024 * 40_000 // 2)


def test_where_nothing_was_measured_of_the_default_the_limit_must_be_a_size(quick_tune, formulas) -> None:
    def fails_alike(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if request.config.num_partitions == 1:
            return Failure(FailureKind.INVALID, "by formula")
        return metrics

    with pytest.raises(InfeasibleError, match=r"the last one: invalid: by formula\); give memory_limit a size"):
        quick_tune(executor=formulas(fails_alike), memory_limit="default")


def test_the_command_line_takes_the_word_or_a_size() -> None:
    assert LIMIT("default") == "default"
    assert LIMIT("1GiB") == 2**30
    with pytest.raises(Exception, match="got 'defalt'"):
        LIMIT("defalt")

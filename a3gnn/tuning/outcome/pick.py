"""`pick`: picks the best configuration of a tune by another priority or other limits, without a trial."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from a3gnn.errors import InfeasibleError
from a3gnn.figures import differs
from a3gnn.measurement import Failure, FailureKind
from a3gnn.objectives import Priority
from a3gnn.option_names import option
from a3gnn.report.front import Front, MeasuredConfig
from a3gnn.training.tuned import TunedConfig
from a3gnn.tuning.outcome.kept_tune import KeptTune, candidates, latest_seconds, limits_of, no_gain_of
from a3gnn.tuning.outcome.picked import Pick
from a3gnn.tuning.study.arguments import parsed_limit
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.limits import nothing_fits, training_limits
from a3gnn.tuning.study.measured_front import LATE, outside_note
from a3gnn.tuning.study.trial import JudgedTrial
from a3gnn.units import count
from a3gnn.version import versions

#: The value that removes a limit of the tune.
NO_LIMIT = "none"


def pick(
    folder: str | Path,
    *,
    priority: str | Priority | None = None,
    memory_limit: str | int | None = None,
    host_memory_limit: str | int | None = None,
    max_accuracy_drop: float | None = None,
    target_accuracy: float | None = None,
) -> Pick:
    """Returns the best measured configuration of a tune by a new request; runs and writes nothing.

    The rule is the tune's own: the best score of the priority among the configurations in the searched space that keep
    every limit as measured, if it does not lose to the baseline by the figures that the priority weighs enough to
    decide. A configuration of the verification has its figures from there. Others have the figures of their trial,
    converted to the machine's speed in the verification. If the new request only narrows the tune's, and the tune's
    choice still keeps it, that is the answer, because the choice was measured again. Configurations that the
    verification rejected are left out.

    Args:
        folder: The --out of a tune, finished or not.
        priority: As in `tune`; the tune's by default.
        memory_limit: As in `tune`, or "none"; the tune's by default.
        host_memory_limit: As in `tune`, or "none"; the tune's by default.
        max_accuracy_drop: Points of validation quality that may be lost against the default; the tune's by default.
        target_accuracy: The least validation quality, by the metric, in percent (for mae, the error); the tune's by
            default, unless `max_accuracy_drop` is given.

    Raises:
        InfeasibleError: Nothing measured keeps the limits; the message names the closest configuration, and the limits
            that it needs.
        UsageError: An argument has a wrong value, or `folder` holds no tune.
        ConfigError: The tune's files are not in this version's format.
    """
    tune = KeptTune.read(folder)
    limits = {"memory_limit": memory_limit, "host_memory_limit": host_memory_limit}
    asked = {name: _limit(name, given) for name, given in limits.items() if given is not None}
    if priority is not None:
        asked["priority"] = priority if isinstance(priority, Priority) else Priority.parse(priority)
    if max_accuracy_drop is not None:
        asked |= {"max_accuracy_drop": max_accuracy_drop, "target_accuracy": None}
    if target_accuracy is not None:
        asked["target_accuracy"] = target_accuracy
    request = dataclasses.replace(tune.history.study.request, **asked)
    history = tune.judged_by(request)
    found = candidates(tune, history)
    eligible = _eligible(tune, history, found)
    stands = _standing(tune, history, found, eligible)
    if not (eligible or stands):
        raise _nothing(tune, history, found)
    best = stands or eligible[history.objectives.best_index([one.figures for one in eligible])]
    return _picked(tune, history, found, best, stands is not None)


def _limit(name: str, given: str | int) -> Any:
    return None if given == NO_LIMIT else parsed_limit(name, given)


def _key(one: JudgedTrial) -> str:
    return one.trial.measurement.config.key()


def _eligible(tune: KeptTune, asked: History, found: Sequence[JudgedTrial]) -> list[JudgedTrial]:
    """Returns the candidates in `found` that may be picked."""
    latest_s = latest_seconds(tune, asked, found) if asked.objectives.priority.in_time else None
    return [
        one
        for one in found
        if asked.row(one.trial.measurement.config) is not None
        and _keeps_limits(tune, asked, one)
        and _key(one) not in tune.rejected
        and not one.figures.later_than(latest_s)
    ]


def _note(tune: KeptTune, asked: History, one: JudgedTrial, latest_s: float | None) -> str:
    """Returns why a candidate may not be picked, or ""."""
    if _key(one) in tune.rejected:
        return tune.rejected[_key(one)].note
    if asked.row(one.trial.measurement.config) is None:
        return outside_note(asked)
    is_late = one.figures.seconds_to_accuracy is not None and one.figures.later_than(latest_s)
    return LATE if is_late else ""


def _keeps_limits(tune: KeptTune, asked: History, one: JudgedTrial) -> bool:
    """Returns whether a candidate keeps the requested limits.

    The tune's choice kept its own limits in the verification, with its mean accuracy over several seeds, which its
    figures do not contain. So its figures only count for limits that are tighter now.
    """
    limits, own = limits_of(asked, one), limits_of(tune.history, one)
    broken = [breach.limit for breach in limits.broken_by(one.figures)]
    if _key(one) == _choice(tune):
        broken = [name for name in broken if _is_tighter(name, getattr(limits, name), getattr(own, name))]
    return not broken


def _is_tighter(name: str, now: float | None, before: float | None) -> bool:
    if now is None or before is None:
        return now is not None
    return now > before if name == "least_accuracy" else now < before


def _standing(
    tune: KeptTune, asked: History, found: Sequence[JudgedTrial], eligible: Sequence[JudgedTrial]
) -> JudgedTrial | None:
    """Returns the tune's own choice among the candidates in `found` if it answers the new request, too; else None.

    It answers the tune's own request. It answers another one if the priority is the same (and the target, if seconds
    count), if it keeps the limits, and if every other eligible configuration kept the tune's limits as well: the best
    of many is the best of fewer.
    """
    if tune.tuned is None or asked.study.request.priority != tune.history.study.request.priority:
        return None
    if asked.study.request == tune.history.study.request:
        return _choice_in(tune, found)
    now, before = asked.objectives, tune.history.objectives
    if now.priority.time and now.limits.least_accuracy != before.limits.least_accuracy:
        return None
    if any(limits_of(tune.history, one).broken_by(one.figures) for one in eligible if _key(one) != _choice(tune)):
        return None
    return _choice_in(tune, eligible)


def _choice_in(tune: KeptTune, found: Sequence[JudgedTrial]) -> JudgedTrial | None:
    return next((one for one in found if _key(one) == _choice(tune)), None)


def _choice(tune: KeptTune) -> str | None:
    return None if tune.tuned is None else tune.tuned.config.key()


def _nothing(tune: KeptTune, asked: History, found: Sequence[JudgedTrial]) -> InfeasibleError:
    refused: dict[str, Any] = {key: Failure(FailureKind.INVALID, row.note) for key, row in tune.rejected.items()} | {
        _key(one): limits_of(asked, one).broken_by(one.figures)
        for one in found
        if _key(one) in tune.played_off and _key(one) not in tune.rejected
    }
    error = nothing_fits(asked, refused)
    said = [f"{str(error).removesuffix('.')}.", *doubts(tune, asked, found)]
    return InfeasibleError(" ".join(said), error.smallest_limit_bytes)


def _picked(tune: KeptTune, asked: History, found: Sequence[JudgedTrial], best: JudgedTrial, is_choice: bool) -> Pick:
    config, request = best.trial.measurement.config, asked.study.request
    reference_s = latest_seconds(tune, asked, found)
    latest_s = reference_s if request.priority.in_time else None
    rows = [
        MeasuredConfig(
            one.trial.measurement.config,
            one.figures,
            one.trial.predicted,
            "" if is_choice and one is best else _note(tune, asked, one, latest_s),
            _key(one) in tune.played_off,
            asked.row(one.trial.measurement.config) is None,
            asked.limits(one.trial.measurement.config),
        )
        for one in found
    ]
    reference = asked.reference_trial
    default = reference.measurement.config if reference and asked.has_default_reference else None
    no_gain = no_gain_of(tune) if is_choice else None
    return Pick(
        tune.folder,
        request,
        _tuned(tune, asked, found, best),
        Front.of(rows, asked.objectives, config, reference_s, no_gain, tune.history.study.baseline),
        default,
        is_choice,
        tuple(doubts(tune, asked, found, best, is_choice)),
    )


def _tuned(tune: KeptTune, asked: History, found: Sequence[JudgedTrial], best: JudgedTrial) -> TunedConfig:
    """Returns the `TunedConfig` of `best`: the tune's own, adapted, if `best` is the tune's choice."""
    config, target = best.trial.measurement.config, asked.objectives.limits.least_accuracy
    reference = tune.reference(asked)
    seconds, limits = best.figures.seconds, training_limits(asked, config, best.figures)
    if tune.tuned is not None and config == tune.tuned.config and target == tune.front.target:
        return dataclasses.replace(tune.tuned, limits=limits)
    judged: dict[str, Any] = {
        "limits": limits,
        "target_accuracy": target,
        "seconds_to_accuracy": seconds.to_dict() if seconds else None,
    }
    if tune.tuned is not None and config == tune.tuned.config:
        return dataclasses.replace(tune.tuned, **judged, rate_alone=None, against_default=None, no_gain=None)
    beside = asked.reference_trial.measurement.config if asked.reference_trial else None
    default = next((one.metrics for one in found if one.trial.measurement.config == beside), None)
    return TunedConfig(
        config=config,
        setting=tune.setting,
        spec=asked.study.request.spec,
        predicted=best.trial.predicted,
        measured=best.metrics,
        default=default,
        seeds={"tune": asked.study.request.seed, "task": tune.setting.task.seed},
        versions=tune.tuned.versions if tune.tuned else versions(),
        wait_policy=tune.tuned.wait_policy if tune.tuned else None,
        default_budget_s=reference.budget_s if reference else None,
        drift=tune.drift,
        still_rising=tune.tuned.still_rising if tune.tuned else asked.still_rising,
        settling_budget_s=tune.tuned.settling_budget_s if tune.tuned else asked.settling_budget_s,
        expected_final=tune.tuned.expected_final if tune.tuned else None,
        heuristics=tune.tuned.heuristics if tune.tuned else None,
        **judged,
    )


def doubts(
    tune: KeptTune,
    asked: History,
    found: Sequence[JudgedTrial],
    best: JudgedTrial | None = None,
    is_choice: bool = False,
) -> Iterator[str]:
    """Yields sentences on what the measurements of `tune` leave uncertain about the new request.

    Args:
        tune: The tune.
        asked: The tune's trials, judged by the new request.
        found: The candidates.
        best: The picked candidate; None if nothing keeps the limits.
        is_choice: Whether `best` is the tune's own choice, which answers the new request, too.
    """
    if tune.tuned is None:
        yield "The tune has not finished, so no figure is verified yet."
    elif best is not None and best.trial.measurement.config.key() not in tune.played_off:
        yield from _single_trial(tune)
    if is_choice:
        return
    if out_of_memory := _untold_by_memory(tune, asked):
        yield (
            f"{count(out_of_memory, 'trial')} ran out of memory under the tune's smaller limits, so their figures are "
            "unknown."
        )
    bounds = [one for one in found if not one.figures.complete]
    broken = ([breach.limit for breach in limits_of(asked, one).broken_by(one.figures)] for one in bounds)
    unknown = sum(names == ["least_accuracy"] for names in broken)
    if unknown:
        yield (
            f"{unknown:,} of {count(len(found), 'configuration')} may or may not reach the least "
            f"{asked.objectives.metric.label}: the tune stopped their training early."
        )
    elif asked.study.request.priority.accuracy_counts and bounds:
        yield (
            f"{len(bounds):,} of {count(len(found), 'configuration')} have only a lower bound of validation "
            f"{asked.objectives.metric.label}, because the tune stopped their training early. One may be better."
        )
    left_out = sum(
        one.trial.measurement.config.key() in tune.rejected and not limits_of(asked, one).broken_by(one.figures)
        for one in found
    )
    if left_out:
        yield f"Left out: {count(left_out, 'configuration')} that the verification rejected; a3gnn front says why."


def _single_trial(tune: KeptTune) -> Iterator[str]:
    store = tune.folder / "profiles.sqlite"
    reusing = f" with {option('store', store)}" if store.is_file() else ""
    yield (
        "It was measured by a single trial, not verified, and the best of many single trials is often a lucky one. A "
        f"tune by this priority{reusing} reuses these measurements and verifies its choice."
    )
    if differs(tune.play_off_drift):
        yield (
            f"The machine ran at {tune.play_off_drift:.2g} of its earlier speed during the verification: both speeds "
            "are shown at that speed."
        )


def _untold_by_memory(tune: KeptTune, asked: History) -> int:
    """Returns how many trials ran out of memory under a limit that is larger now."""
    before, now = tune.history.objectives.limits, asked.objectives.limits
    pairs = ((before.host_bytes, now.host_bytes), (before.device_bytes, now.device_bytes))
    if not any((was or math.inf) < (limit or math.inf) for was, limit in pairs):
        return 0
    return sum(failure.kind is FailureKind.OUT_OF_MEMORY for failure in asked.failures())

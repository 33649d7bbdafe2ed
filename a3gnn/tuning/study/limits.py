"""The memory limits of one configuration, and the errors if nothing can keep the limits, or nothing measured does."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.errors import InfeasibleError
from a3gnn.figures import Figures
from a3gnn.hardware import Hardware
from a3gnn.limits import Breach, Limits
from a3gnn.measurement import Failure, FailureKind
from a3gnn.option_names import option
from a3gnn.profiling.request import TrialPlan
from a3gnn.report.text import describe_breaches, describe_config
from a3gnn.task import as_values
from a3gnn.tuning.study.history import DEFAULT_TOLERANCE, History
from a3gnn.tuning.study.study import DEFAULT_PEAK, Study
from a3gnn.tuning.study.trial import Predicted, Trial
from a3gnn.units import format_size
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.physics.model_cost import model_cost
from a3gnn_surrogate.physics.volume import batch_volume
from a3gnn_surrogate.search_points import costly

#: If nothing fits, one trial may use so many times its limit or its predicted memory, if that is more: enough to
#: find the smallest limit that would do, and too little for a leaking model to fill the machine's memory.
BEYOND = 1.5
#: Up to this quality the error suggests no looser limit: no target may be as low, and a curve without a point counts as
#: 0.
_NO_ACCURACY = 0.01
#: float32 weights, their gradients, and Adam's two moments.
_BYTES_PER_WEIGHT = 16


def refuse_too_wide(study: Study) -> None:
    """Raises an error if the weights of every model that a built-in model's search allows exceed the memory limit.

    Weights, gradients and Adam's two moments are always in memory at once; all else comes on top. With conditions
    among names, the task's own values count too, and trials find out.

    Raises:
        InfeasibleError: Nothing can fit; nothing was trained.
    """
    setting, plan = study.setting, study.plan
    has_device, task = setting.hardware.has_device, setting.task
    limit = plan.device_limit_bytes if has_device else plan.host_limit_bytes
    names = study.request.search
    tried = {one.name: one.values if one.scale == "choice" else one.values[:1] for one in names}
    if limit is None or task.is_own or "hidden_channels" not in tried or any(one.when for one in names):
        return
    columns, least = as_columns([TrainConfig()]), math.inf
    for values in itertools.product(*tried.values()):
        own = costly(as_values(zip(tried, values, strict=True)), setting)
        volume = batch_volume(columns, own.task, own.graph)
        least = min(least, _BYTES_PER_WEIGHT * model_cost(columns, volume, own.task, own.graph).parameters)
    if least > limit:
        raise InfeasibleError(
            f"search: hidden_channels must have a value that fits {format_size(limit)}, but the weights and Adam's "
            f"moments of {tried['hidden_channels'][0]} alone take {format_size(least)}; search a smaller one"
        )


def memory_limits(history: History, config: TrainConfig) -> Limits:
    """Returns the limits on the memory of `config`.

    With `--memory-limit default`, the reference's own peak is the limit. If a repetition of the reference takes more,
    it breaks no limit: the default just needs more than its first trial showed.
    """
    reference = history.reference_trial
    if (
        history.study.request.memory_limit == DEFAULT_PEAK
        and reference is not None
        and config.canonical() == reference.measurement.config
    ):
        return history.study.objectives(None, None).limits
    return dataclasses.replace(history.objectives.limits, least_accuracy=None)


def within_limits(history: History, plan: TrialPlan, config: TrainConfig) -> TrialPlan:
    """Returns `plan` with the limits on the memory of `config`."""
    limits = memory_limits(history, config)
    return dataclasses.replace(plan, host_limit_bytes=limits.host_bytes, device_limit_bytes=limits.device_bytes)


def beyond_limits(plan: TrialPlan, predicted: Predicted) -> TrialPlan:
    """Returns `plan` with limits on memory that are `BEYOND` times its own, or times what is `predicted`."""
    host, device = (
        None if limit is None else round(BEYOND * max(limit, predicted[peak]["mean"]))
        for limit, peak in ((plan.host_limit_bytes, "peak_host_bytes"), (plan.device_limit_bytes, "peak_device_bytes"))
    )
    return dataclasses.replace(plan, host_limit_bytes=host, device_limit_bytes=device)


def training_limits(history: History, config: TrainConfig, figures: Figures) -> Limits:
    """Returns the limits for training `config`, which was measured with `figures`.

    If `config` is the default that set the limits, and took more than they allow, they are raised to its peaks plus
    `DEFAULT_TOLERANCE`.
    """
    limits = history.objectives.limits
    if memory_limits(history, config).host_bytes == limits.host_bytes:
        return limits
    more = {
        field: math.ceil(getattr(figures, f"peak_{field}") * (1 + DEFAULT_TOLERANCE))
        for field in ("host_bytes", "device_bytes")
        if (getattr(limits, field) or math.inf) < getattr(figures, f"peak_{field}")
    }
    return dataclasses.replace(limits, **more)


def why_infeasible(limits: Limits, hardware: Hardware, remedy: bool = True) -> str:
    """Returns why no training can keep the memory limits, or "" if one might.

    Args:
        limits: The limits on memory.
        hardware: The machine.
        remedy: Whether to name the least limit that a training might keep. A tune measures one, and names that.
    """
    for kind, limit, idle in (
        ("host", limits.host_bytes, hardware.profile.idle_host_bytes),
        ("device", limits.device_bytes, hardware.profile.idle_device_bytes),
    ):
        if limit is not None and limit <= idle:
            name = "host_memory_limit" if kind == "host" and hardware.has_device else "memory_limit"
            give = f"; give {option(name, f'{idle // 2**20 + 1}MiB')} or more" if remedy else ""
            return (
                f"the {kind} memory limit must exceed the {format_size(idle)} that a process takes before it trains "
                f"anything, got {format_size(limit)}{give}"
            )
    return ""


class _Broken(NamedTuple):
    """A trial, and the limits that it breaks."""

    trial: Trial
    breaches: tuple[Breach, ...]


class _FailedAgain(NamedTuple):
    """The figures of a trial, and its failure when it was measured again."""

    figures: Figures
    failure: Failure


def nothing_fits(history: History, refused: Mapping[str, Failure | tuple[Breach, ...]]) -> InfeasibleError:
    """Returns the error that explains by how much the limits are missed, and the smallest limits that would do.

    It only considers measured configurations inside the space.

    Args:
        history: All measured trials.
        refused: Configurations that the verification refused, by key, each with its failure or its broken limits.
    """
    broken, again = _judged(history, refused)
    failures = history.failures()
    head = f"no configuration keeps every limit: {len(broken) + len(again)} measured, {len(failures)} failed"
    late = [failure for failure in failures if failed_in_time_alone(failure, history)]
    if late and not broken and not again:
        head += f", {len(late)} of them only because their time ended: they kept the limits on memory"
    if again:
        head += f", {len(again)} measured did not keep the limits when measured again"
    if again and not broken:
        return _not_again(history, head, again)
    if not broken:
        last = f", the last one: {failures[-1].describe()}" if failures else ""
        return InfeasibleError(f"{head}{last}{_remedy_of((late or failures)[-1:])}")
    closest, breaches = min(broken, key=lambda one: max(breach.excess for breach in one.breaches))
    memory = "device_bytes" if history.objectives.has_device else "host_bytes"
    needed = [*(b.found for b in _only_breaches(broken, memory)), *_needed_again(history, again)]
    smallest = min(needed, default=None)
    return InfeasibleError(
        f"{head}. The closest, {describe_config(closest.measurement.config)}, has {describe_breaches(breaches)}. "
        + _remedy(history, broken, breaches, smallest),
        None if smallest is None else int(smallest),
    )


def _not_again(history: History, head: str, again: Sequence[_FailedAgain]) -> InfeasibleError:
    """Returns the error if trials kept every limit, and all failed when they were measured again."""
    smallest = min(_needed_again(history, again), default=None)
    last = again[-1].failure
    if smallest is None:
        return InfeasibleError(f"{head}, the last one: {last.describe()}{_remedy_of([last])}")
    return InfeasibleError(
        f"{head}, the last one: {last.describe()}. The same training takes a few percent more or less memory each "
        f"time; give {option('memory_limit', _size(smallest))} or more",
        math.ceil(smallest),
    )


def _needed_again(history: History, again: Sequence[_FailedAgain]) -> list[float]:
    """Returns the host memory that each trial needs, judged by all its measurements, plus `DEFAULT_TOLERANCE`.

    Empty with a device, whose memory a failure does not tell.
    """
    if history.objectives.has_device:
        return []
    return [
        max(one.figures.peak_host_bytes, one.failure.peak_host_bytes) * (1 + DEFAULT_TOLERANCE)
        for one in again
        if one.failure.kind is FailureKind.OUT_OF_MEMORY
    ]


def failed_in_time_alone(failure: Failure, history: History) -> bool:
    """Returns whether a trial without a device ran out of time while it kept the limit on memory."""
    limit = history.objectives.limits.host_bytes
    in_time = failure.kind is FailureKind.TIMEOUT
    return in_time and limit is not None and not history.objectives.has_device and failure.peak_host_bytes <= limit


def _remedy_of(failures: Sequence[Failure]) -> str:
    """Returns the remedy for a failure, the only one in `failures`; "" without a failure or a known remedy."""
    kind = failures[0].kind if failures else None
    if kind is FailureKind.OUT_OF_MEMORY:
        return (
            f". Raise {option('memory_limit')}; a model whose memory grows with each mini-batch keeps what it should "
            "give back"
        )
    if kind is FailureKind.TIMEOUT:
        return f". Give a larger {option('budget')}, as a duration, or a smaller model, graph or fanouts"
    return ""


def _judged(
    history: History, refused: Mapping[str, Failure | tuple[Breach, ...]]
) -> tuple[list[_Broken], list[_FailedAgain]]:
    """Returns the trials inside the space that break limits, and those that failed when they were measured again."""
    found = [(t, f, refused.get(t.measurement.config.key(), history.broken_by(t, f))) for t, _, f in history.inside()]
    broken = [_Broken(trial, why) for trial, _, why in found if not isinstance(why, Failure) and why]
    return broken, [_FailedAgain(figures, why) for _, figures, why in found if isinstance(why, Failure)]


def _only_breaches(broken: Sequence[_Broken], limit: str) -> list[Breach]:
    """Returns the breaches of `limit` by trials that break no other limit."""
    return [breaches[0] for _, breaches in broken if [breach.limit for breach in breaches] == [limit]]


def _remedy(history: History, broken: Sequence[_Broken], closest: Sequence[Breach], smallest: float | None) -> str:
    """Returns the options that would allow a configuration: each changes one limit, or else several limits together."""
    remedies = [] if smallest is None else [f"the smallest limit that would: {option('memory_limit', _size(smallest))}"]
    accuracies = (breach for breach in _only_breaches(broken, "least_accuracy") if breach.found > _NO_ACCURACY)
    remedies += [_drop(history, breach) for breach in _least(list(accuracies))]
    if remedies:
        return f"With the other limits as they are, {', or '.join(remedies)}"
    both = [
        _drop(history, breach) if breach.limit == "least_accuracy" else f"{breach.name} of {_size(breach.found)}"
        for breach in closest
    ]
    return f"It takes {' and '.join(both)}"


def _least(breaches: Sequence[Breach]) -> list[Breach]:
    return [min(breaches, key=lambda breach: breach.excess)] if breaches else []


def _drop(history: History, breach: Breach) -> str:
    """Returns the option that allows the accuracy of `breach`: a target if one was requested, else a larger drop.

    If the accuracy is close to 0, only longer training can help.
    """
    request = history.study.request
    if breach.found <= _NO_ACCURACY:
        return f"longer training than the baseline's seconds allow: a larger {option('budget')}, as a duration"
    if request.target_accuracy is not None:
        return option("target_accuracy", float(breach.metric.as_option(breach.found)))
    points = request.max_accuracy_drop + breach.excess * 100
    return option("max_accuracy_drop", math.ceil(points * 100) / 100)


def _size(size: float) -> str:
    """Returns `size` bytes as the value of an option, rounded up."""
    return f"{math.ceil(size / 2**20)}MiB"

"""What to say where nothing keeps the limits: what came closest, what it breaks, and which limits it would keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from a3gnn.breach import Breach
from a3gnn.errors import InfeasibleError
from a3gnn.measurement import Failure, Metrics
from a3gnn.report.text import describe_breaches, describe_config
from a3gnn.tuning.history import History
from a3gnn.tuning.lines import describe_failure
from a3gnn.tuning.trial import MeasuredTrial, Trial


class _Broken(NamedTuple):
    """A trial, and the limits that it breaks."""

    trial: Trial
    breaches: tuple[Breach, ...]


def nothing_fits(history: History, refused: Mapping[str, Metrics | Failure]) -> InfeasibleError:
    """Returns the error that says by how much the limits are missed, and the smallest ones that would be kept.

    All of it is about configurations inside the space, as measured.

    Args:
        history: What was measured.
        refused: By key of a configuration, what its second trial found; it stands for the first one.
    """
    measured, failures = _judged(history, refused)
    head = f"no configuration keeps every limit: {len(measured)} measured, {len(failures)} failed"
    if not measured:
        last = f", the last one: {describe_failure(failures[-1])}" if failures else ""
        return InfeasibleError(f"{head}{last}")
    objectives = history.objectives
    broken = [_Broken(trial, objectives.limits.broken_by(metrics)) for trial, metrics in measured]
    closest, breaches = min(broken, key=lambda one: max(breach.excess for breach in one.breaches))
    memory = "device_bytes" if objectives.has_device else "host_bytes"
    smallest = min((b.found for b in _only_breaches(broken, memory)), default=None)
    return InfeasibleError(
        f"{head}. The closest, {describe_config(closest.measurement.config)}, has {describe_breaches(breaches)}. "
        + _remedy(history, broken, breaches, smallest),
        None if smallest is None else int(smallest),
    )


def _judged(history: History, refused: Mapping[str, Metrics | Failure]) -> tuple[list[MeasuredTrial], list[Failure]]:
    """Returns what was measured inside the space, each with its worse trial, and the failures."""
    found = [(t, refused.get(t.measurement.config.key(), metrics)) for t, metrics in history.inside()]
    measured = [MeasuredTrial(trial, outcome) for trial, outcome in found if isinstance(outcome, Metrics)]
    failed = [outcome for _, outcome in found if isinstance(outcome, Failure)]
    return measured, [*history.failures(), *failed]


def _only_breaches(broken: Sequence[_Broken], limit: str) -> list[Breach]:
    """Returns the breaches of `limit` where it is the only limit that is broken."""
    return [breaches[0] for _, breaches in broken if [breach.limit for breach in breaches] == [limit]]


def _remedy(history: History, broken: Sequence[_Broken], closest: Sequence[Breach], smallest: float | None) -> str:
    """Returns what to allow: options that change one limit, if one is enough, or else several limits."""
    remedies = [] if smallest is None else [f"the smallest limit that would: --memory-limit {_size(smallest)}"]
    remedies += [_drop(history, breach) for breach in _least(_only_breaches(broken, "least_accuracy"))]
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
    points = history.study.request.max_accuracy_drop + breach.excess * 100
    return f"--max-accuracy-drop {math.ceil(points * 100) / 100:g}"


def _size(size: float) -> str:
    """Returns `size` bytes as an option that is not smaller."""
    return f"{math.ceil(size / 2**20)}MiB"

"""What to say where nothing keeps the limits: what came closest, what it breaks, and which limits it would keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from a3gnn.breach import Breach
from a3gnn.errors import InfeasibleError
from a3gnn.measurement import Failure, Metrics
from a3gnn.report.text import describe_breaches, describe_config
from a3gnn.tuning.journal import Probe
from a3gnn.tuning.lines import describe_failure
from a3gnn.tuning.study import Study

#: One measured configuration with the limits that it breaks.
_Broken = tuple[Probe, tuple[Breach, ...]]


def nothing_fits(study: Study, refused: Mapping[str, Metrics | Failure]) -> InfeasibleError:
    """Returns the error that says by how much the limits are missed, and the smallest ones that would be kept.

    All of it is about configurations inside the space, as measured.

    Args:
        study: What was measured.
        refused: By key of a configuration, what its second trial found; it stands for the first one.
    """
    measured, failures = _judged(study, refused)
    head = f"no configuration keeps every limit: {len(measured)} measured, {len(failures)} failed"
    if not measured:
        last = f", the last one: {describe_failure(failures[-1])}" if failures else ""
        return InfeasibleError(f"{head}{last}")
    limits = study.history.limits
    broken = [(probe, limits.broken_by(metrics)) for probe, metrics in measured]
    closest, breaches = min(broken, key=lambda one: max(breach.excess for breach in one[1]))
    memory = "device_bytes" if study.hardware.has_device else "host_bytes"
    smallest = min((b.found for b in _alone(broken, memory)), default=None)
    return InfeasibleError(
        f"{head}. The closest, {describe_config(closest.measurement.config)}, has {describe_breaches(breaches)}. "
        + _remedy(study, broken, breaches, smallest),
        None if smallest is None else int(smallest),
    )


def _judged(
    study: Study, refused: Mapping[str, Metrics | Failure]
) -> tuple[list[tuple[Probe, Metrics]], list[Failure]]:
    """Returns what was measured inside the space, each with its worse trial, and the failures."""
    found = [(p, refused.get(p.measurement.config.key(), metrics)) for p, metrics in study.history.inside()]
    measured = [(probe, outcome) for probe, outcome in found if isinstance(outcome, Metrics)]
    failed = [outcome for _, outcome in found if isinstance(outcome, Failure)]
    return measured, [*study.history.failures(), *failed]


def _alone(broken: Sequence[_Broken], limit: str) -> list[Breach]:
    """Returns the breaches of `limit` where it is the only limit that is broken."""
    return [breaches[0] for _, breaches in broken if [breach.limit for breach in breaches] == [limit]]


def _remedy(study: Study, broken: Sequence[_Broken], closest: Sequence[Breach], smallest: float | None) -> str:
    """Returns what to allow, one limit where that is enough."""
    ways = [] if smallest is None else [f"the smallest limit that would: --memory-limit {_size(smallest)}"]
    ways += [_drop(study, breach) for breach in _least(_alone(broken, "least_accuracy"))]
    if ways:
        return f"With the other limits as they are, {', or '.join(ways)}"
    both = [
        _drop(study, breach) if breach.limit == "least_accuracy" else f"{breach.name} of {_size(breach.found)}"
        for breach in closest
    ]
    return f"It takes {' and '.join(both)}"


def _least(breaches: Sequence[Breach]) -> list[Breach]:
    return [min(breaches, key=lambda breach: breach.excess)] if breaches else []


def _drop(study: Study, breach: Breach) -> str:
    points = study.request.max_accuracy_drop + breach.excess * 100
    return f"--max-accuracy-drop {math.ceil(points * 100) / 100:g}"


def _size(size: float) -> str:
    """Returns `size` bytes as an option that is not smaller."""
    return f"{math.ceil(size / 2**20)}MiB"

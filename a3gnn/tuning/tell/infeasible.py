"""The error if nothing keeps the limits: the closest configuration, the limits it breaks, and limits that would do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from a3gnn.errors import InfeasibleError
from a3gnn.limits import Breach
from a3gnn.measurement import Failure, FailureKind
from a3gnn.option_names import option
from a3gnn.report.text import describe_breaches, describe_config
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import Trial

#: Up to this quality the error suggests no looser limit: no target may be as low, and a curve without a point counts as
#: 0.
_NO_ACCURACY = 0.01


class _Broken(NamedTuple):
    """A trial, and the limits that it breaks."""

    trial: Trial
    breaches: tuple[Breach, ...]


def nothing_fits(history: History, refused: Mapping[str, Failure | tuple[Breach, ...]]) -> InfeasibleError:
    """Returns the error that explains by how much the limits are missed, and the smallest limits that would do.

    It only considers measured configurations inside the space.

    Args:
        history: All measured trials.
        refused: Configurations that the play-off refused, by key, each with its failure or the limits that it broke.
    """
    broken, failures = _judged(history, refused)
    head = f"no configuration keeps every limit: {len(broken)} measured, {len(failures)} failed"
    if not broken:
        last = f", the last one: {failures[-1].describe()}" if failures else ""
        return InfeasibleError(f"{head}{last}{_remedy_of(failures[-1:])}")
    closest, breaches = min(broken, key=lambda one: max(breach.excess for breach in one.breaches))
    memory = "device_bytes" if history.objectives.has_device else "host_bytes"
    smallest = min((b.found for b in _only_breaches(broken, memory)), default=None)
    return InfeasibleError(
        f"{head}. The closest, {describe_config(closest.measurement.config)}, has {describe_breaches(breaches)}. "
        + _remedy(history, broken, breaches, smallest),
        None if smallest is None else int(smallest),
    )


def _remedy_of(failures: Sequence[Failure]) -> str:
    """Returns the remedy for the last failure, the only one in `failures`; "" without a failure or a known remedy."""
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
) -> tuple[list[_Broken], list[Failure]]:
    """Returns the trials inside the space with the limits that they break, and the failures."""
    limits = history.objectives.limits
    found = [(t, refused.get(t.measurement.config.key(), limits.broken_by(f))) for t, _, f in history.inside()]
    broken = [_Broken(trial, breaches) for trial, breaches in found if not isinstance(breaches, Failure) and breaches]
    return broken, [*history.failures(), *(why for _, why in found if isinstance(why, Failure))]


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
        return f"longer training than the default's seconds allow: a larger {option('budget')}, as a duration"
    if request.target_accuracy is not None:
        return option("target_accuracy", float(breach.metric.as_option(breach.found)))
    points = request.max_accuracy_drop + breach.excess * 100
    return option("max_accuracy_drop", math.ceil(points * 100) / 100)


def _size(size: float) -> str:
    """Returns `size` bytes as the value of an option, rounded up."""
    return f"{math.ceil(size / 2**20)}MiB"

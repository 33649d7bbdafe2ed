"""Medians, spreads and ratios of what was measured: pure computations."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """A median with the quartiles around it."""

    median: float
    low: float
    high: float


class Ratio(NamedTuple):
    """How many times faster: of the medians over all rounds, and the least and most of a single round."""

    value: float
    least: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    """Returns the median and the quartiles of at least one value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def flat_spread(rounds: Sequence[Sequence[float]]) -> Spread:
    """Returns the spread of all values of all rounds."""
    return spread(_flat(rounds))


def ratio(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> Ratio:
    """Returns theirs over ours, milliseconds by round; rounds pair up, since they ran one after the other."""
    by_round = [statistics.median(b) / statistics.median(a) for a, b in zip(ours, theirs, strict=True)]
    value = statistics.median(_flat(theirs)) / statistics.median(_flat(ours))
    return Ratio(value, min(by_round), max(by_round))


def stage_medians(rounds: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Returns the median milliseconds of each stage that any of the rounds timed."""
    found: dict[str, list[float]] = {}
    for one in rounds:
        for name in ("sample", "gather", "model"):
            found.setdefault(name, []).extend(one.get(name, ()))
    return {name: statistics.median(values) for name, values in found.items() if values}


def _flat(rounds: Sequence[Sequence[float]]) -> list[float]:
    return [value for one in rounds for value in one]

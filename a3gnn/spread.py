"""`Spread`: a median, and the range that it comes from."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from math import comb
from typing import Any, NamedTuple, Self


class Spread(NamedTuple):
    """Repeated measurements of one figure.

    Attributes:
        median: Their median.
        low: The least.
        high: The largest.
        repeats: How many there are.
    """

    median: float
    low: float
    high: float
    repeats: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Self | None:
        """Returns the spread of `values`, or None without any."""
        found = list(values)
        return cls(statistics.median(found), min(found), max(found), len(found)) if found else None

    def describe(self, form: str = ".2f") -> str:
        """Returns `1.48 (1.39 to 1.73)`, each number in `form`; a single measurement without a range."""
        median = format(self.median, form)
        return median if self.repeats == 1 else f"{median} ({format(self.low, form)} to {format(self.high, form)})"

    def to_dict(self) -> dict[str, float | int]:
        """Returns the fields as JSON types."""
        return self._asdict()

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the spread of `to_dict`."""
        return cls(**fields)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the bounds between which the median of what `values` are drawn from lies, with 90 % of certainty.

    They are order statistics, whatever the distribution: the sign test at 5 % on each side. That is the whole range of
    five to seven values; fewer have no such bounds, and their range is returned.
    """
    ordered, count, left_out = sorted(values), len(values), 0
    while 20 * sum(comb(count, below) for below in range(left_out + 2)) <= 2**count:
        left_out += 1
    return ordered[left_out], ordered[count - 1 - left_out]

"""How far a long conversion is."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from a3gnn.units import format_duration


class ConversionProgress:
    """Says how far each stage is, and how long it will take.

    At most every few seconds, so that short conversions say nothing.

    Args:
        say: Takes a line for people; None says nothing.
        period_s: Seconds between two lines, and before the first.
    """

    def __init__(self, say: Callable[[str], None] | None = None, period_s: float = 5.0) -> None:
        self._say = say
        self._period_s = period_s
        self._due = monotonic() + period_s
        self._stage, self._began, self._share = "", 0.0, 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Says that `stage` (`drawing edges`) has `done` of `total` steps behind it, if it is time to."""
        now, share = monotonic(), done / max(total, 1)
        if stage != self._stage:  # it has just begun, or its first step is done
            self._stage, self._began, self._share = stage, now, share
        if self._say is not None and now >= self._due:
            gained = share - self._share
            left = f", {format_duration((now - self._began) * (1 - share) / gained)} left of it" if gained > 0 else ""
            self._say(f"{stage}: {share:.0%}{left}")
            self._due = now + self._period_s

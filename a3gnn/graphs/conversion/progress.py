"""How far a long conversion is."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class ConversionProgress:
    """Says how far each stage is, at most every few seconds, so that short conversions say nothing.

    Args:
        say: Takes a line for people; None says nothing.
        period_s: Seconds between two lines, and before the first.
    """

    def __init__(self, say: Callable[[str], None] | None = None, period_s: float = 5.0) -> None:
        self._say = say
        self._period_s = period_s
        self._due = monotonic() + period_s

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Says that `stage` (`drawing edges`) has `done` of `total` steps behind it, if it is time to."""
        if self._say is not None and monotonic() >= self._due:
            self._say(f"{stage}: {done / max(total, 1):.0%}")
            self._due = monotonic() + self._period_s

"""Events of a running tune that a live display draws; importable without numba and torch."""

from __future__ import annotations

from typing import NamedTuple

#: Mark of the best trial so far.
BEST = "★"
#: Widths in characters of a line's columns.
NAME, SPEED, GAIN, SIZE = 9, 11, 8, 9


class TrialRow(NamedTuple):
    """A finished trial, as text."""

    name: str  # `baseline`, or its number: `#7`
    best: bool  # whether it is the best so far by the priority
    speed: str  # seconds to the target, or epochs per second
    gain: str  # the speed over the baseline's; "" if one of them is not known
    memory: str  # the peak
    changed: str  # how its configuration differs from the baseline
    ended: str  # why it can't be the choice; "" if it can

    @property
    def columns(self) -> str:
        """The trial in columns."""
        return self.within(None)

    def within(self, width: int | None) -> str:
        """Returns the trial in columns, in at most `width` characters if that is given.

        Changed knobs that do not fit are counted; the reason why it can't be the choice is cut last.
        """
        ended = f" ({self.ended})" if self.ended else ""
        figures = f"{self.name:<{NAME}}{BEST if self.best else ' '} {self.speed:>{SPEED}}{self.gain:>{GAIN}}"
        figures = f"{figures}  {self.memory:>{SIZE}}  "
        line = f"{figures}{self.changed}{ended}"
        if width is None or len(line) <= width:
            return line
        knobs, kept = self.changed.split(", "), list[str]()

        def shortened(shown: list[str]) -> str:
            text = ", ".join([*shown, f"+{len(knobs) - len(shown)} more"])
            return f"{figures}{text}{ended}"

        for knob in knobs:
            if len(shortened([*kept, knob])) <= width:
                kept.append(knob)
        lines = shortened(kept), f"{figures}{ended.lstrip()}"
        return next((one for one in lines if len(one) <= width), f"{line[: width - 3]}...")


class TrialEvent(NamedTuple):
    """A trial has finished."""

    rows: tuple[TrialRow, ...]  # all trials so far in their order, as judged now; the last one has just finished


class BeganEvent(NamedTuple):
    """What has begun: the name of a trial or a step, and what it measures."""

    name: str
    what: str


class HeadingEvent(NamedTuple):
    """The headings of `TrialRow.columns`."""

    line: str


class PhaseEvent(NamedTuple):
    """A phase of the tune has begun: `baseline`, `search` or `verify`; and the budget in seconds, if it has seconds."""

    phase: str
    total_s: float | None
    left_s: float | None

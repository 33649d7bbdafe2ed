"""How much a tune may still measure."""

from __future__ import annotations

import time

from a3gnn.units import count, format_duration

#: Share of a tune's seconds that is kept for the play-off, where that takes so long.
PLAY_OFF_SHARE = 1 / 3


class Budget:
    """A number of trials, or seconds of which up to a third is kept for the play-off.

    Args:
        total: Seconds (float) or trials (int).
        started: When this run of the tune started, by `time.monotonic`; now by default.
        spent_s: Seconds that earlier runs of the same tune have taken.
    """

    def __init__(self, total: float | int, started: float | None = None, spent_s: float = 0.0) -> None:
        self.total = total
        self.trials = 0
        self._start = (time.monotonic() if started is None else started) - spent_s

    @property
    def in_trials(self) -> bool:
        """Whether trials are counted, not seconds."""
        return isinstance(self.total, int)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the tune started, those of earlier runs included."""
        return time.monotonic() - self._start

    @property
    def left_s(self) -> float:
        """Seconds left, the play-off's included; infinite where trials are counted."""
        return float("inf") if self.in_trials else self.total - self.elapsed_s

    @property
    def play_off_s(self) -> float:
        """Seconds that are kept for the play-off at most; 0 where trials are counted."""
        return 0.0 if self.in_trials else self.total * PLAY_OFF_SHARE

    def record(self) -> None:
        """Takes note of a trial of the budget's, of this run or an earlier one; the default's is not."""
        self.trials += 1

    def affords(self, trial_s: float, reserve_s: float) -> bool:
        """Whether one more trial fits.

        Args:
            trial_s: Seconds that it is expected to take.
            reserve_s: Seconds that are kept for what comes after it.
        """
        return self.trials < self.total if self.in_trials else self.left_s > trial_s + reserve_s

    def describe(self) -> str:
        """Returns what is left, for people."""
        if self.in_trials:
            return f"{count(max(round(self.total) - self.trials, 0), 'trial')} left"
        return f"{format_duration(max(self.left_s, 0))} left"

    def describe_end(self, trial_s: float, reserve_s: float) -> str:
        """Returns why it affords no more, for people; arguments as in `affords`."""
        if self.in_trials or self.left_s <= 0:
            return "the budget is spent"
        return (
            f"{self.describe()}, {format_duration(reserve_s)} are the play-off's share, and another trial is "
            f"expected to take {format_duration(trial_s)}"
        )

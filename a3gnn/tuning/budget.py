"""How much a tune may still measure."""

from __future__ import annotations

import statistics
import time

from a3gnn.units import count, format_duration

#: Share of a tune's seconds that is kept for the play-off.
PLAY_OFF_SHARE = 1 / 3


class Budget:
    """A number of trials, or seconds of which the last third is kept for the play-off.

    Args:
        total: Seconds (float) or trials (int).
        started: When this run of the tune started, by `time.monotonic`; now by default.
        spent_s: Seconds that earlier runs of the same tune have taken.
    """

    def __init__(self, total: float | int, started: float | None = None, spent_s: float = 0.0) -> None:
        self.total = total
        self.trials = 0
        self._start = (time.monotonic() if started is None else started) - spent_s
        self._seconds: list[float] = []

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
        """Seconds that are kept for the play-off; 0 where trials are counted."""
        return 0.0 if self.in_trials else self.total * PLAY_OFF_SHARE

    def record(self, trial_s: float, *, counts: bool = True) -> None:
        """Takes note of a trial of `trial_s` seconds, of this run or an earlier one.

        Args:
            trial_s: What it took when it was measured, though a store may have served it since.
            counts: Whether it is one of the budget's; the default's is not.
        """
        self._seconds.append(trial_s)
        self.trials += counts

    def needed_s(self, predicted_s: float = 0.0) -> float:
        """Returns the seconds that one more trial and the play-off are expected to take.

        Args:
            predicted_s: What the trial is expected to take, if that is more than the median so far.
        """
        typical = statistics.median(self._seconds) if self._seconds else 0.0
        return max(typical, predicted_s) + self.play_off_s

    def affords(self, predicted_s: float = 0.0) -> bool:
        """Whether one more trial fits, with the play-off afterwards; `predicted_s` as in `needed_s`."""
        return self.trials < self.total if self.in_trials else self.left_s > self.needed_s(predicted_s)

    def describe(self) -> str:
        """Returns what is left, for people."""
        if self.in_trials:
            return f"{count(max(round(self.total) - self.trials, 0), 'trial')} left"
        return f"{format_duration(max(self.left_s, 0))} left"

    def describe_end(self, predicted_s: float = 0.0) -> str:
        """Returns why it affords no more, for people; `predicted_s` as in `needed_s`."""
        if self.in_trials or self.left_s <= 0:
            return "the budget is spent"
        return (
            f"{self.describe()}, a third of the budget is kept for the play-off, and another trial is expected to "
            f"take {format_duration(self.needed_s(predicted_s) - self.play_off_s)}"
        )

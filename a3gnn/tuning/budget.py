"""How much a tune may still measure."""

from __future__ import annotations

import statistics
import time

from a3gnn.units import count, format_duration


class Budget:
    """A number of probes, or seconds of which the last are kept for the verification.

    Args:
        total: Seconds (float) or probes (int).
        spent_s: Seconds that an interrupted run of the same tune has spent.
        probes: Probes that it has done.
    """

    def __init__(self, total: float | int, spent_s: float = 0.0, probes: int = 0) -> None:
        self.total = total
        self.probes = probes
        self._start = time.monotonic() - spent_s
        self._trials: list[float] = []
        self._whole_trial_s = 0.0

    @property
    def in_probes(self) -> bool:
        """Whether probes are counted, not seconds."""
        return isinstance(self.total, int)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the tune started, those of an interrupted run included."""
        return time.monotonic() - self._start

    @property
    def left_s(self) -> float:
        """Seconds left; infinite where probes are counted."""
        return float("inf") if self.in_probes else self.total - self.elapsed_s

    def record(self, trial_s: float) -> None:
        """Counts one probe that took `trial_s` seconds."""
        self.probes += 1
        self._trials.append(trial_s)

    def learn(self, trial_s: float) -> None:
        """Takes note of what a trial that is no probe took: the default's, which trains for its accuracy."""
        self._trials.append(trial_s)
        self._whole_trial_s = trial_s

    def affords(self, predicted_s: float = 0.0) -> bool:
        """Whether one more probe fits, with room to verify the choice afterwards.

        Args:
            predicted_s: What the probe is expected to take, if that is more than the median so far.
        """
        if self.in_probes:
            return self.probes < self.total
        typical = statistics.median(self._trials) if self._trials else 0.0
        return self.left_s > max(typical, predicted_s) + max(typical, self._whole_trial_s)

    def describe(self) -> str:
        """Returns what is left, for people."""
        if self.in_probes:
            return f"{count(round(self.total) - self.probes, 'probe')} left"
        return f"{format_duration(max(self.left_s, 0))} left"

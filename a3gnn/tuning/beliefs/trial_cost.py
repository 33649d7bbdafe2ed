"""`TrialCost`: what a trial is expected to take, by those so far."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple, Self

from a3gnn.tuning.study.history import History

#: Seconds that a trial takes beside its training and timing, before any was measured: its process, the graph, the
#: first mini-batches. Guess.
_START_S = 2.0


class TrialCost(NamedTuple):
    """What trials of a tune take.

    Attributes:
        around_s: Seconds of a trial without its curve: its process, the graph, warm-up and timed windows.
        eval_share: Seconds of evaluation per second of a curve's training.
    """

    around_s: float
    eval_share: float = 0.0

    @classmethod
    def of(cls, history: History) -> Self:
        """Returns what those of `history` that succeeded took, the median; a guess before there is one."""
        measured = history.measured()
        if not measured:
            return cls(history.study.plan.timed_seconds + _START_S)
        trained = sum(one.metrics.curve_train_seconds for one in measured)
        evaluated = sum(one.metrics.curve_eval_seconds for one in measured)
        around = (
            one.trial.measurement.seconds - one.metrics.curve_train_seconds - one.metrics.curve_eval_seconds
            for one in measured
        )
        return cls(max(median(around), 0.0), evaluated / trained if trained else 0.0)

    def seconds(self, trained_s: float) -> float:
        """Returns the seconds of a trial that trains its curve for `trained_s` seconds."""
        return self.around_s + trained_s * (1 + self.eval_share)

"""`TriedTrial`: a trial of a tune, as the callback of `tune` gets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.measurement import Failure
from a3gnn.tuning.study.history import History


@dataclass(frozen=True, slots=True)
class TriedTrial:
    """A trial of the search.

    Attributes:
        number: Number of trials after the baseline so far, this one included.
        config: What ran; `config.searched` has the values of the search that differ from the task's.
        searched: All values of the search, by name.
        figures: What was measured; None if it failed.
        failure: Why it failed; "" if it did not.
        is_best: Whether it is the best trial so far that keeps the limits.
    """

    number: int
    config: TrainConfig
    searched: dict[str, Any]
    figures: Figures | None
    failure: str
    is_best: bool

    @classmethod
    def of(cls, history: History) -> Self:
        """Returns the last trial of `history`."""
        trial, best = history.trials[-1], history.best()
        outcome, config = trial.measurement.outcome, trial.measurement.config
        values = history.space.values(config)
        return cls(
            number=history.tried,
            config=config,
            searched={knob.name: values[knob.name] for knob in history.space.searched},
            figures=history.figures(trial),
            failure=outcome.describe() if isinstance(outcome, Failure) else "",
            is_best=best is not None and best.trial is trial,
        )

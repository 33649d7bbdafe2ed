"""Which rows of the space a tune has tried."""

from __future__ import annotations

from collections.abc import Iterable

from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.tuning.history import History
from a3gnn.tuning.trial import Trial


def tried_rows(history: History) -> set[bytes]:
    """Returns the rows that were tried, as bytes."""
    return _rows(history, history.trials)


def settled_rows(history: History) -> set[bytes]:
    """Returns the rows that were tried and did not run out of memory, as bytes."""
    return _rows(history, (t for t in history.trials if not _ran_out_of_memory(t.measurement.outcome)))


def _rows(history: History, trials: Iterable[Trial]) -> set[bytes]:
    rows = (history.row(trial.measurement.config) for trial in trials)
    return {row.tobytes() for row in rows if row is not None}


def _ran_out_of_memory(outcome: Metrics | Failure) -> bool:
    return isinstance(outcome, Failure) and outcome.kind is FailureKind.OUT_OF_MEMORY

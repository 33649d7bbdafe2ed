"""The front of what a tune has measured, and the volume that it dominates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from a3gnn.figures import Figures
from a3gnn.pareto import hypervolume
from a3gnn.report.front import Front
from a3gnn.report.front_row import MeasuredConfig
from a3gnn.tuning.choice import Choice
from a3gnn.tuning.history import History

#: Why a trial is not chosen that keeps the limits.
LATE = "at the target later than the default"
#: The hypervolume's reference point is the first measurement's costs (-log2 throughput, log2 memory, -accuracy) plus
#: this. Guess.
_REFERENCE_MARGIN = np.array([3.0, 3.0, 0.1])


def measured_front(history: History, choice: Choice | None = None) -> Front:
    """Returns the front of everything that was measured, with what the play-off made of the finalists."""
    figures, notes = (choice.figures, choice.notes) if choice else ({}, {})
    trained = trained_keys(history)
    if choice is not None:  # it was trained whole
        trained.add(choice.trial.measurement.config.key())
    found = []
    for trial, _, own in history.measured():
        config = trial.measurement.config
        key = config.key()
        is_late = key not in figures and own.seconds_to_accuracy is not None and own.later_than(history.latest_s)
        found.append(
            MeasuredConfig(
                config=config,
                figures=figures.get(key, own),
                predicted=trial.predicted,
                note=notes.get(key, LATE if is_late else ""),
                in_play_off=key in figures,
                only_timed=key not in trained,
            )
        )
    chosen = choice.trial.measurement.config if choice else None
    return Front.of(found, history.objectives, chosen, _reference_seconds(history, figures))


def _reference_seconds(history: History, played_off: Mapping[str, Figures]) -> float | None:
    """Returns the seconds after which the reference reaches the target, where it may be chosen; None elsewhere."""
    reference, own = history.reference_trial, history.reference_figures
    if reference is None or own is None or not history.reference_is_alternative:
        return None
    return played_off.get(reference.measurement.config.key(), own).seconds_to_accuracy


def trained_keys(history: History) -> set[str]:
    """Returns the keys of what trained in a trial, so that its peak of memory is that of a training.

    Beside a device, whose memory timed mini-batches fill as well, that is everything; so it is where nothing trained,
    for every curve was known: then all were only timed alike.
    """
    measured = history.measured()
    everything = {one.trial.measurement.config.key() for one in measured}
    if history.objectives.has_device:
        return everything
    return {
        one.trial.measurement.config.key()
        for one in measured
        if one.metrics.curve_train_seconds > 0 or one.metrics.val_accuracy is not None
    } or everything


def measured_hypervolume(history: History) -> float:
    """Returns the volume that the feasible trials dominate, up to a reference behind the first of them."""
    kept = [one.figures for one in history.feasible()]
    if not kept:
        return 0.0
    costs = history.objectives.measured_costs(kept)
    return hypervolume(costs, costs[0] + _REFERENCE_MARGIN)

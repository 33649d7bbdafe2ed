"""The measured front of a tune, and the stored front that the predictions show."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

from a3gnn.errors import ConfigError
from a3gnn.figures import Figures
from a3gnn.learning_curve import CurveEnd, next_point
from a3gnn.option_names import flags_are_used, option
from a3gnn.prediction import Prediction
from a3gnn.report.front import Front, MeasuredConfig
from a3gnn.report.rows import REJECTED
from a3gnn.storage.atomic import write_text
from a3gnn.tuning.study.choice import Choice
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import JudgedTrial, Predicted, Trial, at_reference_pace, predicted_row

#: The file with the predicted front.
_FILE = "predicted_front.json"
#: Why a trial that keeps the limits is not chosen.
LATE = "at the target later than the baseline"


def measured_front(history: History, choice: Choice | None = None) -> Front:
    """Returns the front of all measurements, with the verification's results for the contenders.

    A configuration has one row, with its figures from the verification, or else from its last trial, converted to the
    machine's speed in the verification.
    """
    figures, notes = (choice.figures, choice.notes) if choice else ({}, {})
    chosen = choice.trial.measurement.config if choice else None
    # A choice without a verification has its figures from its trial.
    judged_last = figures or ({chosen.key(): choice.judged.figures} if choice and chosen else {})
    no_gain = choice.no_gain.config if choice and choice.no_gain else None
    reference_s = _reference_seconds(history, judged_last, notes)
    latest_s = None if reference_s is None else history.latest_s
    drift = play_off_drift(history, judged_last)
    found = []
    last = {one.trial.measurement.config.key(): one for one in history.measured()}
    for key, one in last.items():
        trial, own = one.trial, one.figures
        config = trial.measurement.config
        outside = history.row(config) is None
        why = outside_note(history) if outside else ""
        is_late = key not in figures and own.later_than(latest_s) and _is_known_late(history, one)
        found.append(
            MeasuredConfig(
                config=config,
                figures=judged_last.get(key) or at_drift(history, trial, drift).figures,
                predicted=trial.predicted,
                note=notes.get(key, why or (LATE if is_late else "")),
                in_play_off=key in figures,
                outside=outside,
                limits=history.limits(config),
            )
        )
    return Front.of(found, history.objectives, chosen, reference_s, no_gain, history.study.baseline)


def _is_known_late(history: History, one: JudgedTrial) -> bool:
    """Whether a trial that is not in time reached the target, or ended because it could not do so in `History.due_s`.

    If seconds to accuracy count, a trial that ended was too late to beat the best one, but maybe not the reference.
    """
    curve = one.metrics.curve
    if one.figures.seconds_to_accuracy is not None:
        return True
    if history.objectives.priority.time or curve is None or not curve.batches or curve.ended is not CurveEnd.SLOWER:
        return False
    return one.metrics.pace.seconds(next_point(curve.trained, curve.batches[0])) > history.due_s


def at_drift(history: History, trial: Trial, drift: float) -> JudgedTrial:
    """Returns a successful `trial` as judged at `drift`, the machine's speed over that of the reference's trial."""
    assert trial.metrics is not None, "it was measured"
    curve = history.curve(trial.measurement.config)  # a faster trial of the same learning key may have extended it
    metrics = dataclasses.replace(at_reference_pace(trial.metrics, 1 / drift), curve=curve)
    reference = None if history.reference is None else history.reference.at(drift)
    return JudgedTrial(trial, metrics, Figures.of(metrics, curve, reference))


def play_off_drift(history: History, played_off: Mapping[str, Figures]) -> float:
    """Returns the machine's speed in the verification over its speed when the reference was measured.

    Rows of the verification are at the former speed, trials at the latter. 1 if the reference was not timed again.

    Args:
        history: The trials of the tune.
        played_off: The figures from the verification, by configuration key.
    """
    reference, own = history.reference_trial, history.reference_figures
    again = None if reference is None else played_off.get(reference.measurement.config.key())
    if again is None or own is None:
        return 1.0
    return again.throughput_epochs_per_s / own.throughput_epochs_per_s


def _reference_seconds(history: History, played_off: Mapping[str, Figures], notes: Mapping[str, str]) -> float | None:
    """Returns the seconds until the reference reaches the target; None if it may not be chosen, or never does."""
    reference, own = history.reference_trial, history.reference_figures
    if reference is None or own is None or not history.reference_is_alternative:
        return None
    key = reference.measurement.config.key()
    if notes.get(key, "").startswith(REJECTED):
        return None
    return played_off.get(key, own).seconds_to_accuracy


def outside_note(history: History) -> str:
    """Returns why a configuration outside the space, as the default may be, is not chosen."""
    search = f"{option('search')}, " if history.space.searched else ""
    return f"outside what {search}{option('fix')} and {option('range' if flags_are_used() else 'ranges')} allow"


def keep_predicted_front(folder: Path, front: Prediction) -> None:
    """Writes the predicted `front`; empty if nothing is predicted to keep the limits."""
    write_text(folder / _FILE, json.dumps([predicted_row(front, row) for row in range(len(front))]))


def read_predicted_front(folder: Path) -> list[Predicted] | None:
    """Returns the predictions of the configurations on that front; None for a tune of an older version.

    Raises:
        ConfigError: The file is not such a front.
    """
    try:
        rows: list[Predicted] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder / _FILE} must be a predicted front: {error}; remove it to go on without") from error
    return rows

"""Candidates of a pick: the configurations that a tune measured, judged by a new question at one machine speed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from a3gnn.config import TrainConfig
from a3gnn.figures import Figures
from a3gnn.limits import Limits
from a3gnn.measurement import Metrics
from a3gnn.report.front import FrontRow
from a3gnn.tuning.outcome.kept_tune import KeptTune
from a3gnn.tuning.study.choice import NoGain
from a3gnn.tuning.study.drift import at_reference_pace
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.measured_front import at_drift, trained_keys
from a3gnn.tuning.study.memory_limits import memory_limits
from a3gnn.tuning.study.trial import JudgedTrial, Trial

#: Figures that depend on the target.
_SECONDS = ("seconds_to_accuracy", "seconds_low", "seconds_high", "seconds_repeats")


def candidates(tune: KeptTune, asked: History) -> list[JudgedTrial]:
    """Returns the configurations that `tune` measured, each with its best known figures, in order of first trials.

    A configuration of the play-off has its figures from there. For others the last trial counts, converted to the
    machine's speed in the play-off, so that all figures compare.

    Args:
        tune: The tune.
        asked: The tune's trials, judged by the new request.
    """
    last = {one.trial.measurement.config.key(): one.trial for one in asked.measured()}
    return [_played_off(tune, asked, trial) or at_drift(asked, trial, tune.play_off_drift) for trial in last.values()]


def limits_of(asked: History, candidate: JudgedTrial) -> Limits:
    """Returns the limits of `candidate`, which may be the default that sets the memory limit."""
    memory = memory_limits(asked, candidate.trial.measurement.config)
    limits = asked.objectives.limits
    return dataclasses.replace(memory, least_accuracy=limits.least_accuracy, metric=limits.metric)


def reference_among(tune: KeptTune, asked: History, found: Sequence[JudgedTrial]) -> JudgedTrial | None:
    """Returns the reference among `found` if it may be picked, limits aside; else None.

    It must have the default's learning key, lie inside the space, and not be rejected in the play-off.
    """
    reference = asked.reference_trial
    if reference is None or not asked.has_default_reference:
        return None
    config = reference.measurement.config
    if asked.row(config) is None or config.key() in tune.rejected:
        return None
    return next((one for one in found if one.trial.measurement.config == config), None)


def latest_seconds(tune: KeptTune, asked: History, found: Sequence[JudgedTrial]) -> float | None:
    """Returns the seconds until the reference among `found` reaches the target; None if it may not be picked."""
    own = reference_among(tune, asked, found)
    return None if own is None or limits_of(asked, own).broken_by(own.figures) else own.figures.seconds_to_accuracy


def trained_keys_of(tune: KeptTune) -> set[str]:
    """Returns the keys of configurations that trained, in a trial or the play-off; other peaks are too small."""
    no_gain = no_gain_of(tune)
    return trained_keys(tune.history) | set(tune.timed_again) | ({no_gain.key()} if no_gain else set())


def no_gain_of(tune: KeptTune) -> TrainConfig | None:
    """Returns the configuration that the default was chosen over for lack of a measurable gain, or None."""
    kept = None if tune.tuned is None else tune.tuned.no_gain
    return None if kept is None else NoGain.from_dict(kept).config


def _played_off(tune: KeptTune, asked: History, trial: Trial) -> JudgedTrial | None:
    row = tune.played_off.get(trial.measurement.config.key())
    if row is None:
        return None
    metrics = tune.timed_again.get(row.config.key()) or _of_finalist(tune, trial, row)
    figures = row.measured
    target = asked.objectives.limits.least_accuracy
    if target != tune.front.target and asked.reference is not None:  # only the seconds depend on it
        curve = asked.curve(row.config) if metrics.curve is None else metrics.curve
        anew = Figures.of(metrics, curve, asked.reference)
        figures = dataclasses.replace(figures, **{name: getattr(anew, name) for name in _SECONDS})
    return JudgedTrial(trial, metrics, figures)


def _of_finalist(tune: KeptTune, trial: Trial, row: FrontRow) -> Metrics:
    """Returns the metrics of a finalist that was not chosen: its trial, with throughput and peaks from its rounds."""
    assert trial.metrics is not None, "it was measured"
    figures, metrics = row.measured, at_reference_pace(trial.metrics, 1 / tune.play_off_drift)
    return dataclasses.replace(
        metrics,
        throughput_epochs_per_s=figures.throughput_epochs_per_s,
        throughput_replicates=(figures.throughput_low, figures.throughput_high),
        peak_host_bytes=figures.peak_host_bytes,
        peak_device_bytes=figures.peak_device_bytes,
        curve=tune.history.curve(row.config),
    )

"""The numbers by which the page's picker chooses: those of `a3gnn.tuning.outcome.pick`, which `a3gnn pick` asks."""

from __future__ import annotations

import dataclasses
from typing import Any

from a3gnn.objectives import DOUBLINGS, MIN_WEIGHT
from a3gnn.page.stored_study import Measured
from a3gnn.tuning.memory_limits import training_limits
from a3gnn.tuning.outcome.candidates import limits_of, reference_among
from a3gnn.tuning.trial import JudgedTrial


def law_view(measured: Measured) -> dict[str, Any]:
    """Returns the study's priority, limits and choice, the law's constants, and the candidates; sizes are in bytes."""
    tune, history = measured.tune, measured.history
    wanted, reference, request = history.objectives, history.reference, history.study.request
    chosen = None if tune.tuned is None else tune.tuned.config.key()
    found = [_candidate(measured, index, one) for index, one in measured.candidates.items()]
    return {
        "priority": dataclasses.asdict(wanted.priority),
        "memory": wanted.memory,
        "has_device": wanted.has_device,
        "host_memory_limit": request.host_memory_limit,
        "least": wanted.limits.least_accuracy,
        "reference_quality": None if reference is None else reference.val_accuracy,
        "metric": wanted.metric.to_dict(),
        "larger_is_better": wanted.metric.larger_is_better,
        "doublings": DOUBLINGS.tolist(),
        "min_weight": MIN_WEIGHT,
        "reference": _reference(measured),
        "choice": next((i for i in measured.candidates if measured.trials[i].measurement.config.key() == chosen), None),
        "candidates": found,
    }


def _reference(measured: Measured) -> int | None:
    """Returns the index of the reference among the candidates, later than which nothing may be where speed decides.

    It may break a limit: whether it keeps those that are asked for is seen when they are (`latest` in law.js).
    """
    found = measured.candidates
    reference = reference_among(measured.tune, measured.history, list(found.values()))
    return next((i for i, one in found.items() if one is reference), None)


def _candidate(measured: Measured, index: int, one: JudgedTrial) -> dict[str, Any]:
    history, (trial, metrics, figures) = measured.history, one
    config = trial.measurement.config
    curve = history.curve(config) if metrics.curve is None else metrics.curve
    kept = training_limits(history, config, figures)
    return {
        "index": index,
        "may_be_chosen": history.row(config) is not None and config.key() not in measured.tune.rejected,
        "throughput_epochs_per_s": figures.throughput_epochs_per_s,
        "peak_host_bytes": figures.peak_host_bytes,
        "peak_device_bytes": figures.peak_device_bytes,
        "quality": figures.val_accuracy,
        "seconds": figures.seconds_to_accuracy,
        "seconds_range": None if figures.seconds is None else figures.seconds.to_dict(),
        "setup_s": metrics.pace.setup_s,
        "batches_per_s": metrics.pace.batches_per_s,
        "batches": [] if curve is None else list(curve.batches),
        "qualities": [] if curve is None else list(curve.val_accuracy),
        "limits": _sizes(limits_of(history, one)),
        "training_limits": _sizes(kept),
        "predicted": trial.predicted,
        "measured": metrics.to_dict(),
    }


def _sizes(limits: Any) -> dict[str, int | None]:
    return {"host_bytes": limits.host_bytes, "device_bytes": limits.device_bytes}

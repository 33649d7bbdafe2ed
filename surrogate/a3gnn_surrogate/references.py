"""Accuracies of the default configuration, from which drops are counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from a3gnn.measurement import Measurement
from a3gnn_surrogate.accuracy import is_reference
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.known_curves import KnownCurves
from a3gnn_surrogate.points import setting_key, task_graph_key


class ReferenceKey(NamedTuple):
    """What two accuracies after a fixed number of epochs must share to be compared.

    Attributes:
        task_and_graph: Their `task_graph_key`.
        accuracy_budget: Epochs that the trials were asked to train.
    """

    task_and_graph: str
    accuracy_budget: int


def reference_accuracies(measurements: Iterable[Measurement]) -> dict[ReferenceKey, float]:
    """Returns the validation accuracies from which drops after a fixed number of epochs are counted.

    Each is the mean of the rows that train on the default configuration's mini-batches, or where there are none, the
    median of all rows. Rows of measurement version 3 have no such accuracy: their curves are in `KnownCurves`.
    """
    default: dict[ReferenceKey, list[float]] = {}
    every: dict[ReferenceKey, list[float]] = {}
    for row in measurements:
        if row.metrics is None or row.metrics.val_accuracy is None or not np.isfinite(row.metrics.val_accuracy):
            continue
        key = ReferenceKey(task_graph_key(row.setting.task, row.setting.graph), row.accuracy_budget)
        every.setdefault(key, []).append(row.metrics.val_accuracy)
        if is_reference(as_columns([row.config]), row.setting.graph)[0]:
            default.setdefault(key, []).append(row.metrics.val_accuracy)
    return {key: float(np.mean(default[key])) if key in default else float(np.median(every[key])) for key in every}


def latest_reference_accuracies(measurements: Sequence[Measurement]) -> dict[str, float]:
    """Returns the default's validation accuracy by `task_graph_key`.

    That of a learning curve where there is one; otherwise, of several numbers of epochs, that after the most.
    """
    by_budget = sorted(reference_accuracies(measurements).items(), key=lambda item: item[0].accuracy_budget)
    found = {key.task_and_graph: accuracy for key, accuracy in by_budget}
    for group in by_setting(measurements).values():
        reference = KnownCurves.of(group).reference
        if reference is not None:
            found[task_graph_key(group[0].setting.task, group[0].setting.graph)] = reference.val_accuracy
    return found


def by_setting(measurements: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """Returns the measurements of each setting, by `setting_key`, in their order."""
    groups: dict[str, list[Measurement]] = {}
    for row in measurements:
        groups.setdefault(setting_key(row.setting), []).append(row)
    return groups

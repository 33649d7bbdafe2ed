"""`Replay`: serves trials from stored rows, through the protocol of real ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from a3gnn.errors import StoreError
from a3gnn.learning_curve import NO_CURVE
from a3gnn.measurement import Failure, Measurement, Metrics
from a3gnn.profiling.request import CurveRules, TrialRequest


class Replay:
    """Answers trials from stored measurements: no graph, no training, no waiting.

    Args:
        measurements: The rows to serve. If two are for the same trial, the later one counts.
    """

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self._outcomes = {(m.config_key, *m.setting.key()): m.outcome for m in measurements}

    def run(self, request: TrialRequest) -> Metrics | Failure:
        """Returns the stored outcome, with the learning curve that the request's plan would have trained.

        A row's curve that is too short is returned whole. Rows of measurement version 2, which have no curve, are
        returned as they are.

        Raises:
            StoreError: The trial is not stored.
        """
        key = (request.config.key(), *request.setting.key())
        if key not in self._outcomes:
            graph = request.setting.graph.name
            same = sum(stored[1:] == key[1:] for stored in self._outcomes)
            raise StoreError(
                f"a replay needs measured trials, but none of {len(self._outcomes)} stored rows has {request.config}; "
                f"{same} of them are for this task on graph {graph!r} and this hardware; measure it first"
            )
        outcome = self._outcomes[key]
        return as_asked(outcome, request) if isinstance(outcome, Metrics) else outcome

    def close(self) -> None:
        """Does nothing: there are no resources to release."""


def as_asked(metrics: Metrics, request: TrialRequest) -> Metrics:
    """Returns stored `metrics` as a trial of `request` would have found them."""
    if metrics.curve is None:
        return metrics
    plan = request.plan.curve
    if plan is None:
        return dataclasses.replace(
            metrics,
            curve=None,
            test_accuracy=None,
            curve_train_seconds=0.0,
            curve_eval_seconds=0.0,
            curve_first=None,
            rehearsal_seconds=0.0,
        )
    known = NO_CURVE if plan.whole else request.known_curve or NO_CURVE
    longest = max(metrics.curve, known, key=lambda curve: curve.trained)
    first = longest.batches[0] if longest.batches else metrics.curve_first or 1
    trained = CurveRules.of(plan, metrics).cut(longest, first) or longest
    curve = trained if trained.trained > known.trained else dataclasses.replace(known, ended=trained.ended)
    return dataclasses.replace(metrics, curve=curve, test_accuracy=metrics.test_accuracy if plan.tests else None)

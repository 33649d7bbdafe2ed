"""When a learning curve is expected to stop improving, and at what quality, learned from the shipped measurements."""

from __future__ import annotations

from functools import cache

from a3gnn.learning_curve import LearningCurve
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn_surrogate.curve_ends import LEAST_POINTS, CurveEnds, Extrapolated, Sample, samples
from a3gnn_surrogate.curve_stops import CurveStops, parts


def expected_stop(curve: LearningCurve) -> float:
    """Returns the mini-batches after which a curve that still improves is expected to have stopped.

    Without shipped measurements, it is the soonest stop.
    """
    fit = _stops()
    return curve.soonest_stop() if fit is None else fit.predict(curve)


def expected_end(curve: LearningCurve, batches: float) -> Extrapolated | None:
    """Returns the best quality that the default's `curve` will have had after `batches` mini-batches.

    None without shipped measurements, or if the curve has too few points.
    """
    fit = _ends() if len(curve.batches) >= LEAST_POINTS and batches > curve.trained else None
    return None if fit is None else fit.predict(curve, batches)


@cache
def _curves() -> tuple[Sample, ...]:
    return tuple(samples(shipped_measurements()))


@cache
def _stops() -> CurveStops | None:
    known = parts(_curves())
    return CurveStops.of(known) if known else None


@cache
def _ends() -> CurveEnds | None:
    return CurveEnds.of(_curves()) if len({sample.graph for sample in _curves()}) > 1 else None

"""When a learning curve is expected to stop improving, and at what quality, learned from the shipped measurements."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from a3gnn.learning_curve import LearningCurve
from a3gnn.profiling.store.jsonl import shipped_profiles
from a3gnn_surrogate.curve_ends import LEAST_POINTS, CurveEnds, CurveStops, Extrapolated

#: The file of the shipped profiles that has the fits to their curves (`benchmarks/curve_fits.py`).
CURVES = "curves.json"


def expected_stop(curve: LearningCurve) -> float:
    """Returns the mini-batches after which a curve that still improves is expected to have stopped.

    Without shipped fits, it is the soonest stop.
    """
    fit = _stops()
    return curve.soonest_stop() if fit is None else fit.predict(curve)


def expected_end(curve: LearningCurve, batches: float) -> Extrapolated | None:
    """Returns the best quality that the default's `curve` will have had after `batches` mini-batches.

    None without shipped fits, if the curve has too few points, or if perfect quality is inside the interval,
    which then tells nothing.
    """
    fit = curve_ends() if len(curve.batches) >= LEAST_POINTS and batches > curve.trained else None
    found = None if fit is None else fit.predict(curve, batches)
    return None if found is None or round(found.high, 6) >= 1 else found


@cache
def _shipped() -> dict[str, Any]:
    """Returns the shipped fits; empty without them."""
    folder = shipped_profiles()
    file = None if folder is None else folder / CURVES
    return json.loads(file.read_text(encoding="utf-8")) if file and file.is_file() else {}


@cache
def _stops() -> CurveStops | None:
    return CurveStops(**_shipped()["stops"]) if _shipped() else None


@cache
def curve_ends() -> CurveEnds | None:
    """Returns the fit that predicts how curves end; None without shipped fits."""
    return CurveEnds.from_dict(_shipped()["ends"]) if _shipped() else None

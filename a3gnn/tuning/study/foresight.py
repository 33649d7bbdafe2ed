"""When a learning curve is expected to stop improving, and at what quality, learned from the shipped measurements."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from functools import cache
from typing import Any

from a3gnn.learning_curve import LearningCurve
from a3gnn.measurement import Measurement
from a3gnn.profiling.store.jsonl import shipped_profiles
from a3gnn_surrogate.curve_ends import LEAST_POINTS, CurveEnds, CurveStops, Extrapolated, Sample, parts
from a3gnn_surrogate.known_curves import KnownCurves
from a3gnn_surrogate.rows import by_setting

#: The file of the shipped profiles that has their `curve_fits`.
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


def samples(measurements: Iterable[Measurement]) -> list[Sample]:
    """Returns the curves of `measurements`, the longest of each learning key of a setting."""
    found = []
    for rows in by_setting(measurements).values():
        curves = KnownCurves.of(rows)
        own = None if curves.default is None else curves.default.knobs
        for known in curves.curves:
            default = curves.default.curve if curves.default and known.knobs != own else None
            found.append(Sample(rows[0].setting.graph.fingerprint, known.curve, default))
    return found


def curve_fits(measurements: Iterable[Measurement]) -> dict[str, Any]:
    """Returns the fits to the curves of `measurements` as JSON types: the content of `CURVES`.

    Raises:
        UsageError: Too few curves stopped improving, or fewer than two graphs have one.
    """
    curves = samples(measurements)
    stops = CurveStops.of(parts(curves))
    return {"ends": dataclasses.asdict(CurveEnds.of(curves)), "stops": dataclasses.asdict(stops)}


@cache
def _shipped() -> dict[str, Any]:
    """Returns the shipped `curve_fits`, which take seconds to fit; empty without them."""
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

"""Trials by formulas, through the protocol of real ones."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

from a3gnn.learning_curve import CurveEnd, LearningCurve, next_point
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.profiling.replay import as_asked
from a3gnn.profiling.request import TrialRequest
from a3gnn.tuning.beliefs import importance
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.run import session
from a3gnn_surrogate import residual
from tests.shipped import shipped

MiB = 2**20
#: A hundred configurations and more, in which every kind of knob is left.
SMALL_SPACE = {
    "batch_size": 1024,
    "bias_rate": 1.0,
    "cache_bytes": 0,
    "seed_order": "random",
    "num_workers": 2,
    "seed_fanout": None,
    "deep_fanout": None,
    "input_aggregation": "sampled",
    "feature_dtype": "float32",
    "learning_rate_scale": 1.0,
}
#: Of the shipped measurements, so many: all of three graphs.
_ROWS = 45


def quick_changes(trees: tuple[int, ...]) -> Iterator[tuple[Any, str, Any]]:
    """Yields what makes a tune by formulas quick, as arguments of `setattr`: fits and drawings are most of it.

    The corpus is a part of the shipped one, fits have one of the numbers of `trees`, knob importance is computed from
    few configurations (from 1,000 it takes up to two thirds of such a tune's seconds), and front.png is empty.
    """
    part = shipped(_ROWS)
    yield session, "shipped_measurements", lambda typed: part
    yield residual, "_NUM_TREES", trees
    yield importance, "_SAMPLE_SIZE", 50
    yield TuneResult, "plot", lambda self: SimpleNamespace(savefig=lambda file, dpi: file.touch())


def learned(accuracy: float) -> LearningCurve:
    """Returns a curve that rises to `accuracy` in three points, ten mini-batches apart, and stays there for long."""
    counts = [10]
    while len(counts) < 60:
        counts.append(next_point(counts[-1], 10))
    risen = tuple(accuracy * min(1.0, (point + 1) / 3) for point in range(len(counts)))
    return LearningCurve(tuple(counts), risen, CurveEnd.BUDGET)


@cache
def rising(quality: float) -> LearningCurve:
    """Returns a curve that approaches `quality` and never stops improving."""
    counts = [10]
    while counts[-1] < 100_000:
        counts.append(next_point(counts[-1], 10))
    return LearningCurve(tuple(counts), tuple(quality * count / (count + 50) for count in counts), CurveEnd.BUDGET)


def quality_of(values: dict[str, Any]) -> float:
    """Returns the end of a model: best with 4 layers, batch norm, width 128 and dropout .5."""
    found = 0.9 - 0.02 * abs(values.get("layers", 2) - 4) + 0.01 * (values.get("norm") == "batch")
    width, dropout = values.get("hidden_channels", 16), values.get("dropout", 0.5)
    return found - 0.02 * abs(width.bit_length() - 8) - 0.02 * abs(dropout - 0.5)


def by_quality(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
    """Returns a trial whose model decides its quality and, if it is wide, its memory."""
    values = dict(request.config.searched)
    size = 300 * MiB if values.get("hidden_channels", 0) < 256 else 900 * MiB
    return dataclasses.replace(metrics, curve=rising(quality_of(values)), peak_host_bytes=size)


class Formulas:
    """A made-up machine: larger batches, RAM, workers and parts are fast; RAM takes memory, and parts accuracy.

    An epoch of the default takes a second, and has ten mini-batches.

    Args:
        make_metrics: The fixture.
        alter: Is given each trial's request, its metrics, and how often its configuration was run before; what it
            returns is the outcome.
    """

    def __init__(
        self,
        make_metrics: Callable[..., Metrics],
        alter: Callable[[TrialRequest, Metrics, int], Metrics | Failure] = lambda request, metrics, before: metrics,
    ) -> None:
        self.ran: list[TrialRequest] = []
        self.closed = False
        self.enforces_limits = True
        self._make, self._alter = make_metrics, alter
        self._before: Counter[str] = Counter()

    def run(self, request: TrialRequest) -> Metrics | Failure:
        config, limit = request.config, request.plan.host_limit_bytes
        parts = math.log2(config.num_partitions)
        speed = (1 + 0.2 * parts) * math.log2(config.batch_size) / 10
        speed *= {"sequential": 1.0, "mode1": 1.3, "mode2": 1.2}[config.parallel_mode]
        speed *= 1.0 if config.feature_tier == "ram" else 0.8
        host = 260 * MiB + config.batch_size * 40_000 // (1 + config.num_partitions) + config.cache_bytes
        host += 40 * MiB * (config.feature_tier == "ram") + 10 * MiB * (config.parallel_mode != "sequential")
        metrics = self._make(speed, host, 0.0)
        metrics = dataclasses.replace(metrics, curve=learned(0.9 - 0.02 * parts), test_accuracy=0.5)
        found = self._alter(request, metrics, self._before[config.key()])
        self._before[config.key()] += 1
        self.ran.append(request)
        if self.enforces_limits and isinstance(found, Metrics) and limit is not None and found.peak_host_bytes > limit:
            detail = f"passed the limit of {limit} bytes"
            return Failure(FailureKind.OUT_OF_MEMORY, detail, found.peak_host_bytes, float(limit))
        return as_asked(found, request) if isinstance(found, Metrics) else found

    @property
    def explored(self) -> list[TrialRequest]:
        """The trials that were run to explore: the references, and what was proposed."""
        return [one for one in self.ran if one.plan.curve is not None and not one.plan.curve.whole]

    @property
    def whole(self) -> list[TrialRequest]:
        """The verification's whole trainings."""
        return [one for one in self.ran if one.plan.curve is not None and one.plan.curve.whole]

    @property
    def timed(self) -> list[TrialRequest]:
        """The verification's timed trials."""
        return [one for one in self.ran if one.plan.curve is None]

    def close(self) -> None:
        self.closed = True

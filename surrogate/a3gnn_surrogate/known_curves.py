"""`KnownCurves`: the learning curves of a setting, exact as far as they were trained.

Beyond its end, a curve is extended by the default's. If it takes n mini-batches to an accuracy that the default reaches
after m, it is assumed to take n / m times as many as the default all the way. Curves that miss a target fall further
behind: they reach it `LATER` times as late in the median (`python -m benchmarks.curve_ends --late`). Their accuracy was
overestimated by 2.9 points, with curves of the shipped rows cut at half their mini-batches to the target (`python -m
benchmarks.unfinished_curves` at commit 10d4978).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from a3gnn._fields import Stored, from_fields
from a3gnn.config import KNOBS, SEARCHED, TrainConfig, number_of
from a3gnn.figures import Figures, Reference
from a3gnn.knobs import NEVER
from a3gnn.learning_curve import LearningCurve, Pace, next_point
from a3gnn.measurement import Measurement, Metrics
from a3gnn.task import Values, as_values
from a3gnn_surrogate.columns import Array, Columns, as_columns
from a3gnn_surrogate.physics.accuracy import is_reference

#: The knobs that decide what is learned.
_LEARNING = tuple(knob for knob in KNOBS if knob.learns != NEVER)
#: A row's target is the default's accuracy less this, a share of 1: twice what `a3gnn tune` allows by default,
#: because the shipped curves are short. The documented errors were measured with it.
_MAX_DROP = 0.01
#: A curve that has missed a target takes so many times the mini-batches that it would if it went on as the default's.
#: The fit is by maximum likelihood, on parts of curves of 48 profiled graphs; curves that end below the target count as
#: censored (`python -m benchmarks.curve_ends --late`).
LATER = 1.6
#: No configuration is assumed to need more budgets: one that learns nothing would outweigh all others. Guess.
_MOST_BUDGETS = 10.0


@dataclass(frozen=True, slots=True)
class KnownCurve:
    """The curve of one learning key."""

    knobs: tuple[Any, ...]  # values of the knobs that decide what is learned, as `learning_values` gives them
    curve: LearningCurve  # the longest trained curve; it has points
    batches_per_epoch: int  # mini-batches per epoch
    setup_s: float  # seconds before the first mini-batch
    searched: Values = ()  # values of a search

    @property
    def key(self) -> tuple[tuple[Any, ...], Values]:
        """What decides what is learned, as `learning_key` gives it."""
        return self.knobs, self.searched

    def pace(self, throughput: float) -> Pace:
        """Returns the pace at a throughput in epochs per second."""
        return Pace(self.setup_s, throughput * self.batches_per_epoch)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        fields = {name: getattr(self, name) for name in KnownCurve.__slots__}
        named = {knob.name: value for knob, value in zip(_LEARNING, self.knobs, strict=True)}
        return fields | {"knobs": named, "curve": self.curve.to_dict(), "searched": dict(self.searched)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the curve of `to_dict`."""
        knobs = tuple(fields["knobs"][knob.name] for knob in _LEARNING)
        curve = LearningCurve.from_dict(
            {**fields["curve"], **{name: tuple(fields["curve"][name]) for name in ("batches", "val_accuracy")}}
        )
        searched = as_values(fields.get("searched", ()))
        return cls(knobs, curve, fields["batches_per_epoch"], fields["setup_s"], searched)


@lru_cache(maxsize=4096)  # each fit of a tune asks for all rows of the corpus
def learning_values(config: TrainConfig) -> tuple[Any, ...]:
    """Returns the coded values that decide the mini-batches of `config`; equal learning keys have equal values."""
    values = config.learning_values()
    return tuple(knob.coded(values[knob.name]) for knob in _LEARNING)


def learning_key(config: TrainConfig) -> tuple[tuple[Any, ...], Values]:
    """Returns `learning_values`, and the values of a search, which all decide what is learned."""
    return learning_values(config), config.searched


class Learnt(NamedTuple):
    """What a row learned; NaN if the value is censored or the row has no curve."""

    val_accuracy: float  # validation accuracy at equal training time, in [0, 1]
    seconds: float  # seconds to the target
    expected_accuracy: float  # `val_accuracy`, or else the expectation from the curve
    expected_s: float  # `seconds`, or else the expectation from the curve


@dataclass(frozen=True, slots=True)
class KnownCurves:
    """The curves of a setting, and the default configuration's.

    Attributes:
        curves: One per learning key.
        default: The default's curve, or that of a configuration that trains on the same mini-batches; None if neither
            was trained.
        throughput: That configuration's epochs per second.
        reference: What that configuration reached.
    """

    curves: tuple[KnownCurve, ...] = ()
    default: KnownCurve | None = None
    throughput: float = 0.0
    reference: Reference | None = None

    @classmethod
    def of(cls, measurements: Sequence[Measurement], reference: Reference | None = None) -> Self:
        """Returns the curves of the `measurements` of one setting.

        Args:
            measurements: Measurements of one setting.
            reference: The reference that judges them; by default, what the first row of the default configuration
                reached. A target that the default's curve misses is replaced by the usual one.
        """
        by_key: dict[tuple[tuple[Any, ...], Values], list[Metrics]] = {}
        for row in _with_curve(measurements):
            by_key.setdefault(learning_key(row.config), []).append(_metrics(row))
        curves = tuple(_longest(key, metrics) for key, metrics in by_key.items())
        default = _default_row(measurements)
        if default is None:
            return cls(curves)
        metrics, key = _metrics(default), learning_key(default.config)
        known = _longest(key, [metrics])
        throughput = metrics.throughput_epochs_per_s
        if reference is not None:
            known = next(curve for curve in curves if curve.key == key)
            if known.curve.first_reaching(reference.target) is None:
                reference = dataclasses.replace(reference, target=reference.val_accuracy - _MAX_DROP)
            return cls(curves, known, throughput, reference)
        return cls(curves, known, throughput, Reference.of(metrics, known.curve, _MAX_DROP))

    def learned(self, measurements: Sequence[Measurement]) -> list[Learnt]:
        """Returns what each of the setting's rows learned, at its own pace, by the known curve of its key."""
        by_key = {known.key: known for known in self.curves}
        return [_learnt(row.metrics, by_key.get(learning_key(row.config)), self) for row in measurements]

    def default_seconds(self, target: float | None = None) -> float | None:
        """Returns the default's seconds to `target`, by default the reference's; None if unknown."""
        if self.default is None or self.reference is None:
            return None
        reached = self.default.curve.first_reaching(self.reference.target if target is None else target)
        return None if reached is None else self.default.pace(self.throughput).seconds(reached)

    def positions(self, columns: Columns) -> NDArray[np.int64]:
        """Returns the position in `curves` of each configuration's curve, int64, shape (n_configs,); -1 if unknown."""
        codes: NDArray[np.int64] = np.zeros(len(columns["batch_size"]), np.int64)
        known: NDArray[np.int64] = np.zeros(len(self.curves), np.int64)
        if not self.curves:
            return codes - 1
        for column, own in self._learning(columns):
            values = list(dict.fromkeys(own))
            code = np.full(len(codes), len(values))
            for index, value in enumerate(values):
                code[column == value] = index
            codes = codes * (len(values) + 1) + code
            known = known * (len(values) + 1) + np.array([values.index(one) for one in own])
        order = known.argsort()
        nearest = order[np.minimum(np.searchsorted(known, codes, sorter=order), len(order) - 1)]
        return np.where(known[nearest] == codes, nearest, -1)

    def _learning(self, columns: Columns) -> Iterator[tuple[NDArray[Any], list[Any]]]:
        """Yields each column that decides what is learned, and its values in `curves`."""
        for knob, one in enumerate(_LEARNING):
            column = np.where(one.learns.holds(columns), columns[one.name], one.coded(one.default))
            yield column, [curve.knobs[knob] for curve in self.curves]
        searched = [number_of(curve.searched) for curve in self.curves]
        if SEARCHED in columns or any(searched):
            yield columns.get(SEARCHED, np.zeros(len(columns["batch_size"]), np.int64)), searched

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return {
            "curves": [known.to_dict() for known in self.curves],
            "default": None if self.default is None else self.default.to_dict(),
            "throughput": self.throughput,
            "reference": None if self.reference is None else dataclasses.asdict(self.reference),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the curves of `to_dict`."""
        return cls(
            curves=tuple(KnownCurve.from_dict(known) for known in fields["curves"]),
            default=None if fields["default"] is None else KnownCurve.from_dict(fields["default"]),
            throughput=fields["throughput"],
            reference=None if fields["reference"] is None else from_fields(Reference, fields["reference"]),
        )


def _with_curve(measurements: Sequence[Measurement]) -> list[Measurement]:
    return [row for row in measurements if row.metrics and row.metrics.curve and row.metrics.curve.batches]


def _metrics(measurement: Measurement) -> Metrics:
    assert measurement.metrics is not None
    return measurement.metrics


def _longest(key: tuple[tuple[Any, ...], Values], rows: Sequence[Metrics]) -> KnownCurve:
    """Returns the longest curve of `rows` of one learning key, which all have a curve."""
    curves = [metrics.curve for metrics in rows if metrics.curve is not None]
    longest = max(curves, key=lambda curve: curve.trained)
    setup = float(np.median([metrics.setup_seconds for metrics in rows]))
    return KnownCurve(key[0], longest, rows[0].batches_per_epoch, setup, key[1])


def _default_row(measurements: Sequence[Measurement]) -> Measurement | None:
    """Returns the default configuration's first row with a curve, or else that of one that trains as it does.

    The first row's curve ends with the default's budget; a later one of the same key may have been trained further.
    """
    rows = _with_curve(measurements)
    if not rows:
        return None
    alike = is_reference(as_columns([row.config for row in rows]), rows[0].setting.graph)
    same = [row for row, is_alike in zip(rows, alike, strict=True) if is_alike]
    own = [row for row in same if row.config == TrainConfig()]
    return next(iter([*own, *same]), None)


def _learnt(metrics: Metrics | None, known: KnownCurve | None, curves: KnownCurves) -> Learnt:
    """Returns what a row learned from its `metrics`, the curve of its key and the `curves` of its setting."""
    reference, default = curves.reference, curves.default
    if metrics is None or known is None or reference is None or default is None:
        return Learnt(np.nan, np.nan, np.nan, np.nan)
    figures = Figures.of(metrics, known.curve, reference)
    accuracy, seconds = figures.val_accuracy, figures.seconds_to_accuracy
    censored = accuracy is None or not (figures.complete or seconds is not None)
    exact = np.nan if censored or accuracy is None else accuracy
    pace, curve, expected = metrics.pace, known.curve, exact
    if not figures.complete:
        within = max(pace.batches(reference.budget_s), curve.trained)
        expected = expected_accuracy(curve, default.curve, within)
    if seconds is not None:
        return Learnt(exact, seconds, expected, seconds)
    expected_s = pace.seconds(LATER * expected_batches(curve, default.curve, reference.target))
    return Learnt(exact, np.nan, expected, min(expected_s, _MOST_BUDGETS * reference.budget_s))


def expected_batches(curve: LearningCurve, default: LearningCurve, target: float) -> float:
    """Returns the mini-batches after which `curve` reaches `target`, which it has not, if it goes on as the default's.

    Args:
        curve: A trained curve with points.
        default: The default configuration's curve on the same task, which reaches `target`.
        target: Validation accuracy, in [0, 1].

    Returns:
        At least the mini-batches of the next point; infinite if nothing is learned yet.
    """
    alike = _reaching(default, max(curve.val_accuracy))
    least = next_point(curve.trained, curve.batches[0])
    return max(curve.trained * _reaching(default, target) / alike, least) if alike > 0 else float("inf")


def expected_accuracy(curve: LearningCurve, default: LearningCurve, batches: float) -> float:
    """Returns the best validation accuracy in [0, 1] that `curve` is expected to have after `batches` mini-batches.

    It is at least the best so far, and at most what the default's curve reached, if that is more. `batches` are at
    least those that `curve` was trained for; other arguments are as in `expected_batches`.
    """
    best = max(curve.val_accuracy)
    if best >= max(default.val_accuracy):
        return best
    counts, rising = _rising(default)
    return max(best, float(np.interp(_reaching(default, best) * batches / curve.trained, counts, rising)))


def _reaching(curve: LearningCurve, accuracy: float) -> float:
    """Returns the mini-batches after which `curve` reaches `accuracy`, interpolating its best so far."""
    counts, rising = _rising(curve)
    after = int(np.searchsorted(rising, accuracy))
    if after == 0:
        return 0.0
    if after == len(rising):
        return float(counts[-1])
    share = (accuracy - rising[after - 1]) / (rising[after] - rising[after - 1])
    return float(counts[after - 1] + share * (counts[after] - counts[after - 1]))


def _rising(curve: LearningCurve) -> tuple[Array, Array]:
    """Returns the counts of mini-batches from 0 on, and the best quality up to each, from 0, float64, (points + 1,)."""
    return np.array([0.0, *curve.batches]), np.maximum.accumulate([0.0, *curve.running_best()])


@dataclass(frozen=True, slots=True)
class KnownDefault(Stored):
    """Results of the default configuration; None if unknown, or to be taken from measured rows.

    Attributes:
        val_accuracy: Its best validation accuracy within its budget, in [0, 1].
        seconds: Its seconds to the target, set-up included.
        target: The validation accuracy that counts as reached, in [0, 1].
        budget_s: Its budget in seconds of training, set-up included.
    """

    val_accuracy: float | None = None
    seconds: float | None = None
    target: float | None = None
    budget_s: float | None = None

    @classmethod
    def of(cls, reference: Reference, seconds: float | None = None) -> Self:
        """Returns the values of `reference`, with the default's `seconds` to its target."""
        return cls(reference.val_accuracy, seconds, reference.target, reference.budget_s)

    def or_else(self, other: KnownDefault) -> Self:
        """Returns this with the values of `other` where it has none."""
        missing = {
            field.name: getattr(other, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) is None
        }
        return dataclasses.replace(self, **missing)

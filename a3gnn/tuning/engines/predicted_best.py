"""`predicted_best`: the configuration with the best prediction among those that probably keep the limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.errors import InfeasibleError
from a3gnn.limits import FEASIBLE, MEMORY_NAMES
from a3gnn.option_names import option
from a3gnn.prediction import Prediction
from a3gnn.report.text import describe_config
from a3gnn.seeding import derive
from a3gnn.space import Rows, SearchSpace
from a3gnn.tuning.beliefs.expectations import smallest_memory
from a3gnn.tuning.beliefs.outlook import Outlook
from a3gnn.tuning.engines.improvement import NOT_WORTH, STARTS, maximize, proposed
from a3gnn.units import format_size

#: Most that resetting knobs to their defaults may lose in total: in doublings of the score (2 %), and in the
#: probability of keeping the limits: repetitions of a configuration differ by more (docs/design/tuning.md).
WORTH = 0.03


class Judged(NamedTuple):
    """The scores of configurations, and the probabilities that they keep the limits, each float64, shape (n,)."""

    score: NDArray[np.float64]
    probability: NDArray[np.float64]


def simplified(row: Rows, space: SearchSpace, judge: Callable[[Rows], Judged]) -> Rows:
    """Returns `row` with those knobs reset to their defaults that are predicted to gain nothing.

    A simple configuration is easier to read, and shares its learning curve with more of the others. The knob whose
    default scores best is reset first.

    Args:
        row: Canonical, int64, shape (n_knobs,).
        space: The configurations.
        judge: Judges rows, int64, shape (n, n_knobs).
    """
    score, probability = (one[0] - WORTH for one in judge(row[None]))
    found = row
    while True:
        simpler = list(simpler_rows(found, space))
        if not simpler:
            return found
        rows = np.stack(simpler)
        scores, probable = judge(rows)
        scores = np.where(probable >= probability, scores, -np.inf)
        if scores.max() < score:
            return found
        found = rows[scores.argmax()]


def simpler_rows(row: Rows, space: SearchSpace) -> Iterator[Rows]:
    """Yields the canonical rows with one knob of `row` reset to its default, if the space contains that."""
    for j, knob in enumerate(space.knobs):
        if knob.default in knob.values:
            back = row.copy()
            back[j] = knob.values.index(knob.default)
            back = space.canonical(back[None])[0]
            if (back != row).any():
                yield back


def predicted_best(outlook: Outlook) -> TrainConfig:
    """Returns the configuration with the best predicted score that keeps each limit with probability `FEASIBLE`.

    `maximize` searches for it, from random configurations, the proposals of the shipped policy, the default, and the
    configuration with the least predicted memory. Knobs that are predicted to gain nothing are reset to their defaults
    (`simplified`).

    Raises:
        InfeasibleError: No evaluated configuration keeps the limits with that probability.
    """
    space, seed = outlook.space, outlook.history.study.request.seed
    smallest = smallest_memory(outlook.fitted, outlook.history)
    assert smallest is not None, "nothing is measured, so every configuration is left"
    baseline = outlook.predict([TrainConfig().canonical()])
    policy = proposed(outlook.history, outlook.objectives, outlook.fitted, baseline, derive(seed, "policy"))
    starts = [space.sample(STARTS, derive(seed, "recommend")), policy, space.encode(smallest)[None]]
    default = outlook.history.row(TrainConfig().canonical())
    if default is not None:
        starts.append(default[None])

    def value(rows: Rows) -> NDArray[np.float64]:
        prediction = outlook.predict_rows(rows)
        keeps = probability_of_keeping(outlook, rows, prediction) > 0
        least = np.min(list(_each(outlook, rows, prediction).values()), axis=0)
        return np.where(keeps, outlook.objectives.score(prediction), least - NOT_WORTH)

    rows, values = maximize(space, value, np.concatenate(starts))
    if values[0] <= 1 - NOT_WORTH:
        raise nothing_predicted(outlook, rows)

    def judge(rows: Rows) -> Judged:
        prediction = outlook.predict_rows(rows)
        return Judged(outlook.objectives.score(prediction), probability_of_keeping(outlook, rows, prediction))

    return space.decode(simplified(rows[0], space, judge)).canonical()


def probability_of_keeping(outlook: Outlook, rows: Rows, prediction: Prediction) -> NDArray[np.float64]:
    """Returns the probability that each of `rows` keeps all limits; 0 if one limit's is less than `FEASIBLE`.

    The default keeps the least accuracy with certainty, because that is relative to its own.
    """
    each = np.stack(list(_each(outlook, rows, prediction).values()))
    return np.where((each >= FEASIBLE).all(axis=0), each.prod(axis=0), 0.0)


def _each(outlook: Outlook, rows: Rows, prediction: Prediction) -> dict[str, NDArray[np.float64]]:
    """Returns the probability that each of `rows` keeps each limit, by the limit's name."""
    kept = outlook.keeping(prediction)
    kept["least_accuracy"] = np.where(outlook.is_default(rows), 1.0, kept["least_accuracy"])
    return kept


def nothing_predicted(outlook: Outlook, rows: Rows) -> InfeasibleError:
    """Returns the error that names the limit out of reach, by how much it is missed, and a limit that would do."""
    prediction = outlook.predict_rows(rows)
    kept = outlook.keeping(prediction)
    accuracy = kept.pop("least_accuracy")
    fits = np.all([np.ones(len(rows), np.bool_), *(own >= FEASIBLE for own in kept.values())], axis=0)
    if not fits.any():
        return _too_large(outlook)
    closest = int(np.where(fits, accuracy, -1.0).argmax())
    found = prediction.take(np.array([closest]))
    return _too_inaccurate(outlook, rows[closest], found, float(accuracy[closest]))


def _too_large(outlook: Outlook) -> InfeasibleError:
    """Returns the error about the memory limits; it names the configuration with the least predicted memory."""
    smallest = smallest_memory(outlook.fitted, outlook.history)
    assert smallest is not None, "nothing is measured, so every configuration is left"
    prediction, limits, memory = outlook.predict([smallest]), outlook.objectives.limits, outlook.objectives.memory
    kept = {name: own for name, own in outlook.keeping(prediction).items() if name != "least_accuracy"}
    parts, remedies = [], []
    for name, probability in kept.items():
        metric = f"peak_{name}"
        mean, low, high = (float(prediction.column(metric, bound)[0]) for bound in ("mean", "low", "high"))
        parts.append(
            f"{format_size(mean)} of {MEMORY_NAMES[name]} ({format_size(low)} to {format_size(high)}), within the "
            f"limit of {format_size(getattr(limits, name))} with a probability of {probability[0]:.2f}"
        )
        needed = prediction.with_probability(metric, FEASIBLE)[0]
        argument = "memory_limit" if metric == memory else "host_memory_limit"
        remedies.append(option(argument, f"{math.ceil(needed / 2**20)}MiB"))
    return InfeasibleError(
        f"nothing is predicted to keep the memory limit with a probability of {FEASIBLE} or more. The least "
        f"memory is predicted for {describe_config(smallest)}: {', '.join(parts)}. It would do with "
        f"{' '.join(remedies)}; a3gnn tune finds by measuring what predictions can't tell"
    )


def _too_inaccurate(outlook: Outlook, row: Rows, prediction: Prediction, accurate: float) -> InfeasibleError:
    """Returns the error about the least accuracy; it names the configuration that most probably keeps it.

    Args:
        outlook: The predictions.
        row: The configuration, int64, shape (n_knobs,).
        prediction: The prediction of `row` alone.
        accurate: The probability that `row` keeps the least accuracy.
    """
    allowed = outlook.history.study.request.max_accuracy_drop
    lost = 100 * (outlook.default_accuracy - float(prediction.column("val_accuracy")[0]))
    label = outlook.setting.metric.label
    others = " that keeps the memory limit" if len(outlook.keeping(prediction)) > 1 else ""
    enough = outlook.default_accuracy - float(prediction.with_probability("val_accuracy", FEASIBLE)[0])
    needed = math.ceil(1000 * enough) / 10
    remedy = (
        f"{option('max_accuracy_drop', needed)} would allow it" if needed > allowed else "a larger drop may allow it"
    )
    return InfeasibleError(
        f"nothing{others} is predicted to lose at most {allowed:g} points of validation {label} against the baseline "
        f"with a probability of {FEASIBLE} or more. The closest, {describe_config(outlook.space.decode(row))}, is "
        f"predicted to lose {lost:.2g} points, and at most {allowed:g} with a probability of {accurate:.2f}; {remedy}, "
        "and a3gnn tune finds by measuring what predictions can't tell"
    )

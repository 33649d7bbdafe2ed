"""`predicted_best`: the configuration with the best prediction among those that probably keep the limits."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.errors import InfeasibleError
from a3gnn.limits import FEASIBLE, MEMORY_NAMES
from a3gnn.option_names import option
from a3gnn.prediction import Prediction
from a3gnn.report.text import describe_config
from a3gnn.search.run import EvaluationCache, play
from a3gnn.search.searchable import Problem
from a3gnn.search.searcher import make_searcher
from a3gnn.space import Rows, SearchSpace
from a3gnn.tuning.beliefs.expectations import smallest_memory
from a3gnn.tuning.beliefs.outlook import Outlook
from a3gnn.tuning.engines.propose import SEARCH_EVALUATIONS
from a3gnn.units import format_size

#: Most that resetting knobs to their defaults may lose in total: in doublings of the score (2 %), and in the
#: probability of keeping the limits. Guesses: less than any trial could show.
WORTH = 0.03

#: Maps rows, int64, shape (n, n_knobs), to the probability of keeping the limits, shape (n,).
Probable = Callable[[Rows], np.ndarray[tuple[int, ...], np.dtype[np.float64]]]


def predicted_best(outlook: Outlook) -> TrainConfig:
    """Returns the configuration with the best predicted score that keeps each limit with probability `FEASIBLE`.

    Searches for the predicted front, as a tune does. From the best configuration of the search, steps of one knob
    continue as long as they gain. The default is evaluated too if the space contains it, because it loses no accuracy
    against itself. Knobs that are predicted to gain nothing are reset to their defaults (`simplified`).

    Raises:
        InfeasibleError: No evaluated configuration keeps the limits with that probability.
    """
    problem, seed = outlook.problem, outlook.history.study.request.seed
    cache = EvaluationCache(problem)
    engine = outlook.history.study.request.engine
    searched = dataclasses.replace(problem, predict=cache)
    play(make_searcher(engine, searched, seed, evaluations=SEARCH_EVALUATIONS), cache, SEARCH_EVALUATIONS)
    default = outlook.history.row(TrainConfig().canonical())
    if default is not None:
        cache(default[None])
    if _best(outlook, cache) is None:  # the search may have missed the configuration with the least memory
        smallest = smallest_memory(outlook.fitted, outlook.history)
        assert smallest is not None, "nothing is measured, so every configuration is left"
        cache(outlook.space.encode(smallest)[None])
    best, before = _best(outlook, cache), None
    while best is not None and (before is None or (best != before).any()):
        cache(outlook.space.neighbors(best))
        best, before = _best(outlook, cache), best
    if best is None:
        raise nothing_predicted(outlook, cache)

    def probable(rows: Rows) -> NDArray[np.float64]:
        return probability_of_keeping(outlook, rows, cache(rows))

    return outlook.space.decode(simplified(best, searched, probable, set())).canonical()


def _best(outlook: Outlook, cache: EvaluationCache) -> Rows | None:
    """Returns the row with the best score that probably keeps the limits, the first among equals, or None."""
    probable = np.flatnonzero(probability_of_keeping(outlook, cache.rows, cache.prediction))
    if not len(probable):
        return None
    score = outlook.objectives.score(cache.prediction)
    return np.asarray(cache.rows[probable[score[probable].argmax()]])


def probability_of_keeping(outlook: Outlook, rows: Rows, prediction: Prediction) -> NDArray[np.float64]:
    """Returns the probability that each of `rows` keeps all limits; 0 if one limit's is less than `FEASIBLE`.

    The default keeps the least accuracy with certainty, because that is relative to its own.
    """
    kept = outlook.keeping(prediction)
    kept["least_accuracy"] = np.where(outlook.is_default(rows), 1.0, kept["least_accuracy"])
    each = np.stack(list(kept.values()))
    return np.where((each >= FEASIBLE).all(axis=0), each.prod(axis=0), 0.0)


def simplified(row: Rows, problem: Problem, probable: Probable, tried: set[bytes]) -> Rows:
    """Returns `row` with those knobs reset to their defaults that are predicted to gain nothing.

    A simple configuration is easier to read, and shares its learning curve with more of the others. The knob whose
    default scores best is reset first.

    Args:
        row: Canonical, int64, shape (n_knobs,).
        problem: The space and the objectives.
        probable: Returns the probability that rows keep the limits.
        tried: Rows to exclude, as bytes.
    """

    def score(rows: Rows) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return problem.objectives.score(problem.predict(rows))

    least, least_probable = score(row[None])[0] - WORTH, probable(row[None])[0] - WORTH
    found = row
    while True:
        simpler = [one for one in _simpler(found, problem.space) if one.tobytes() not in tried]
        if not simpler:
            return found
        rows = np.stack(simpler)
        scores = np.where(probable(rows) >= least_probable, score(rows), -np.inf)
        if scores.max() < least:
            return found
        found = rows[scores.argmax()]


def _simpler(row: Rows, space: SearchSpace) -> Iterator[Rows]:
    """Yields the canonical rows with one knob of `row` reset to its default, if the space contains that."""
    for j, knob in enumerate(space.knobs):
        if knob.default in knob.values:
            back = row.copy()
            back[j] = knob.values.index(knob.default)
            back = space.canonical(back[None])[0]
            if (back != row).any():
                yield back


def nothing_predicted(outlook: Outlook, cache: EvaluationCache) -> InfeasibleError:
    """Returns the error that names the limit out of reach, by how much it is missed, and a limit that would do.

    Args:
        outlook: The predictions.
        cache: All evaluated configurations; none is probable enough.
    """
    kept = outlook.keeping(cache.prediction)
    accuracy = kept.pop("least_accuracy")
    fits = np.all([np.ones(len(cache), np.bool_), *(own >= FEASIBLE for own in kept.values())], axis=0)
    if not fits.any():
        return _too_large(outlook)
    closest = int(np.where(fits, accuracy, -1.0).argmax())
    found = cache.prediction.take(np.array([closest]))
    return _too_inaccurate(outlook, cache.rows[closest], found, float(accuracy[closest]))


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

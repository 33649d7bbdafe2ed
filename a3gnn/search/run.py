"""`run_search`: runs one search and compares it with the exhaustive front and with random search (`SearchResult`)."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.pareto import hypervolume, non_dominated
from a3gnn.prediction import Prediction
from a3gnn.search.baselines import Grid, check_enumerable
from a3gnn.search.searchable import Problem, Searchable
from a3gnn.search.searcher import MAX_EVALUATIONS, Searcher, make_searcher

#: The reference point, in costs scaled so that the ideal point is 0 and the nadir point 1. Guess: close to 1, so the
#: ends of a front do not outweigh its middle.
REFERENCE = 1.1
#: Rows requested at a time. Guess.
_BATCH = 64
#: Number of least violating rows to return if nothing is feasible. Guess.
_NUM_LEAST_VIOLATING = 16


def run_search(
    engine: str, problem: Problem, evaluations: int, seed: int, *, beside_random: bool = True
) -> SearchResult:
    """Searches `problem` with `engine`, evaluating up to `evaluations` distinct configurations.

    The result is compared with the exhaustive front, if the space can be enumerated, and with random search at as many
    evaluations, which doubles the time for predictions.

    Args:
        engine: local, ppo, nsga2, tpe, random or exhaustive. Exhaustive evaluates the whole space and ignores
            `evaluations`.
        problem: The space, its predictions and the objectives.
        evaluations: The budget, capped at the engine's `MAX_EVALUATIONS`; training a policy counts.
        seed: Decides everything random.
        beside_random: Whether to compare with random search.

    Raises:
        UsageError: There is no such engine, `evaluations` is not positive, or the space is too large for exhaustive.
    """
    if evaluations < 1:
        raise UsageError(f"evaluations must be >= 1, got {evaluations}; 3,000 suit local")
    if engine == "exhaustive":
        check_enumerable(problem.space)
        evaluations = problem.space.num_distinct
    evaluations = min(evaluations, MAX_EVALUATIONS.get(engine, evaluations))
    grid = Grid(problem) if problem.enumerable else None
    problem = problem if grid is None else dataclasses.replace(problem, predict=grid)
    options = {"evaluations": evaluations} if engine in ("local", "ppo") else {}

    start = time.perf_counter()
    cache = EvaluationCache(problem)
    play(make_searcher(engine, dataclasses.replace(problem, predict=cache), seed, **options), cache, evaluations)
    seconds = time.perf_counter() - start
    baseline: EvaluationCache | None = None
    if beside_random:
        everything = grid is not None and len(cache) == len(grid.rows)
        baseline = cache if everything else EvaluationCache(problem)
        play(make_searcher("random", problem, seed), baseline, len(cache))
    return _result(engine, seed, problem, cache, baseline, grid, seconds)


def _result(
    engine: str,
    seed: int,
    problem: Problem,
    cache: EvaluationCache,
    baseline: EvaluationCache | None,
    grid: Grid | None,
    seconds: float,
) -> SearchResult:
    objectives, limits = problem.objectives, problem.objectives.limits
    costs, violation = objectives.costs(cache.prediction), limits.violation(cache.prediction)
    feasible = bool((violation == 0).any())
    best = _front(costs, violation) if feasible else objectives.order(cache.prediction)[:_NUM_LEAST_VIOLATING]
    front = costs[best] if feasible else costs[:0]
    random_front = costs[:0]
    if baseline is not None:
        random_front = objectives.costs(baseline.prediction)[limits.violation(baseline.prediction) == 0]
    true_front = grid.front_costs if grid is not None else costs[:0]
    own_volume, random_volume, true_volume = _hypervolumes(front, random_front, true_front)
    by_chance = None if baseline is None else random_volume
    return SearchResult(
        engine=engine,
        seed=seed,
        feasible=feasible,
        rows=cache.rows[best],
        prediction=cache.prediction.take(best),
        costs=costs[best],
        violation=violation[best],
        configurations=problem.space.num_distinct,
        evaluations=len(cache),
        seconds=seconds,
        hypervolume=own_volume,
        hypervolume_ratio=own_volume / true_volume if true_volume else None,
        random_hypervolume=by_chance,
        random_ratio=by_chance / true_volume if by_chance is not None and true_volume else None,
    )


def _front(costs: NDArray[np.float64], violation: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the positions of the feasible front, sorted by the first cost."""
    feasible = np.flatnonzero(violation == 0)
    front = feasible[non_dominated(costs[feasible])]
    return front[np.lexsort(costs[front].T[::-1])]


def _hypervolumes(
    front: NDArray[np.float64], random_front: NDArray[np.float64], true_front: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Returns the three hypervolumes, on the scale of `true_front`, or of the others' union if that is empty."""
    scale = true_front if len(true_front) else np.concatenate([front, random_front])
    if not len(scale):
        return 0.0, 0.0, 0.0
    volume = NormalizedHypervolume.fit(scale[non_dominated(scale)])
    return volume.measure(front), volume.measure(random_front), volume.measure(true_front)


def play(searcher: Searcher, cache: EvaluationCache, evaluations: int) -> None:
    """Runs `searcher` on `cache` until `cache` has so many evaluations, or the space is exhausted."""
    while len(cache) < evaluations:
        rows = searcher.ask(min(_BATCH, evaluations - len(cache)))
        if not len(rows):
            break
        searcher.tell(rows, cache(rows))


@dataclass(frozen=True, slots=True)
class NormalizedHypervolume:
    """Measures the hypervolume of fronts in costs scaled by the ideal and nadir points of a comparison front.

    Attributes:
        ideal: Least cost of each objective, float64, shape (n_objectives,).
        span: Nadir minus ideal, or 1 if they are equal, float64, shape (n_objectives,).
    """

    ideal: NDArray[np.float64]
    span: NDArray[np.float64]

    @classmethod
    def fit(cls, front: NDArray[np.float64]) -> Self:
        """Returns the scale with the ideal and nadir points of `front`, costs of shape (n, n_objectives), n > 0."""
        span = np.ptp(front, axis=0)
        return cls(front.min(axis=0), np.where(span > 0, span, 1.0))

    def measure(self, costs: NDArray[np.float64]) -> float:
        """Returns the hypervolume of `costs`, shape (n, n_objectives), up to `REFERENCE` in each scaled objective."""
        scaled = (costs - self.ideal) / self.span
        return hypervolume(scaled, np.full(costs.shape[1], REFERENCE))


@dataclass(frozen=True)
class SearchResult:
    """The front that a search found, and its quality. All figures are predicted.

    Attributes:
        engine: Name of the search engine.
        seed: Its seed.
        feasible: Whether any evaluated configuration keeps the limits.
        rows: The feasible front of all evaluated configurations, int64, shape (n, n_knobs), fastest first. If none is
            feasible, the rows with the least violation, least first, and among equals by the priority's score.
        prediction: Prediction of `rows`.
        costs: Costs of `rows` by `Objectives.costs`, float64, shape (n, 3).
        violation: Violation of `rows`, float64, shape (n,); 0 everywhere if feasible.
        configurations: Number of distinct configurations in the space.
        evaluations: Number of distinct evaluated configurations, including those of training a policy.
        seconds: Wall-clock seconds of the search, without predicting an enumerable space once in advance.
        hypervolume: Hypervolume of the front by `NormalizedHypervolume`; 0 if nothing is feasible.
        hypervolume_ratio: `hypervolume` over the exhaustive front's; None without an exhaustive front (space too large,
            nothing feasible).
        random_hypervolume: Hypervolume of random search with as many evaluations, on the same scale; None if it was not
            run.
        random_ratio: `random_hypervolume` over the exhaustive front's; None without either.
    """

    engine: str
    seed: int
    feasible: bool
    rows: NDArray[np.int64]
    prediction: Prediction
    costs: NDArray[np.float64]
    violation: NDArray[np.float64]
    configurations: int
    evaluations: int
    seconds: float
    hypervolume: float
    hypervolume_ratio: float | None
    random_hypervolume: float | None
    random_ratio: float | None


class EvaluationCache:
    """A `Predict` that evaluates each canonical row once, stores the predictions, and counts the distinct rows.

    Attributes:
        rows: Distinct rows so far, in the order of their first evaluation, int64, shape (n, n_knobs).
        prediction: Prediction of `rows`.
    """

    def __init__(self, problem: Searchable) -> None:
        self._problem = problem
        self._position: dict[int, int] = {}
        self.rows = np.empty((0, len(problem.space.nvec)), dtype=np.int64)
        nothing = np.empty((0, len(problem.metrics)))
        self.prediction = Prediction(nothing, nothing, nothing, metrics=problem.metrics)

    def __len__(self) -> int:
        return len(self._position)

    def __call__(self, rows: NDArray[np.int64]) -> Prediction:
        """Returns the prediction of `rows`, which may repeat and need not be canonical."""
        rows = self._problem.space.canonical(rows)
        keys = self._problem.keys(rows).tolist()
        fresh: dict[int, int] = {}
        for at, key in enumerate(keys):
            if key not in self._position and key not in fresh:
                fresh[key] = at
        if fresh:
            self._append(rows[list(fresh.values())])
        return self.prediction.take(np.array([self._position[key] for key in keys], dtype=np.int64))

    def _append(self, rows: NDArray[np.int64]) -> None:
        old, new = self.prediction, self._problem.predict(rows)
        self.prediction = dataclasses.replace(
            new,
            mean=np.concatenate([old.mean, new.mean]),
            low=np.concatenate([old.low, new.low]),
            high=np.concatenate([old.high, new.high]),
        )
        for position, key in enumerate(self._problem.keys(rows).tolist(), start=len(self.rows)):
            self._position[key] = position
        self.rows = np.concatenate([self.rows, rows])

"""Runs one search and says what it is worth."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.pareto import non_dominated
from a3gnn.search.evaluation_cache import EvaluationCache
from a3gnn.search.grid import Grid, refuse_endless
from a3gnn.search.normalised_hypervolume import NormalisedHypervolume
from a3gnn.search.problem import Problem
from a3gnn.search.result import SearchResult
from a3gnn.search.searcher import MOST_EVALUATIONS, Searcher, make_searcher
from a3gnn_envs.policy import Policy

#: Rows asked for at a time. Guess.
BATCH = 64
#: How many least violating rows stand for the front where nothing is feasible. Guess.
_LEAST_VIOLATING = 16


def run_search(
    engine: str, problem: Problem, evaluations: int, seed: int, policy: Policy | None = None
) -> SearchResult:
    """Returns what `engine` finds on `problem` with up to `evaluations` distinct configurations.

    Beside it stand the exhaustive front, if the space can be enumerated, and random search at as many evaluations.

    Args:
        engine: ppo, nsga2, tpe, random or exhaustive; the last takes the whole space whatever `evaluations` says.
        problem: What is searched.
        evaluations: The budget, cut to `MOST_EVALUATIONS` of the engine. Training a policy is paid from it.
        seed: Decides everything random.
        policy: Where ppo starts, if it fits the problem; otherwise ppo trains one within the budget.

    Raises:
        UsageError: There is no such engine, `evaluations` is not positive, or the space is too large for exhaustive.
    """
    if evaluations < 1:
        raise UsageError(f"evaluations must be >= 1, got {evaluations}; 3,000 suit ppo")
    if engine == "exhaustive":
        refuse_endless(problem.space)
        evaluations = problem.space.size
    evaluations = min(evaluations, MOST_EVALUATIONS.get(engine, evaluations))
    grid = Grid(problem) if problem.enumerable else None
    problem = problem if grid is None else dataclasses.replace(problem, predict=grid)
    options = {"policy": policy, "evaluations": evaluations} if engine == "ppo" else {}

    start = time.perf_counter()
    cache = EvaluationCache(problem)
    play(make_searcher(engine, dataclasses.replace(problem, predict=cache), seed, **options), cache, evaluations)
    seconds = time.perf_counter() - start
    everything = grid is not None and len(cache) == len(grid.rows)
    bar = cache if everything else EvaluationCache(problem)
    play(make_searcher("random", problem, seed), bar, len(cache))
    return _result(engine, seed, problem, cache, bar, grid, seconds)


def play(searcher: Searcher, cache: EvaluationCache, evaluations: int) -> None:
    """Lets `searcher` ask `cache` until the budget is spent or the space is exhausted."""
    while len(cache) < evaluations:
        rows = searcher.ask(min(BATCH, evaluations - len(cache)))
        if not len(rows):
            break
        searcher.tell(rows, cache(rows))


def _result(
    engine: str,
    seed: int,
    problem: Problem,
    cache: EvaluationCache,
    bar: EvaluationCache,
    grid: Grid | None,
    seconds: float,
) -> SearchResult:
    objectives, limits = problem.objectives, problem.objectives.limits
    costs, violation = objectives.costs(cache.prediction), limits.violation(cache.prediction)
    feasible = bool((violation == 0).any())
    best = _front(costs, violation) if feasible else objectives.order(cache.prediction)[:_LEAST_VIOLATING]
    front = costs[best] if feasible else costs[:0]
    bar_costs, bar_violation = objectives.costs(bar.prediction), limits.violation(bar.prediction)
    bar_front = bar_costs[bar_violation == 0]
    true_front = grid.front_costs if grid is not None else costs[:0]
    measured = _hypervolumes(front, bar_front, true_front)
    return SearchResult(
        engine=engine,
        seed=seed,
        feasible=feasible,
        rows=cache.rows[best],
        prediction=cache.prediction.take(best),
        costs=costs[best],
        violation=violation[best],
        evaluations=len(cache),
        seconds=seconds,
        hypervolume=measured[0],
        hypervolume_ratio=measured[0] / measured[2] if measured[2] else None,
        random_hypervolume=measured[1],
        random_ratio=measured[1] / measured[2] if measured[2] else None,
    )


def _front(costs: NDArray[np.float64], violation: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the positions of the feasible front by the first cost."""
    feasible = np.flatnonzero(violation == 0)
    front = feasible[non_dominated(costs[feasible])]
    return front[np.lexsort(costs[front].T[::-1])]


def _hypervolumes(
    front: NDArray[np.float64], bar: NDArray[np.float64], true_front: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Returns the hypervolumes of the three, on the scale of the last, or of the union if that is empty."""
    scale = true_front if len(true_front) else np.concatenate([front, bar])
    if not len(scale):
        return 0.0, 0.0, 0.0
    volume = NormalisedHypervolume.fit(scale[non_dominated(scale)])
    return volume.measure(front), volume.measure(bar), volume.measure(true_front)

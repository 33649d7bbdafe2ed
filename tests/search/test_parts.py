from __future__ import annotations

import dataclasses
from statistics import NormalDist

import numpy as np
import pytest

from a3gnn.limits import FEASIBLE
from a3gnn.prediction import Prediction
from a3gnn.search.baselines import CandidatePool, Grid
from a3gnn.search.local_search import POPULATION, Archive, Evolution, LocalSearch, crowding, non_dominated_ranks
from a3gnn.search.run import EvaluationCache, NormalizedHypervolume
from a3gnn.search.searchable import Problem


def test_ranks_by_hand() -> None:
    costs = np.array([[1, 4], [2, 2], [4, 1], [3, 3], [4, 4], [0, 0], [9, 9]], dtype=np.float64)
    violation = np.array([0, 0, 0, 0, 0, 0.5, 0.1])
    np.testing.assert_array_equal(non_dominated_ranks(costs, violation), [0, 0, 0, 1, 2, 4, 3])


def test_equal_rows_share_a_rank() -> None:
    np.testing.assert_array_equal(non_dominated_ranks(np.ones((3, 2)), np.zeros(3)), [0, 0, 0])


def test_equal_violations_compare_by_costs() -> None:
    costs = np.array([[2, 2], [1, 1], [0, 0]], dtype=np.float64)
    np.testing.assert_array_equal(non_dominated_ranks(costs, np.array([0.5, 0.5, 0.7])), [1, 0, 2])


def test_crowding_by_hand() -> None:
    costs = np.array([[0, 4], [1, 2], [4, 0], [7, 7]], dtype=np.float64)
    distance = crowding(costs, np.array([0, 0, 0, 1]))
    np.testing.assert_allclose(distance, [np.inf, 4 / 4 + 4 / 4, np.inf, np.inf])


def test_evolution_keeps_the_best_and_breeds_inside(problem: Problem) -> None:
    evolution = Evolution(problem.space.nvec, np.random.default_rng(0))
    rows = np.unique(problem.space.sample(300, seed=0), axis=0)
    costs = problem.objectives.costs(problem.predict(rows))
    evolution.take(rows, costs, np.zeros(len(rows)))
    assert len(evolution.rows) == POPULATION
    kept = {tuple(row) for row in evolution.rows.tolist()}
    best = rows[non_dominated_ranks(costs, np.zeros(len(rows))) == 0]
    assert len(best) < POPULATION
    assert {tuple(row) for row in best.tolist()} <= kept
    children = evolution.breed(500)
    assert (children >= 0).all()
    assert (children < problem.space.nvec).all()
    assert len(np.unique(children, axis=0)) > 100


def test_the_archive_is_the_front_of_all_it_was_given(problem: Problem) -> None:
    archive = Archive(len(problem.space.nvec))
    grid = Grid(problem)
    costs, violation = problem.objectives.costs(grid.prediction), problem.objectives.limits.violation(grid.prediction)
    order = np.random.default_rng(0).permutation(len(costs))[:3000]
    entered = [archive.take(grid.rows[part], costs[part], violation[part]) for part in np.array_split(order, 30)]
    assert entered[0] > 0
    together = Archive(len(problem.space.nvec))
    assert together.take(grid.rows[order], costs[order], violation[order]) == len(archive.rows)
    assert {tuple(r) for r in archive.rows.tolist()} == {tuple(r) for r in together.rows.tolist()}


def test_the_archive_forgets_expansion_with_the_row() -> None:
    archive = Archive(1, num_objectives=2)
    archive.take(np.array([[0], [1]]), np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(2))
    archive.expanded[:] = [True, False]
    assert archive.take(np.array([[2]]), np.array([[0.5, -1.0]]), np.zeros(1)) == 1
    assert dict(zip(archive.rows[:, 0].tolist(), archive.expanded.tolist(), strict=True)) == {0: True, 2: False}
    assert archive.take(np.array([[3]]), np.array([[-1.0, -1.0]]), np.array([0.1])) == 0


def test_until_anything_is_feasible_the_archive_holds_what_violates_least() -> None:
    archive = Archive(1, num_objectives=2)
    rows, costs = np.array([[0], [1], [2], [3]]), np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [-9.0, -9.0]])
    assert archive.take(rows, costs, np.array([0.2, 0.2, 0.2, 0.3])) == 2
    assert archive.rows[:, 0].tolist() == [0, 1]
    assert archive.take(np.array([[4]]), np.array([[5.0, 5.0]]), np.array([0.1])) == 1
    assert archive.rows[:, 0].tolist() == [4]
    assert archive.take(np.array([[5]]), np.array([[9.0, 9.0]]), np.zeros(1)) == 1
    assert archive.rows[:, 0].tolist() == [5]


def test_local_search_asks_for_all_neighbors_of_the_front(small: Problem) -> None:
    candidates = CandidatePool(small, seed=0)
    local_search = LocalSearch(small, 0, 100, candidates)
    asked: set[tuple[int, ...]] = set()
    rows = candidates.draw(10)
    for _ in range(10):
        asked |= {tuple(row) for row in rows.tolist()}
        local_search.tell(rows, small.predict(rows))
        rows = local_search.ask(10)
    seen = np.array(sorted(asked))
    prediction = small.predict(seen)
    costs, violation = small.objectives.costs(prediction), small.objectives.limits.violation(prediction)
    for row in seen[(non_dominated_ranks(costs, violation) == 0)]:
        assert {tuple(n) for n in small.space.neighbors(row).tolist()} <= asked | {tuple(r) for r in rows.tolist()}


def test_a_grid_answers_what_the_predictor_answers(problem: Problem) -> None:
    grid = Grid(problem)
    rows = np.random.default_rng(0).integers(0, problem.space.nvec, size=(200, len(problem.space.nvec)))
    np.testing.assert_array_equal(grid(rows).high, problem.predict(problem.space.canonical(rows)).high)


def test_the_grids_front_holds_only_what_is_feasible(problem: Problem, impossible: Problem) -> None:
    margin = 1.05 ** (NormalDist().inv_cdf(FEASIBLE) / 1.645)  # memory is predicted to 5 %
    assert (Grid(problem).front_costs[:, 1] <= np.log2(2**30 / margin)).all()
    assert len(Grid(impossible).front_costs) == 0


def test_an_evaluation_cache_evaluates_each_configuration_once(problem: Problem) -> None:
    calls: list[np.ndarray] = []

    def noted(rows: np.ndarray) -> Prediction:
        calls.append(rows)
        return dataclasses.replace(problem.predict(rows), default_accuracy=0.8)

    cache = EvaluationCache(dataclasses.replace(problem, predict=noted))
    rows = problem.space.sample(50, seed=0)
    for asked in (rows, rows[::-1], np.concatenate([rows[:3], problem.space.sample(20, seed=1)])):
        np.testing.assert_array_equal(cache(asked).mean, problem.predict(asked).mean)
    evaluated = np.concatenate(calls)
    assert len(np.unique(evaluated, axis=0)) == len(evaluated) == len(cache)
    np.testing.assert_array_equal(cache.rows, evaluated)
    assert len(cache(rows[:0])) == 0
    assert cache(rows[:2]).default_accuracy == 0.8


def test_candidate_pool_draws_everything_once_and_then_nothing(small: Problem) -> None:
    candidates = CandidatePool(small, seed=0)
    everything = small.space.enumerate()
    taken = candidates.take(np.concatenate([everything[:7], everything[:7]]))
    drawn = candidates.draw(10**4)
    assert len(taken) == 7
    np.testing.assert_array_equal(np.unique(np.concatenate([taken, drawn]), axis=0), everything)
    assert len(taken) + len(drawn) == len(everything)
    assert len(candidates.draw(5)) == 0


def test_normalized_hypervolume_measures_one_point_by_hand() -> None:
    scale = NormalizedHypervolume.fit(np.array([[0.0, 10.0, 3.0], [2.0, 0.0, 3.0]]))
    assert scale.measure(np.array([[1.0, 5.0, 3.0]])) == pytest.approx(0.6 * 0.6 * 1.1)
    assert scale.measure(np.array([[2.3, 0.0, 3.0]])) == 0

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

from a3gnn.errors import UsageError
from a3gnn.measurement import METRICS
from a3gnn.pareto import non_dominated
from a3gnn.prediction import Prediction
from a3gnn.search.run import run_search
from a3gnn.search.searchable import ENUMERABLE, Problem
from a3gnn.search.searcher import ENGINES
from a3gnn.space import SearchSpace
from tests.toy_problem import ToyProblem


@pytest.fixture(scope="module")
def endless(problem: Problem) -> Problem:
    """The fine toy with more workers, biases and mini-batches: two million configurations."""
    toy = ToyProblem()
    knobs = toy.space(fine=True).to_dict() | {"num_workers": list(range(1, 33)), "bias_rate": list(range(1, 17))}
    space = problem.space.from_dict(knobs | {"batch_size": list(range(64, 2048, 64))})
    assert space.num_distinct > 10 * ENUMERABLE
    return dataclasses.replace(problem, space=space, predict=partial(toy.predict, space))


def test_the_result_is_a_front_in_order(problem: Problem) -> None:
    result = run_search("random", problem, evaluations=400, seed=0)
    assert non_dominated(result.costs).all()
    assert (np.diff(result.costs[:, 0]) >= 0).all()
    np.testing.assert_array_equal(result.prediction.mean, problem.predict(result.rows).mean)
    np.testing.assert_array_equal(result.costs, problem.objectives.costs(result.prediction))


def test_random_search_equals_its_own_bar(problem: Problem) -> None:
    result = run_search("random", problem, evaluations=300, seed=0)
    assert result.hypervolume == result.random_hypervolume
    assert result.hypervolume_ratio == result.random_ratio
    assert 0 < result.random_ratio < 1


def test_exhaustive_search_sets_the_scale(problem: Problem) -> None:
    result = run_search("exhaustive", problem, evaluations=1, seed=0)
    assert result.evaluations == len(problem.space.enumerate())
    assert result.hypervolume_ratio == 1


@pytest.mark.parametrize("engine", ["local", "ppo"])
def test_the_front_of_thousands_is_found(engine: str, problem: Problem) -> None:
    result = run_search(engine, problem, evaluations=2000, seed=1)
    assert result.evaluations == 2000
    assert result.hypervolume_ratio > 0.99
    assert result.hypervolume_ratio > result.random_ratio


@pytest.mark.parametrize("evaluations", [1, 65, 257, 1200])
def test_the_budget_is_kept_whatever_is_trained(evaluations: int, problem: Problem) -> None:
    asked: set[tuple[int, ...]] = set()

    def counted(rows: np.ndarray) -> Prediction:
        asked.update(map(tuple, rows.tolist()))
        return problem.predict(rows)

    counting = _NotEnumerable(problem.space, counted, problem.objectives)
    result = run_search("ppo", counting, evaluations, seed=0)
    assert result.evaluations == evaluations
    assert evaluations <= len(asked) <= 2 * evaluations  # random search's bar is as much again


class _NotEnumerable(Problem):
    """Without a grid the predictor sees each call."""

    @property
    def enumerable(self) -> bool:
        return False


@pytest.mark.parametrize("engine", [one for one in ENGINES if one != "exhaustive"])
def test_endless_spaces_are_searched_without_being_enumerated(
    engine: str, endless: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SearchSpace, "enumerate", lambda space: pytest.fail("it enumerated the space"))
    result = run_search(engine, endless, evaluations=200, seed=0)
    assert result.evaluations == 200
    assert result.configurations == endless.space.num_distinct
    assert result.hypervolume_ratio is None
    assert result.random_ratio is None
    assert engine == "random" or result.hypervolume > result.random_hypervolume > 0


def test_exhaustive_search_refuses_an_endless_space(endless: Problem) -> None:
    with pytest.raises(UsageError, match=r"at most 200,000 configurations .* got [\d,]{9,}; fix knobs"):
        run_search("exhaustive", endless, evaluations=500, seed=0)


def test_a_budget_of_nothing_is_refused(problem: Problem) -> None:
    with pytest.raises(UsageError, match=">= 1, got 0"):
        run_search("random", problem, evaluations=0, seed=0)


def test_where_nothing_is_feasible_equal_violations_come_by_score(impossible: Problem) -> None:
    flat = dataclasses.replace(impossible, predict=lambda rows: _same_memory(impossible.predict(rows)))
    result = run_search("random", flat, evaluations=60, seed=0)
    assert not result.feasible
    assert len(np.unique(result.violation)) == 1
    assert (np.diff(flat.objectives.score(result.prediction)) <= 0).all()
    assert flat.objectives.score(result.prediction)[0] > flat.objectives.score(result.prediction)[-1]


def _same_memory(prediction: Prediction) -> Prediction:
    mean, high = prediction.mean.copy(), prediction.high.copy()
    for bound in (mean, high):
        bound[:, METRICS.index("peak_host_bytes")] = 2**30
    return dataclasses.replace(prediction, mean=mean, high=high)

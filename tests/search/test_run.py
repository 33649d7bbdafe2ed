from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

from a3gnn.errors import UsageError
from a3gnn.measurement import METRICS
from a3gnn.pareto import non_dominated
from a3gnn.prediction import Prediction
from a3gnn.search.problem import ENUMERABLE, Problem
from a3gnn.search.run import run_search
from a3gnn_envs.policy import Policy
from a3gnn_envs.pretraining import train_policy
from benchmarks.toy_problem import ToyProblem


@pytest.fixture(scope="module")
def policy(problem: Problem) -> Policy:
    return train_policy([problem.episode_context], 2048, seed=0)


@pytest.fixture(scope="module")
def endless(problem: Problem) -> Problem:
    """The fine toy with twice the workers: too large to enumerate."""
    toy = ToyProblem()
    knobs = toy.space(fine=True).to_dict()
    space = problem.space.from_dict(knobs | {"num_workers": list(range(1, 17))})
    assert space.size > ENUMERABLE
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


@pytest.mark.parametrize("trained", [False, True])
def test_ppo_finds_the_front_of_thousands(trained: bool, problem: Problem, policy: Policy) -> None:
    result = run_search("ppo", problem, evaluations=2000, seed=1, policy=policy if trained else None)
    assert result.evaluations == 2000
    assert result.hypervolume_ratio > 0.99
    assert result.hypervolume_ratio > result.random_ratio


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("evaluations", [1, 65, 257, 1200])
def test_the_budget_is_kept_whatever_is_trained(
    evaluations: int, trained: bool, problem: Problem, policy: Policy
) -> None:
    asked: set[tuple[int, ...]] = set()

    def counted(rows: np.ndarray) -> Prediction:
        asked.update(map(tuple, rows.tolist()))
        return problem.predict(rows)

    space = problem.space
    counting = _NotEnumerable(space, counted, problem.objectives, problem.context)
    result = run_search("ppo", counting, evaluations, seed=0, policy=policy if trained else None)
    assert result.evaluations == evaluations
    assert evaluations <= len(asked) <= 2 * evaluations  # random search's bar is as much again


class _NotEnumerable(Problem):
    """Without a grid the predictor sees each call."""

    @property
    def enumerable(self) -> bool:
        return False


def test_a_policy_for_another_space_is_not_used(small: Problem, policy: Policy) -> None:
    result = run_search("ppo", small, evaluations=300, seed=0, policy=policy)
    assert result.hypervolume_ratio == pytest.approx(1)


def test_endless_spaces_have_no_ratio_and_no_exhaustive_search(endless: Problem) -> None:
    result = run_search("ppo", endless, evaluations=500, seed=0)
    assert result.hypervolume_ratio is None
    assert result.random_ratio is None
    assert result.hypervolume > result.random_hypervolume > 0
    with pytest.raises(UsageError, match="too large to enumerate"):
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
    high = prediction.high.copy()
    high[:, METRICS.index("peak_host_bytes")] = 2**30
    return dataclasses.replace(prediction, high=high)

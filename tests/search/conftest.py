from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

from a3gnn.limits import FEASIBLE, Limits
from a3gnn.objectives import Objectives, Priority
from a3gnn.search.searchable import Problem
from tests.toy_problem import ToyProblem


@pytest.fixture(scope="session")
def problem() -> Problem:
    """7,560 configurations under a limit of 1 GiB, which about a third of them keep."""
    toy = ToyProblem()
    space = toy.space()
    objectives = Objectives(Limits(host_bytes=2**30), Priority.parse("balanced"), has_device=False)
    return Problem(space, partial(toy.predict, space), objectives)


@pytest.fixture(scope="session")
def small(problem: Problem) -> Problem:
    """The same with most knobs fixed: under 300 configurations, 112 of which run differently."""
    space = problem.space.fix("num_partitions", 1).fix("num_workers", 2).fix("bias_rate", 4.0)
    space = space.restrict("batch_size", 128, 1024)
    toy = ToyProblem()
    return dataclasses.replace(problem, space=space, predict=partial(toy.predict, space))


@pytest.fixture(scope="session")
def impossible(small: Problem) -> Problem:
    """The small problem under a limit that nothing keeps."""
    tight = dataclasses.replace(small.objectives, limits=Limits(host_bytes=10_000_000))
    return dataclasses.replace(small, objectives=tight)


@pytest.fixture(scope="session")
def true_front(small: Problem) -> set[tuple[int, ...]]:
    """The small problem's feasible front, by comparing each pair."""
    rows = small.space.enumerate()
    prediction = small.predict(rows)
    costs = small.objectives.costs(prediction)
    feasible = np.flatnonzero(small.objectives.limits.keeping(prediction)["host_bytes"] >= FEASIBLE)

    def dominated(i: int) -> bool:
        return any((costs[j] <= costs[i]).all() and (costs[j] < costs[i]).any() for j in feasible)

    front = {tuple(rows[i].tolist()) for i in feasible if not dominated(i)}
    assert 3 < len(front) < len(feasible) < len(rows) < 300
    return front

"""One class that every searcher must pass."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from a3gnn.errors import UsageError
from a3gnn.search.run import EvaluationCache, run_search
from a3gnn.search.searchable import Problem
from a3gnn.search.searcher import ENGINES, make_searcher

_IN_ANOTHER_PROCESS = """
import json, sys
from functools import partial
from tests.toy_problem import ToyProblem
from a3gnn.limits import Limits
from a3gnn.objectives import Objectives, Priority
from a3gnn.search.searchable import Problem
from a3gnn.search.searcher import make_searcher
toy = ToyProblem()
space = toy.space()
objectives = Objectives(Limits(host_bytes=2**30), Priority.parse("balanced"), has_device=False)
problem = Problem(space, partial(toy.predict, space), objectives)
answers = {}
for engine in sys.argv[1:]:
    searcher = make_searcher(engine, problem, 11)
    rows = []
    for _ in range(3):
        asked = searcher.ask(20)
        searcher.tell(asked, problem.predict(asked))
        rows += asked.tolist()
    answers[engine] = rows
print(json.dumps(answers))
"""


def asked_rows(engine: str, problem: Problem, seed: int, batches: int = 3, batch: int = 20) -> list[list[int]]:
    searcher = make_searcher(engine, problem, seed)
    rows: list[list[int]] = []
    for _ in range(batches):
        asked = searcher.ask(batch)
        searcher.tell(asked, problem.predict(asked))
        rows += asked.tolist()
    return rows


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, list[list[int]]]:
    """What each engine asks for in another process."""
    root = Path(__file__).parents[2]
    path = ":".join(map(str, (root, root / "surrogate", root / "envs")))
    command = [sys.executable, "-c", _IN_ANOTHER_PROCESS, *ENGINES]
    done = subprocess.run(command, env={"PYTHONPATH": path}, check=True, capture_output=True, text=True)
    answers: dict[str, list[list[int]]] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("engine", ENGINES)
class TestSearcher:
    def test_asks_new_canonical_rows_in_batches(self, engine: str, problem: Problem) -> None:
        searcher = make_searcher(engine, problem, seed=0)
        seen: set[tuple[int, ...]] = set()
        for batch in (1, 7, 30, 13):
            rows = searcher.ask(batch)
            assert rows.dtype == np.int64
            assert rows.shape == (batch, len(problem.space.nvec))
            assert (rows >= 0).all()
            assert (rows < problem.space.nvec).all()
            np.testing.assert_array_equal(rows, problem.space.canonical(rows))
            new = {tuple(row) for row in rows.tolist()}
            assert len(new) == batch
            assert not new & seen
            seen |= new
            searcher.tell(rows, problem.predict(rows))

    def test_is_deterministic_by_its_seed(self, engine: str, problem: Problem) -> None:
        here = asked_rows(engine, problem, seed=11)
        assert here == asked_rows(engine, problem, seed=11)
        assert engine == "exhaustive" or here != asked_rows(engine, problem, seed=12)

    def test_is_deterministic_across_processes(
        self, engine: str, problem: Problem, elsewhere: dict[str, list[list[int]]]
    ) -> None:
        assert asked_rows(engine, problem, seed=11) == elsewhere[engine]

    def test_stops_asking_only_when_the_space_is_exhausted(self, engine: str, small: Problem) -> None:
        cache = EvaluationCache(small)
        searcher = make_searcher(engine, dataclasses.replace(small, predict=cache), seed=0)
        while len(rows := searcher.ask(25)):
            searcher.tell(rows, cache(rows))
        assert len(cache) == len(small.space.enumerate())

    def test_recovers_the_front_that_was_enumerated_by_hand(
        self, engine: str, small: Problem, true_front: set[tuple[int, ...]]
    ) -> None:
        result = run_search(engine, small, evaluations=300, seed=3)
        assert {tuple(row) for row in result.rows.tolist()} == true_front
        assert result.hypervolume_ratio == pytest.approx(1)

    def test_returns_only_feasible_rows_where_there_are_any(self, engine: str, problem: Problem) -> None:
        result = run_search(engine, problem, evaluations=60, seed=0)
        assert result.feasible
        assert (problem.objectives.limits.violation(problem.predict(result.rows)) == 0).all()
        assert engine == "exhaustive" or result.evaluations == 60

    def test_says_when_nothing_is_feasible(self, engine: str, impossible: Problem) -> None:
        result = run_search(engine, impossible, evaluations=300, seed=0)
        assert not result.feasible
        assert result.hypervolume == 0
        assert result.hypervolume_ratio is None
        least = impossible.objectives.limits.violation(impossible.predict(impossible.space.enumerate())).min()
        assert result.violation[0] == least
        assert (np.diff(result.violation) >= 0).all()


def test_unknown_engines_are_refused_with_the_nearest(problem: Problem) -> None:
    with pytest.raises(UsageError, match="did you mean 'nsga2'"):
        make_searcher("nsga3", problem, seed=0)

"""Compares the search engines on the toy problem: share of the exhaustive front's hypervolume, and seconds.

    python -m benchmarks.search_engines [--fine] [--evaluations 300 1000 3000] [--seeds 5]

The toy is invented (see toy_problem.py): the figures compare engines on it and say nothing about any graph. Engines
with a cap (a3gnn.search.searcher.MAX_EVALUATIONS) show the evaluations that they took.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from a3gnn.objectives import Limits, Objectives, Priority
from a3gnn.search.grid import Grid
from a3gnn.search.problem import Problem
from a3gnn.search.result import SearchResult
from a3gnn.search.run import run_search
from a3gnn.search.searcher import ENGINES
from a3gnn_envs.context import Context
from a3gnn_envs.policy import Policy
from a3gnn_envs.pretraining import train_policy
from benchmarks.toy_problem import ToyProblem

PRETRAINING_CONTEXTS = 60
PRETRAINING_EVALUATIONS = 60_000


def the_problem(fine: bool) -> Problem:
    """Returns the default toy under a limit of 1 GiB."""
    toy = ToyProblem()
    space = toy.space(fine)
    objectives = Objectives(Limits(host_bytes=2**30), Priority.parse("balanced"), has_device=False)
    return Problem(space, partial(toy.predict, space), objectives, toy.features())


def pretrained(fine: bool) -> Policy:
    """Returns a policy trained on random toys, each under a random limit; the default toy is none of them."""
    random = np.random.default_rng(5)
    contexts = []
    for _ in range(PRETRAINING_CONTEXTS):
        toy = ToyProblem.draw(random)
        space = toy.space(fine)
        memory = toy.predict(space, space.sample(200, seed=1)).column("peak_host_bytes", "high")
        limits = Limits(host_bytes=int(np.quantile(memory, random.uniform(0.1, 0.9))))
        contexts.append(Context(space, partial(toy.predict, space), limits, False, toy.features()))
    return train_policy(contexts, PRETRAINING_EVALUATIONS, seed=0)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fine", action="store_true", help="a space ten times as large")
    parser.add_argument("--evaluations", type=int, nargs="+", default=[300, 1000, 3000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--engines", nargs="+", default=[e for e in ENGINES if e != "exhaustive"], choices=list(ENGINES)
    )
    options = parser.parse_args()

    problem = the_problem(options.fine)
    grid = Grid(problem)
    problem = dataclasses.replace(problem, predict=grid)
    print(f"toy of {problem.space.size} rows, {len(grid.rows)} distinct, {len(grid.front_costs)} on the feasible front")
    runs: dict[str, Callable[[int, int], SearchResult]] = {e: partial(run_search, e, problem) for e in options.engines}
    if "ppo" in runs:
        start = time.perf_counter()
        policy = pretrained(options.fine)
        print(f"pre-trained on {PRETRAINING_CONTEXTS} other toys in {time.perf_counter() - start:.0f} s")
        runs["ppo, pre-trained"] = partial(run_search, "ppo", problem, policy=policy)

    print(f"{'engine':18}{'budget':>8}{'taken':>8}{'ratio mean':>12}{'least':>9}{'seconds':>9}")
    for budget in options.evaluations:
        for name, run in runs.items():
            results = [run(budget, seed) for seed in range(options.seeds)]
            ratios = [result.hypervolume_ratio for result in results]
            seconds = statistics.median(result.seconds for result in results)
            print(
                f"{name:18}{budget:8}{results[0].evaluations:8}{statistics.mean(ratios):12.4f}{min(ratios):9.4f}"
                f"{seconds:9.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

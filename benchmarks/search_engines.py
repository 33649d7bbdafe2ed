"""Compares the search engines: share of the best known predicted front's hypervolume, and seconds.

    python -m benchmarks.search_engines [--fine] [--evaluations 300 1000 3000] [--seeds 5]
    python -m benchmarks.search_engines --graphs citeseer actor squirrel_filtered --evaluations 3000

The first compares them on a toy, which is invented (see toy_problem.py): its figures say nothing about any graph. The
second does on what the surrogate predicts for graphs of the shipped profiles, in the whole default space, under the
default's limits (see predicted_problem.py). The best known front is the exhaustive one where the space can be
enumerated, and else that of everything that all engines found with all seeds and evaluations. Engines with a cap
(a3gnn.search.searcher.MAX_EVALUATIONS) show the evaluations that they took.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Iterator
from functools import partial

import numpy as np

from a3gnn.limits import Limits
from a3gnn.objectives import Objectives, Priority
from a3gnn.pareto import non_dominated
from a3gnn.search.grid import Grid
from a3gnn.search.normalised_hypervolume import NormalisedHypervolume
from a3gnn.search.problem import Problem
from a3gnn.search.result import SearchResult
from a3gnn.search.run import run_search
from a3gnn.search.searcher import ENGINES
from benchmarks.predicted_problem import predicted_problems
from benchmarks.toy_problem import ToyProblem


def toy_problem(fine: bool) -> Problem:
    """Returns the default toy under a limit of 1 GiB."""
    toy = ToyProblem()
    space = toy.space(fine)
    objectives = Objectives(Limits(host_bytes=2**30), Priority.parse("balanced"), has_device=False)
    return Problem(space, partial(toy.predict, space), objectives)


def problems(options: argparse.Namespace) -> Iterator[tuple[str, Problem]]:
    """Yields the problems that `options` name."""
    if options.graphs:
        yield from predicted_problems(options.graphs, options.priority)
    else:
        yield "fine toy" if options.fine else "toy", toy_problem(options.fine)


def compare(name: str, problem: Problem, options: argparse.Namespace) -> None:
    """Prints a line per budget and engine."""
    grid = Grid(problem) if problem.enumerable else None
    problem = problem if grid is None else dataclasses.replace(problem, predict=grid)
    found: dict[tuple[int, str], list[SearchResult]] = {
        (budget, engine): [run_search(engine, problem, budget, seed) for seed in range(options.seeds)]
        for budget in options.evaluations
        for engine in options.engines
    }
    fronts = [result.costs for results in found.values() for result in results if result.feasible]
    everything = np.concatenate(fronts) if grid is None else grid.front_costs
    best = everything[non_dominated(everything)]
    volume = NormalisedHypervolume.fit(best)
    whole = volume.measure(best)
    print(f"{name}: {problem.space.num_distinct:,} configurations, {len(best)} on the best known front")
    print(f"{'engine':12}{'budget':>8}{'taken':>8}{'ratio mean':>12}{'least':>9}{'seconds':>9}")
    for (budget, engine), results in found.items():
        ratios = [volume.measure(one.costs) / whole if one.feasible else 0.0 for one in results]
        seconds = statistics.median(one.seconds for one in results)
        taken = results[0].evaluations
        line = f"{engine:12}{budget:8}{taken:8}{statistics.mean(ratios):12.4f}{min(ratios):9.4f}{seconds:9.2f}"
        print(line, flush=True)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fine", action="store_true", help="a toy space ten times as large")
    parser.add_argument("--graphs", nargs="+", default=[], help="graphs of the shipped profiles, in place of the toy")
    parser.add_argument("--priority", default="throughput", help="with --graphs: what is searched for")
    parser.add_argument("--evaluations", type=int, nargs="+", default=[300, 1000, 3000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--engines", nargs="+", default=[e for e in ENGINES if e != "exhaustive"], choices=list(ENGINES)
    )
    options = parser.parse_args()
    for name, problem in problems(options):
        compare(name, problem, options)


if __name__ == "__main__":
    main()

"""Compares the search engines: share of the best known predicted front's hypervolume, and seconds.

    python -m benchmarks.search_engines [--graphs minesweeper dblp] [--evaluations 3000] [--seeds 5]

They search what the surrogate predicts for graphs of the shipped profiles, in the whole default space, under the
default's limits. The best known front is the exhaustive one where the space can be enumerated, and else that of
everything that all engines found with all seeds and evaluations. Engines with a cap
(a3gnn.search.searcher.MAX_EVALUATIONS) show the evaluations that they took.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from a3gnn.config import TrainConfig
from a3gnn.limits import Limits
from a3gnn.objectives import Objectives, Priority
from a3gnn.pareto import non_dominated
from a3gnn.prediction import Prediction
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn.search.baselines import Grid
from a3gnn.search.run import NormalizedHypervolume, SearchResult, run_search
from a3gnn.search.searchable import Problem
from a3gnn.search.searcher import ENGINES
from a3gnn.space import SearchSpace
from a3gnn_surrogate.surrogate import Surrogate

#: Those of docs/design/search.md.
GRAPHS = ["minesweeper", "dblp", "actor", "acm"]
#: Validation accuracy that may be lost against what is predicted of the default: a point, as by default in a tune.
_DROP = 0.01


def problems(graphs: list[str], priority: str) -> Iterator[tuple[str, Problem]]:
    """Yields for each of `graphs` its name and what a tune of it by `priority` searches.

    The limits are the default's: its memory as predicted by the upper bound, and its accuracy less a point.

    Raises:
        ValueError: The shipped profiles have no such graph.
    """
    rows = shipped_measurements()
    settings = {row.setting.graph.name: row.setting for row in rows}
    for name in graphs:
        if name not in settings:
            raise ValueError(f"graph must be one of the shipped profiles' {sorted(settings)}, got {name!r}")
        setting = settings[name]
        space = SearchSpace.of(setting)
        surrogate = Surrogate(seed=0).fit(rows, target=setting.graph.fingerprint)
        default = surrogate.predict([TrainConfig()], setting)
        limits = Limits(
            host_bytes=math.ceil(default.column("peak_host_bytes", "high")[0]),  # which the default itself keeps
            least_accuracy=float(default.column("val_accuracy")[0]) - _DROP,
        )

        def predict(
            rows: NDArray[np.int64], space: SearchSpace = space, surrogate: Surrogate = surrogate, name: str = name
        ) -> Prediction:
            return surrogate.predict(space.columns(rows), settings[name])

        objectives = Objectives(limits, Priority.parse(priority), setting.hardware.has_device)
        yield name, Problem(space, predict, objectives)


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
    volume = NormalizedHypervolume.fit(best)
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
    parser.add_argument("--graphs", nargs="+", default=GRAPHS, help="graphs of the shipped profiles")
    parser.add_argument("--priority", default="throughput", help="what is searched for")
    parser.add_argument("--evaluations", type=int, nargs="+", default=[3000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--engines", nargs="+", default=["local", "ppo", "random"], choices=list(ENGINES))
    options = parser.parse_args()
    for name, problem in problems(options.graphs, options.priority):
        compare(name, problem, options)


if __name__ == "__main__":
    main()

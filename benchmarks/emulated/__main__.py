"""Replays tunes by several engines on graphs of which grids were measured.

    python -m benchmarks.emulated [--grids FILE.jsonl.gz ...] [--seeds 4] [--priorities time throughput]
        [--engines NAME ...] [--budget 10] [--set CONSTANT=VALUE ...] [--profiles FILE.jsonl.gz] [--json FILE]

Any configuration of the default space can be tried, as in a tune. The true metrics are those of Gaussian processes that
are fitted to the grid alone (`benchmarks/emulated/graph.py`). Engine, racing, surrogate and choice are the tune's, and
the limit on memory is the baseline's peak. The surrogate has no row of the graph. Only trials take seconds. Each tune
begins with the baseline's trial, and ends after the seconds of --budget trials that train whole curves, ten by default.
--set gives constants of the package, such as MIN_GAIN, another value, in every module that has them.

Before the tunes of a graph it prints how many of the measured learning keys gain at least 1% within all limits.

Columns, means over graphs of the means over seeds: doublings of the score that the choice gains over the baseline,
after .3, .5 and all of the budget; its shortfall from the best known score at the end, in doublings; the shares of the
seconds in trials that failed or broke a limit, and in others that repeated a learning key; trials, and
the share of them with a new learning key. Then each engine less the first, paired, with standard errors over graphs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from a3gnn.objectives import Priority
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.tuning.engines.engine import Engine, make_engine
from a3gnn.tuning.engines.samplers import GpEngine, TpeEngine
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.curve_fits import fitted_ends, samples
from benchmarks.emulated.graph import EmulatedGraph, EmulatedTune, gaining_keys
from benchmarks.emulated.measured import by_setting
from benchmarks.report import add_profiles, profiles, write_report

GRIDS = Path(__file__).parents[1] / "results" / "grids"
#: Shares of the budget after which the choice is judged.
LOOKS = (0.3, 0.5, 1.0)
#: Makes the engine of a seed. Those named alone get no beliefs.
MAKE: Mapping[str, Callable[[int], Engine]] = {
    **{name: partial(make_engine, name) for name in ("ei", "ppo", "gp", "tpe", "nsga2", "random")},
    "gp alone": partial(GpEngine, with_beliefs=False),
    "tpe alone": partial(TpeEngine, with_beliefs=False),
}
Key = tuple[str, str, str, int]


def emulated(path: Path, options: argparse.Namespace) -> dict[Key, EmulatedTune]:
    """Returns the tunes on the graph whose grid is in `path`, by graph, priority, engine and seed."""
    corpus = profiles(options)
    (default,) = by_setting(list(read_measurements(path)))
    graph = default.rows[0].setting.graph
    others = [row for row in corpus if row.setting.graph.fingerprint != graph.fingerprint]
    surrogate, ends = Surrogate(seed=0).fit(others, graph.fingerprint), fitted_ends(samples(others))
    found = {}
    for seed in range(options.seeds):
        world = EmulatedGraph(default, surrogate, seed)
        for priority in options.priorities:
            wanted = Priority.parse(priority)
            gaining, keys = gaining_keys(world, others, wanted, options.budget)
            print(f"{graph.name[:24]} {priority} {seed}: {gaining} of {keys} measured learning keys gain")
            for name in options.engines:
                tune = EmulatedTune.run(world.anew(), others, ends, wanted, MAKE[name](seed), options.budget, seed)
                found[graph.name, priority, name, seed] = tune
                gains = ", ".join(f"{tune.after(look * options.budget):.2f}" for look in LOOKS)
                counts = f"{tune.trials} trials, {tune.keys} keys, {tune.broken:.0%} broken"
                print(f"{graph.name[:24]} {priority} {name} {seed}: {gains} of {tune.best:.2f}; {counts}", flush=True)
    return found


def lines(found: Mapping[Key, EmulatedTune], engines: Sequence[str], budget: float) -> list[str]:
    """Returns the tables, one per priority, of tunes with a `budget` of so many whole trials."""
    shown, looks = list[str](), [look * budget for look in LOOKS]
    for priority in dict.fromkeys(key[1] for key in found):
        cases = sorted({(graph, seed) for graph, wanted, _, seed in found if wanted == priority})
        tunes = {name: [found[graph, priority, name, seed] for graph, seed in cases] for name in engines}
        best = np.max([[one.best for one in own] for own in tunes.values()], axis=0)
        graphs = np.array([graph for graph, _ in cases])
        gains = {
            name: _by_graph(graphs, [[one.after(look) for look in looks] for one in tunes[name]]) for name in engines
        }
        heads = "".join(f"{f'gain @{look:g}':>10}" for look in looks)
        shown.append(f"{priority}: {len(cases)} tunes per engine, {len(set(graphs))} graphs")
        shown.append(f"{'engine':14}{heads}{'short':>8}{'broken':>8}{'repeats':>8}{'trials':>8}{'new':>6}")
        for name in engines:
            means = "".join(f"{value:10.2f}" for value in gains[name].mean(axis=0))
            short = float(np.mean([top - one.after(budget) for top, one in zip(best, tunes[name], strict=True)]))
            broken, repeated, trials, keys = (
                float(np.mean([getattr(one, field) for one in tunes[name]]))
                for field in ("broken", "repeated", "trials", "keys")
            )
            shares = f"{broken:8.0%}{repeated:8.0%}{trials:8.1f}{keys / max(trials, 1e-9):6.0%}"
            shown.append(f"{name:14}{means}{short:8.2f}{shares}")
        for name in engines[1:]:
            off = gains[name] - gains[engines[0]]
            errors = off.std(axis=0, ddof=1) / np.sqrt(len(off)) if len(off) > 1 else np.full(len(LOOKS), np.nan)
            parts = (f"{mean:+.2f} ({error:.2f})" for mean, error in zip(off.mean(axis=0), errors, strict=True))
            shown.append(f"{name} less {engines[0]}: {', '.join(parts)}")
    return shown


def _by_graph(graphs: NDArray[np.str_], values: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Returns the means of `values` (n, d) over the rows of each graph, float64, shape (n_graphs, d)."""
    every = np.array(values, dtype=np.float64)
    return np.stack([every[graphs == graph].mean(axis=0) for graph in np.unique(graphs)])


def set_constant(text: str) -> None:
    """Sets a constant, "NAME=NUMBER", in all loaded modules of the package that have it, or "MODULE.NAME=NUMBER".

    Values that were derived from it before keep what they are.

    Raises:
        ValueError: No module has such a number, modules have different ones, or the value is none.
    """
    place, _, value = text.rpartition("=")
    where, _, name = place.rpartition(".")
    loaded = [sys.modules[where]] if where else [sys.modules[key] for key in sys.modules if key.startswith("a3gnn")]
    having = [module for module in loaded if name in vars(module)]
    before = {vars(module)[name] for module in having if type(vars(module)[name]) in (int, float)}
    if len(before) != 1:
        raise ValueError(f"--set needs a number that is the same in all modules that have it, got {name}: {before}")
    for module in having:
        setattr(module, name, type(before.copy().pop())(value))


def main() -> None:
    """Prints a line per tune, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grids", type=Path, nargs="+", help="files of measured grids; by default the stored ones")
    parser.add_argument("--seeds", type=int, default=4, help="tunes of each graph by each engine")
    parser.add_argument("--priorities", nargs="+", default=["time", "throughput"])
    parser.add_argument("--engines", nargs="+", default=["ppo", "ei", "gp", "tpe"], choices=list(MAKE))
    parser.add_argument(
        "--budget",
        type=float,
        default=10.0,
        help="a tune's seconds for trials, in those of trials that train whole curves",
    )
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="CONSTANT=VALUE", help="other values of constants"
    )
    add_profiles(parser)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    for text in options.set:
        set_constant(text)
    found: dict[Key, EmulatedTune] = {}
    for path in options.grids or sorted(GRIDS.glob("*.jsonl.gz")):
        found |= emulated(path, options)
    print("\n".join(lines(found, options.engines, options.budget)))
    if options.json:
        names = ("graph", "priority", "engine", "seed")
        rows = [dict(zip(names, key, strict=True)) | tune._asdict() for key, tune in found.items()]
        write_report(options.json, rows=rows, budget=options.budget, constants=options.set)


if __name__ == "__main__":
    main()

"""Replays the whole rule by which a tune chooses its trials, beside other rules, on graphs that grids were measured of.

    python -m benchmarks.emulated_tunes [--grids FILE.jsonl.gz ...] [--seeds 4] [--priorities time throughput]
        [--rules NAME ...] [--profiles FILE.jsonl.gz] [--json FILE]

`benchmarks.decisions` replays what may be chosen of a grid; here any configuration of the default space can be tried,
as in a tune: what is true of it is as Gaussian processes say that are fitted to the grid alone
(`benchmarks/acquisition/emulated.py`). Proposals, racing, surrogate and choice are the tune's, and the limit on memory
is what the default takes. Seconds pass for trials alone. Each tune begins with the default and ends after the seconds
of ten trials that train whole curves.

Columns, means over graphs and seeds: doublings of the score that what would be chosen gains over the default, after
the seconds of 3, 5 and 10 whole trials; by how much the last falls short of the best that is known; the share of the
seconds in trials that failed or broke a limit; trials. Then each rule less the first, paired, with standard errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from a3gnn.objectives import Priority
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.tuning.engines.propose import ROUND_TRIALS, propose
from a3gnn.tuning.run.rounds import Proposer
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.acquisition.emulated import EmulatedGraph, EmulatedTune
from benchmarks.acquisition.replays import by_setting
from benchmarks.acquisition.sampler_proposals import SAMPLERS, SamplerProposals
from benchmarks.report import add_profiles, profiles, write_report

GRIDS = Path(__file__).parent / "results" / "grids"
#: Whole trials' worth of seconds after which is looked.
LOOKS = (3.0, 5.0, 10.0)
_OWN, _FOUR = "a3gnn", "rounds of 4"
#: Makes what proposes trials, of a seed.
RULES: Mapping[str, Callable[[int], Proposer]] = {
    _OWN: lambda seed: propose,
    _FOUR: lambda seed: partial(propose, trials=ROUND_TRIALS),
    **{name: lambda seed, make=make: SamplerProposals(make, seed) for name, make in SAMPLERS.items()},
}


def emulated(path: Path, options: argparse.Namespace) -> dict[tuple[str, str, str, int], EmulatedTune]:
    """Returns the tunes on the graph whose grid is in `path`, by graph, priority, rule and seed."""
    corpus = profiles(options)
    (default,) = by_setting(list(read_measurements(path)))
    graph = default.rows[0].setting.graph
    others = [row for row in corpus if row.setting.graph.fingerprint != graph.fingerprint]
    surrogate = Surrogate(seed=0).fit(others, graph.fingerprint)
    found = {}
    for priority in options.priorities:
        for seed in range(options.seeds):
            for rule in options.rules:
                world = EmulatedGraph(default, surrogate, seed)
                proposer = RULES[rule](seed)
                tune = EmulatedTune.run(world, others, Priority.parse(priority), proposer, LOOKS[-1], seed)
                found[graph.name, priority, rule, seed] = tune
                gains = ", ".join(f"{tune.after(look):.2f}" for look in LOOKS)
                print(f"{graph.name[:24]} {priority} {rule} {seed}: {gains} of {tune.best:.2f}", flush=True)
    return found


def lines(found: Mapping[tuple[str, str, str, int], EmulatedTune], rules: Sequence[str]) -> list[str]:
    """Returns the tables, one per priority."""
    shown: list[str] = []
    for priority in dict.fromkeys(key[1] for key in found):
        cases = sorted({(graph, seed) for graph, wanted, _, seed in found if wanted == priority})
        tunes = {rule: [found[graph, priority, rule, seed] for graph, seed in cases] for rule in rules}
        best = np.max([[one.best for one in of_rule] for of_rule in tunes.values()], axis=0)
        gains = {rule: np.array([[one.after(look) for look in LOOKS] for one in tunes[rule]]) for rule in rules}
        heads = "".join(f"{f'gain @{look:g}':>10}" for look in LOOKS)
        shown.append(f"{priority}: {len(cases)} tunes per rule")
        shown.append(f"{'rule':14}{heads}{'short':>8}{'broken':>8}{'trials':>8}")
        for rule in rules:
            means = "".join(f"{value:10.2f}" for value in gains[rule].mean(axis=0))
            short = float((best - gains[rule][:, -1]).mean())
            broken, trials = (np.mean([getattr(one, name) for one in tunes[rule]]) for name in ("broken", "trials"))
            shown.append(f"{rule:14}{means}{short:8.2f}{broken:8.0%}{trials:8.1f}")
        for rule in rules[1:]:
            off = gains[rule] - gains[rules[0]]
            errors = off.std(axis=0, ddof=1) / np.sqrt(len(off)) if len(off) > 1 else np.full(len(LOOKS), np.nan)
            parts = (f"{mean:+.2f} ({error:.2f})" for mean, error in zip(off.mean(axis=0), errors, strict=True))
            shown.append(f"{rule} less {rules[0]}: {', '.join(parts)}")
    return shown


def main() -> None:
    """Prints a line per tune, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grids", type=Path, nargs="+", help="files of measured grids; by default those that are here")
    parser.add_argument("--seeds", type=int, default=4, help="tunes of each graph by each rule")
    parser.add_argument("--priorities", nargs="+", default=["time", "throughput"])
    parser.add_argument("--rules", nargs="+", default=[_OWN, _FOUR, "Optuna GP", "Optuna TPE"], choices=list(RULES))
    add_profiles(parser)
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    found: dict[tuple[str, str, str, int], EmulatedTune] = {}
    for path in options.grids or sorted(GRIDS.glob("*.jsonl.gz")):
        found |= emulated(path, options)
    print("\n".join(lines(found, options.rules)))
    if options.json:
        names = ("graph", "priority", "rule", "seed")
        rows = [dict(zip(names, key, strict=True)) | tune._asdict() for key, tune in found.items()]
        write_report(options.json, rows=rows)


if __name__ == "__main__":
    main()

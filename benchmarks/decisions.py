"""Replays rules of acquisition on measured grids, and prints the tables by which they are judged.

    python -m benchmarks.decisions [NETWORK ...] --grids FILE.jsonl.gz ... [--profiles FILE.jsonl.gz] [--seeds 5]

A grid is a file of `python -m benchmarks.grids`. Every rule begins with the default's trial and has the same surrogate,
fitted to the profiles without the grid's graph, and the same budget: what ten whole trials take. What is true is the
median of a configuration's replicates; a replay draws one of them for each trial, and limits on memory; peaks are those
of trainings (`a3gnn_surrogate.memory`). Per priority:

    regret   share of the best score that the choice at the end of the budget loses, median and worst; 0 within noise
    close    whole trials' worth of seconds until the choice is within 5 % of the best; the budget where that never is
    reached  share of replays in which it ever is
    broken   share of seconds in trials that fail or break a limit

In brackets: standard errors of means over replays, all grids together, each drawn with --seeds seeds. A row per network
and one of them all; the last table is networks less the baseline, paired.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.objectives import Priority
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.profiling.store.shipped import shipped_measurements
from a3gnn.seeding import generator
from a3gnn_envs.acquisition.observation import ALLOWED, FEATURE_COLUMNS, observe
from a3gnn_envs.acquisition.scorer import Scorer
from a3gnn_envs.acquisition.studies import FIDELITIES, Studies
from a3gnn_envs.acquisition.world import Floats, World
from benchmarks.acquisition.compare import Rule, rules
from benchmarks.acquisition.goals import Goals, goals
from benchmarks.acquisition.optuna_rules import optuna_rules
from benchmarks.acquisition.replays import Grid, held_out_grids
from benchmarks.acquisition.suggester import SAMPLERS

PRIORITIES = ("time", "throughput", "memory", "balanced", "accuracy")
#: Whole trials that the budget is worth.
TRIALS = 10.0
_BASELINE, _NETWORKS = "gain per second", "networks, all"
#: What is not ours.
_RIVALS = ("best predicted", "random", "untrained network", *SAMPLERS)


def untrained(seed: int) -> Rule:
    """Returns the rule of a network as it is initialised, without what trials are worth: those are no part of it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        scorer = Scorer()
        scorer.layers[-1].reset_parameters()

    @torch.no_grad()
    def rule(studies: Studies) -> NDArray[np.int64]:
        observed = torch.from_numpy(observe(studies, np.zeros(len(studies.over))))
        logits = scorer.layers(observed[..., FEATURE_COLUMNS]).masked_fill(observed[..., ALLOWED] < 0.5, -np.inf)
        flat = logits.flatten(start_dim=1)[:, : studies.timed.shape[1] * FIDELITIES + 1]
        return np.asarray(flat.argmax(dim=1).numpy())

    return rule


def replay(grids: Sequence[Grid], networks: list[Path], priority: Priority, seeds: int) -> dict[str, Goals]:
    """Returns what each rule comes to on all grids by `priority`, by its name."""
    found: dict[str, list[Goals]] = {}
    for number, grid in enumerate(grids):
        worlds = [_world(grid, priority, generator(seed, "decisions", number)) for seed in range(seeds)]
        every = {**rules(networks), "untrained network": untrained(number), **optuna_rules(grid, number)}
        for name, rule in every.items():
            found.setdefault(name, []).append(goals(rule, grid, worlds))
    joined = {name: Goals.joined(parts) for name, parts in found.items()}
    if networks:
        own = [joined[str(path)] for path in networks]
        joined[_NETWORKS] = Goals(*(np.mean(part, axis=0) for part in zip(*own, strict=True)))
    return joined


def _world(grid: Grid, priority: Priority, random: np.random.Generator) -> World:
    return grid.world(np.arange(len(grid.configs)), priority, random, TRIALS)


def lines(found: dict[str, Goals]) -> list[str]:
    """Returns the table of one priority."""
    shown = [f"{'rule':26}{'regret':>8}{'worst':>8}{'close':>8}{'(se)':>7}{'reached':>9}{'broken':>8}{'(se)':>7}"]
    for name, one in found.items():
        shown.append(
            f"{name[-25:]:26}{np.median(one.regret):8.1%}{one.regret.max():8.1%}{one.close_s.mean():8.2f}"
            f"{_error(one.close_s):7.2f}{one.came_close.mean():9.0%}{one.broken.mean():8.0%}{_error(one.broken):7.0%}"
        )
    best = min(_RIVALS, key=lambda name: float(found[name].close_s.mean()))
    ratio = found[_BASELINE].close_s.mean() / max(found[best].close_s.mean(), 1e-9)
    shown.append(f"{_BASELINE}: {ratio:.2f} x the seconds of the best rival, {best}, to come close")
    if _NETWORKS in found:
        shown.append(_beside(found[_NETWORKS], found[_BASELINE]))
    return shown


def _beside(networks: Goals, baseline: Goals) -> str:
    """Returns the line that compares networks with the baseline, paired."""
    parts = []
    for label, name in (("regret", "regret"), ("close", "close_s"), ("broken", "broken")):
        off = getattr(networks, name) - getattr(baseline, name)
        parts.append(f"{label} {off.mean():+.3f} ({_error(off):.3f})")
    ratio = networks.close_s.mean() / max(baseline.close_s.mean(), 1e-9)
    return f"{_NETWORKS}, less {_BASELINE}: {', '.join(parts)}; {ratio:.2f} x its seconds to come close"


def _error(values: Floats) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def main() -> None:
    """Prints a table per priority."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", type=Path, nargs="*", help="folders of stored networks")
    parser.add_argument("--grids", type=Path, nargs="+", required=True, help="files of measured grids")
    parser.add_argument("--profiles", type=Path, help="other measurements to fit than those that ship")
    parser.add_argument("--priorities", nargs="+", default=PRIORITIES)
    parser.add_argument("--seeds", type=int, default=5, help="replays of each grid and priority")
    options = parser.parse_args()
    corpus = list(read_measurements(options.profiles)) if options.profiles else shipped_measurements()
    measured = [row for path in options.grids for row in read_measurements(path)]
    grids = held_out_grids(measured, corpus)
    for name in options.priorities:
        print(f"{name}: {len(grids)} grids, {options.seeds} replays of each, {TRIALS:g} whole trials' worth of seconds")
        print("\n".join(lines(replay(grids, options.networks, Priority.parse(name), options.seeds))), flush=True)


if __name__ == "__main__":
    main()

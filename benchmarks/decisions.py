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
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.objectives import Priority
from a3gnn.profiling.store.jsonl import read_measurements
from a3gnn.seeding import generator
from a3gnn_envs.acquisition.observation import ALLOWED, FEATURE_COLUMNS, observe
from a3gnn_envs.acquisition.scorer import Scorer
from a3gnn_envs.acquisition.studies import FIDELITIES, Studies
from a3gnn_envs.acquisition.world import Floats, World
from benchmarks.acquisition.compare import Rule, follow, rules
from benchmarks.acquisition.optuna_rules import optuna_rules
from benchmarks.acquisition.replays import Grid, held_out_grids
from benchmarks.acquisition.sampler_proposals import SAMPLERS
from benchmarks.report import add_profiles, profiles

#: How close to the best counts as there: 5 % of the score.
_CLOSE = np.log2(1.05)
#: Standard deviation of the median of many normal values beside that of their mean.
_MEDIAN = np.sqrt(np.pi / 2)


class Goals(NamedTuple):
    """Figures of replays, float64, shape (n,) each.

    Attributes:
        regret: Share of the best score that the choice at the end of the budget loses; 0 where that is within the noise
            of the two configurations' measurements.
        close_s: Seconds of trials until the choice would come within 5 % of the best, over those of a whole trial; the
            whole budget where that never happens.
        came_close: 1 where it happens, else 0.
        broken: Share of the seconds that went to trials which failed, or of what breaks a limit as measured.
    """

    regret: Floats
    close_s: Floats
    came_close: Floats
    broken: Floats

    @classmethod
    def joined(cls, parts: list[Goals]) -> Self:
        """Returns the figures of all replays together."""
        return cls(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def goals(rule: Rule, grid: Grid, worlds: list[World]) -> Goals:
    """Returns what `rule` comes to in `worlds`, which are of the whole of `grid` in its order."""
    studies = Studies(World.stack(worlds, len(grid.configs)))
    kept, true = studies.keeps_truly(), studies.true_score()
    best = np.where(kept, true, -np.inf).max(axis=1)
    breaks = ~studies.keeps_limits(studies.world.measured) | studies.world.crashes
    at = np.arange(len(worlds))
    broken_s, close_s = np.zeros(len(worlds)), np.where(_is_close(studies, best), 0.0, np.inf)
    for step in follow(rule, studies):
        broken_s += np.where(breaks[at, step.candidate], step.seconds, 0.0)
        close_s = np.where(np.isinf(close_s) & _is_close(studies, best), studies.spent_s, close_s)
    whole_s, budget_s = studies.world.start_s + studies.world.curve_s, studies.world.budget_s
    lost = np.where(
        np.isfinite(best), best - studies.objective(), 0.0
    )  # nothing to lose where nothing keeps the limits
    lost = np.where(lost <= _noise(studies, grid, best), 0.0, lost)
    return Goals(
        regret=1 - np.exp2(-lost),
        close_s=np.minimum(close_s, budget_s) / whole_s,
        came_close=np.isfinite(close_s).astype(np.float64),
        broken=broken_s / np.maximum(studies.spent_s, 1e-9),
    )


def _is_close(studies: Studies, best: Floats) -> NDArray[np.bool_]:
    return np.asarray(best - studies.objective() <= _CLOSE)


def _noise(studies: Studies, grid: Grid, best: Floats) -> Floats:
    """Returns the standard deviation of the difference of the choice's and the best's true scores, shape (n,).

    Both are medians of replicates, whose variance is pooled over the grid.
    """
    counts = np.array([found.shape[1] for found in grid.replicates])
    squares = sum(
        ((found - found.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for found in grid.replicates if found.shape[1]
    )
    degrees = np.maximum(counts - 1, 0).sum()
    variance = np.asarray(squares) / max(degrees, 1)
    weights, true = studies.world.weights, studies.true_score()
    total = np.zeros(len(best))
    for score in (best, studies.objective()):
        count = np.maximum(counts[np.abs(true - score[:, None]).argmin(axis=1)], 1)
        total += (weights**2 @ variance) * np.where(count > 1, _MEDIAN**2, 1.0) / count
    return np.sqrt(total)


PRIORITIES = ("time", "throughput", "memory", "balanced", "accuracy")
#: Whole trials that the budget is worth.
TRIALS = 10.0
_BASELINE, _NETWORKS = "gain per second", "networks, all"
#: What is not ours.
_RIVALS = ("best predicted", "random", "untrained network", *SAMPLERS)


def untrained(seed: int) -> Rule:
    """Returns the rule of a network as it is initialized, without what trials are worth: those are no part of it."""
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
    add_profiles(parser)
    parser.add_argument("--priorities", nargs="+", default=PRIORITIES)
    parser.add_argument("--seeds", type=int, default=5, help="replays of each grid and priority")
    options = parser.parse_args()
    corpus = profiles(options)
    measured = [row for path in options.grids for row in read_measurements(path)]
    grids = held_out_grids(measured, corpus)
    for name in options.priorities:
        print(f"{name}: {len(grids)} grids, {options.seeds} replays of each, {TRIALS:g} whole trials' worth of seconds")
        print("\n".join(lines(replay(grids, options.networks, Priority.parse(name), options.seeds))), flush=True)


if __name__ == "__main__":
    main()

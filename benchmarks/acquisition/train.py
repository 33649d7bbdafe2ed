"""Trains the learned acquisition on simulated worlds, and may go on with replays of measured grids.

    python -m benchmarks.acquisition.train [--seeds 0 1 2] [--steps 200000] [--folder runs/acquisition]
    python -m benchmarks.acquisition.train --replay --start runs/acquisition/0 --seeds 0 --folder runs/replayed

Worlds are drawn from what a surrogate that is fitted to the profiles believes of their settings; with --replay they are
the profiles' own grids, each believed by a surrogate that was fitted to the other graphs. Each seed's network is stored
in FOLDER/SEED. `benchmarks.acquisition.compare` says what it gains.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from a3gnn_envs.acquisition.scorer import Scorer
from a3gnn_envs.acquisition.scorer_training import train_scorer
from a3gnn_envs.acquisition.simulated import SimulatedWorlds
from a3gnn_envs.acquisition.world import Worlds
from benchmarks.acquisition.replays import ReplayWorlds, held_out_grids, simulated_priors
from benchmarks.report import add_profiles, profiles


def main() -> None:
    """Trains a network per seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=200_000, help="simulated trials of a training")
    parser.add_argument("--candidates", type=int, default=64, help="of a world; a network takes any number later")
    parser.add_argument("--replay", action="store_true", help="train on measured grids")
    parser.add_argument("--start", type=Path, help="a stored network to go on from, in place of the baseline")
    add_profiles(parser)
    parser.add_argument("--folder", type=Path, default=Path("runs/acquisition"), help="where networks are stored")
    options = parser.parse_args()
    rows = profiles(options)
    worlds: Worlds
    if options.replay:
        worlds = ReplayWorlds(held_out_grids(rows), options.candidates)
    else:
        worlds = SimulatedWorlds(simulated_priors(rows), options.candidates)
    start = None if options.start is None else Scorer.load(options.start)
    for seed in options.seeds:
        began = time.monotonic()
        scorer = train_scorer(worlds, options.steps, seed, options.candidates, start)
        told = {"seed": seed, "steps": options.steps, "candidates": options.candidates, "replay": options.replay}
        scorer.save(options.folder / str(seed), told)
        print(f"seed {seed}: {options.steps} trials in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()

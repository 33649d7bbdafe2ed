"""Trains a controller with PPO on random simulated platforms: python -m benchmarks.hybrid.learn FOLDER --minutes 5.

What is in FOLDER is gone on with. `python -m benchmarks.hybrid management --learned FOLDER` judges it on platforms that
it has not seen: training draws seeds from 10,000 on, and those that are judged are below.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from a3gnn.hybrid.assignment import Assignment
from a3gnn.hybrid.control.controller import ShareBounds
from a3gnn.hybrid.control.learned import NUM_ACTIONS, NUM_OBSERVED, Network, Situation
from a3gnn.hybrid.simulation.training import SimulatedTraining, Static
from a3gnn.training.adapting.drift import iteration_of
from a3gnn.training.adapting.stage_times import StageTimes
from a3gnn_envs.management.management_env import ManagementEpisodes
from a3gnn_envs.management.manager_training import PRIOR, ManagerTraining
from benchmarks.hybrid.management import bounds_of
from benchmarks.hybrid.platforms import random_start, random_training

#: Platforms below this seed are those that controllers are judged on.
_HELD_OUT = 10_000
#: Mini-batches of a step that fill the pipeline, that are measured, and that drain it; fewer than what is judged has.
_FILL, _MEASURED, _DRAIN = 4, 4, 3
#: Episodes at once.
_ENVS = 32


class SimulatedRun:
    """Training on a simulated platform, whose division actions change (`a3gnn_envs.management.management_env.Run`)."""

    def __init__(self, training: SimulatedTraining, start: Assignment, bounds: ShareBounds) -> None:
        self._training, self._situation, self._number = training, Situation(bounds), 0
        self._go_on(start)

    @classmethod
    def drawn(cls, random: np.random.Generator) -> SimulatedRun:
        """Returns a run on a platform that is none of those that are judged."""
        seed = int(random.integers(_HELD_OUT, 2**31))
        training = random_training(seed)
        return cls(training, random_start(training, seed), bounds_of(training))

    def observe(self) -> NDArray[np.float32]:
        """Returns what `Situation` sees of the current division."""
        return self._seen

    def step(self, action: int) -> tuple[float, bool]:
        """Returns the seconds of an iteration after the action, and whether it changed the division."""
        before = self._assignment
        self._go_on(self._situation.act(action))
        return self.seconds, self._assignment != before

    def _go_on(self, assignment: Assignment) -> None:
        self._assignment, self._number = assignment, self._number + 1
        times = measured(self._training, assignment, self._number)
        self.seconds, self._seen = iteration_of(times), self._situation.see(assignment, times)


def measured(training: SimulatedTraining, assignment: Assignment, number: int) -> StageTimes:
    """Returns the mean over a few mini-batches of a full pipeline; other numbers have other jitter."""
    one = SimulatedTraining(
        training.platform, training.model, training.counts, training.schedule, training.seed + number
    )
    times = one.run(Static(assignment, _FILL + _MEASURED + _DRAIN)).times
    return StageTimes.mean(times[_FILL : _FILL + _MEASURED])


def train(folder: Path, minutes: float, seed: int) -> None:
    """Trains for so long, and writes the state and the network as they come."""
    end = monotonic() + 60 * minutes
    training = ManagerTraining(
        ManagementEpisodes(SimulatedRun.drawn, _ENVS, NUM_OBSERVED, NUM_ACTIONS), seed, folder / "state.pt"
    )
    while monotonic() < end:
        training.train(4)
        weights = {name: value.numpy() for name, value in training.policy.actor.state_dict().items()}
        Network(weights, PRIOR).save(folder, {"steps": training.steps, "seed": seed})
        print(f"{training.steps} steps: {training.reward:+.3f} doublings per episode", flush=True)


def main() -> None:
    """Trains as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the training; what is there is gone on with")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    train(options.folder, options.minutes, options.seed)


if __name__ == "__main__":
    main()

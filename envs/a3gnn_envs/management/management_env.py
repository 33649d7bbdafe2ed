"""The environment of management: how to divide a mini-batch's work and the host's threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a3gnn_envs.episodes import Episodes, SingleEnv

# Guesses.
#: Steps of an episode, within which a controller has to settle (HyScale-GNN's shapes are judged after as many).
HORIZON = 20
#: The discount factor for this horizon.
DISCOUNT = 0.95
#: Cost of a change in doublings of an iteration: the pipeline drains and fills again.
CHANGE_COST = 0.005


class Run(Protocol):
    """A training in progress on one platform, whose division can be changed."""

    def observe(self) -> NDArray[np.float32]:
        """Returns the measurements of the current division, float32, shape (num_observed,)."""

    def step(self, action: int) -> tuple[float, bool]:
        """Changes the division; returns the seconds from one mini-batch to the next, and whether it changed."""

    @property
    def seconds(self) -> float:
        """Seconds from one mini-batch to the next now."""


#: Starts a training on a platform that the generator draws.
Draw = Callable[[np.random.Generator], Run]


class ManagementEpisodes(Episodes):
    """Episodes of `ManagementEnv`, batched.

    Args:
        draw: Starts a training on a platform.
        num_envs: Number of episodes.
        num_observed: Length of an observation.
        num_actions: Number of actions.
    """

    action_space: spaces.Discrete

    def __init__(self, draw: Draw, num_envs: int, num_observed: int, num_actions: int) -> None:
        super().__init__(num_envs)
        self.observation_space = spaces.Box(-2.0, 2.0, (num_observed,), np.float32)
        self.action_space = spaces.Discrete(num_actions)
        self._draw = draw
        self._steps = np.zeros(num_envs, dtype=np.int64)

    def reset(self, where: NDArray[np.bool_]) -> None:
        """Starts trainings on newly drawn platforms at `where`."""
        if where.all():
            self._runs = [self._draw(self.np_random) for _ in range(self.num_envs)]
        else:
            for place in np.flatnonzero(where):
                self._runs[place] = self._draw(self.np_random)
        self._steps[where] = 0

    def observe(self) -> NDArray[np.float32]:
        """Returns the observation of each run, float32, shape (num_envs, num_observed)."""
        return np.stack([run.observe() for run in self._runs])

    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Returns the doublings of speed by each action, less its cost, and which episodes are over."""
        rewards = np.zeros(self.num_envs, dtype=np.float32)
        for place, (run, action) in enumerate(zip(self._runs, actions.tolist(), strict=True)):
            before = run.seconds
            after, changed = run.step(action)
            rewards[place] = np.log2(before / after) - CHANGE_COST * changed
        self._steps += 1
        return rewards, self._steps == HORIZON


class ManagementEnv(SingleEnv):
    """Divide a mini-batch's work and the host's threads by measurements (HyScale-GNN, section IV-A).

    ## Observation: `Box`, float32, shape (num_observed,)
    The run's measurements, in [-2, 2]. For simulated platforms `a3gnn.hybrid.control.learned.Situation` has the table.

    ## Action: `Discrete(num_actions)`
    The run decides what an action does. On simulated platforms: stay, go back to the fastest measured division, or one
    of `a3gnn.hybrid.control.learned.MOVES`, which are Algorithm 1's by several amounts.

    ## Reward
    log2 of the iteration's seconds before the action over those after it, less 0.005 for a change. Rewards sum to the
    doublings of speed that an episode gained, less the cost of its changes.

    ## Start
    A random division on a random platform.

    ## End
    Terminates after 20 steps. They are not observed: a controller at work doesn't know when training ends. Meant for a
    discount factor of 0.95.

    ## Arguments
    `draw`: starts a training on a platform; `num_observed`, `num_actions`: as above.

    ## Version
    v0: first.
    """

    def __init__(self, draw: Draw, num_observed: int, num_actions: int, render_mode: None = None) -> None:
        super().__init__(ManagementEpisodes(draw, 1, num_observed, num_actions), render_mode)

"""The environment of management: what of a mini-batch's work, and of the host's threads, goes from where to where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a3gnn_envs.episodes import Episodes, SingleEnv

# Guesses.
#: Steps of an episode: what a controller has to settle in (HyScale-GNN's shapes are judged after as many).
HORIZON = 20
#: The discount factor for this horizon.
DISCOUNT = 0.95
#: What a change costs, in doublings of an iteration: the pipeline drains, and fills with others.
CHANGE_COST = 0.005


class Run(Protocol):
    """Training under way on one platform, whose division can be changed."""

    def observe(self) -> NDArray[np.float32]:
        """Returns what was measured of the current division, float32, shape (num_observed,)."""

    def step(self, action: int) -> tuple[float, bool]:
        """Changes the division, and returns the seconds from one mini-batch to the next, and whether it did change."""

    @property
    def seconds(self) -> float:
        """From one mini-batch to the next now."""


#: Begins to train on a platform that the generator draws.
Draw = Callable[[np.random.Generator], Run]


class ManagementEpisodes(Episodes):
    """Episodes of `ManagementEnv`, batched.

    Args:
        draw: Begins to train on a platform.
        num_envs: Episodes at once.
        num_observed: Length of an observation.
        num_actions: Actions that there are.
    """

    action_space: spaces.Discrete

    def __init__(self, draw: Draw, num_envs: int, num_observed: int, num_actions: int) -> None:
        super().__init__(num_envs)
        self.observation_space = spaces.Box(-2.0, 2.0, (num_observed,), np.float32)
        self.action_space = spaces.Discrete(num_actions)
        self._draw = draw
        self._steps = np.zeros(num_envs, dtype=np.int64)

    def reset(self, where: NDArray[np.bool_]) -> None:
        """Begins to train on newly drawn platforms at `where`."""
        if where.all():
            self._runs = [self._draw(self.np_random) for _ in range(self.num_envs)]
        else:
            for place in np.flatnonzero(where):
                self._runs[place] = self._draw(self.np_random)
        self._steps[where] = 0

    def observe(self) -> NDArray[np.float32]:
        """Returns what is seen of each run, float32, shape (num_envs, num_observed)."""
        return np.stack([run.observe() for run in self._runs])

    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Returns the doublings of an iteration that each action saved, less its cost, and which episodes are over."""
        rewards = np.zeros(self.num_envs, dtype=np.float32)
        for place, (run, action) in enumerate(zip(self._runs, actions.tolist(), strict=True)):
            before = run.seconds
            after, changed = run.step(action)
            rewards[place] = np.log2(before / after) - CHANGE_COST * changed
        self._steps += 1
        return rewards, self._steps == HORIZON


class ManagementEnv(SingleEnv):
    """Divide a mini-batch's work and the host's threads by what was measured (HyScale-GNN, section IV-A).

    ## Observation: `Box`, float32, shape (num_observed,)
    What the run tells: for simulated platforms `a3gnn.hybrid.control.learned.Situation` has the table.
    Numbers are in [-2, 2].

    ## Action: `Discrete(num_actions)`
    What the run does with it: for simulated platforms stay, go back to the fastest division that was measured, or one
    of `a3gnn.hybrid.control.learned.MOVES`: what Algorithm 1 can do, by several amounts.

    ## Reward
    The logarithm to base 2 of the iteration's seconds before the action over those after it, less 0.005 for a change:
    rewards sum to the doublings of speed that an episode gained, less the cost of its changes.

    ## Start
    A division as bad as chance makes it, on a platform that chance makes.

    ## End
    Terminates after 20 steps. They are not observed: a controller at work doesn't know when training ends. Meant for a
    discount factor of 0.95.

    ## Arguments
    `draw`: begins to train on a platform; `num_observed`, `num_actions`: as above.

    ## Version
    v0: first.
    """

    def __init__(self, draw: Draw, num_observed: int, num_actions: int, render_mode: None = None) -> None:
        super().__init__(ManagementEpisodes(draw, 1, num_observed, num_actions), render_mode)

"""The environment of acquisition: which trial of a study comes next, at which fidelity, and when to stop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a3gnn_envs.acquisition.observation import BOUND, NUM_COLUMNS, observe
from a3gnn_envs.acquisition.studies import FIDELITIES, Studies
from a3gnn_envs.acquisition.trial_values import run_baseline
from a3gnn_envs.acquisition.world import World, Worlds
from a3gnn_envs.episodes import Episodes, SingleEnv

#: Largest number of candidates of a world, by default. Guess.
NUM_CANDIDATES = 128


class _Start(NamedTuple):
    """A world, and the utility that the baseline reaches in it."""

    world: World
    utility: float


class AcquisitionEpisodes(Episodes):
    """Episodes of `AcquisitionEnv`, batched.

    Attributes:
        studies: The studies in progress, one per episode.
        baseline: The utility that the baseline reaches in the world of each study, float64, shape (num_envs,).
    """

    action_space: spaces.Discrete

    def __init__(self, worlds: Worlds, num_envs: int, num_candidates: int = NUM_CANDIDATES) -> None:
        super().__init__(num_envs)
        self.observation_space = spaces.Box(-BOUND, BOUND, (num_candidates + 1, NUM_COLUMNS), np.float32)
        self.action_space = spaces.Discrete(num_candidates * FIDELITIES + 1)
        self._worlds, self._num_candidates = worlds, num_candidates
        self._drawn: list[_Start] = []

    def reset(self, where: NDArray[np.bool_]) -> None:
        """Starts new studies at `where`, in newly drawn worlds."""
        if where.all():
            self._drawn = []  # worlds drawn by another seed
        starts = [self._next() for _ in range(int(where.sum()))]
        studies = Studies(World.stack([start.world for start in starts], self._num_candidates))
        baseline = np.array([start.utility for start in starts])
        if where.all():
            self.studies, self.baseline, self._first = studies, baseline, studies.utility()
        else:
            self.studies.replace(np.flatnonzero(where), studies)
            self.baseline[where], self._first[where] = baseline, studies.utility()

    def observe(self) -> NDArray[np.float32]:
        """Returns the observations, float32, shape (num_envs, num_candidates + 1, NUM_COLUMNS)."""
        return observe(self.studies, self.baseline)

    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Returns the changes of utility, at the end less the baseline's gain, and which studies are over."""
        before = self.studies.utility()
        self.studies.run(actions)
        over, after = self.studies.over.copy(), self.studies.utility()
        paired = np.where(over, self.baseline - self._first, 0.0)
        return (after - before - paired).astype(np.float32), over

    def _next(self) -> _Start:
        """Returns a newly drawn world; worlds are drawn, and the baseline is run in them, `num_envs` at a time."""
        if not self._drawn:
            worlds = [self._worlds.draw(self.np_random) for _ in range(self.num_envs)]
            studies = Studies(World.stack(worlds, self._num_candidates))
            run_baseline(studies)
            self._drawn = [_Start(world, float(found)) for world, found in zip(worlds, studies.utility(), strict=True)]
        return self._drawn.pop(0)


class AcquisitionEnv(SingleEnv):
    """Choose which trial of a study comes next, at which fidelity, or stop.

    A study looks for the configuration of the best score that keeps the limits. It begins with a whole trial of the
    default, row 0. A trial measures the costs of one candidate with noise; a Gaussian process infers the others' from
    it. At the end, the three best candidates as measured and the default meet in a play-off.

    ## Observation: `Box(-20, 20)`, float32, shape (num_candidates + 1, 34)

    A row per candidate, in any order, and a last one for stopping. Rows of missing candidates are 0. Scores, speed and
    memory are in doublings; a unit of accuracy is two points. Logarithms of probabilities are natural and at least -10.
    In the row of stopping, features are 0 unless the table says otherwise.

    | index    | meaning                                                                                             |
    |----------|-----------------------------------------------------------------------------------------------------|
    | 0 .. 2   | whether a trial is allowed at each fidelity: timing, quarter, whole; stopping always is, as timing  |
    | 3 .. 5   | log value by the baseline: expected improvement x probability of feasibility per share               |
    |          | of the budget; for stopping, 1.5 less than the largest allowed one                                  |
    | 6        | is_stop: 1 in the row of stopping                                                                   |
    | 7, 8     | improvement: mean of the score less the incumbent's; deviation: its standard deviation              |
    | 9        | gap_to_best_mean: mean of the score less the largest mean of candidates with an allowed trial       |
    | 10       | unexplored: variance of the score over its variance before the study; 0 near measurements, 1 far away |
    | 11       | noise: standard deviation of a measured score around the true one; in the row of stopping too       |
    | 12 .. 14 | relative speed, memory, accuracy: by how much each cost's mean is better than the incumbent's       |
    | 15 .. 17 | speed, memory, accuracy deviation: their standard deviations                                        |
    | 18 .. 20 | log probability of keeping the limit on memory; on accuracy with a whole curve; with a quarter      |
    | 21 .. 23 | columns 3 .. 5 less the largest allowed one; for stopping, the first: log 0.05, the price of        |
    |          | a budget, less the largest allowed one                                                              |
    | 24 .. 26 | log2 of the share of the budget that a trial is expected to take, at each fidelity                  |
    | 27, 28   | timed: 1 where it was; trained: 0, .5 or 1 as its curve is known in no part, in a quarter, whole    |
    | 29, 30   | budget_left: share of the budget; has_eligible: 1 where something keeps all limits as measured; both |
    |          | in the row of stopping too                                                                          |
    | 31 .. 33 | the truth, for a critic in training: true score less the objective; whether limits are truly kept    |
    |          | without a crash; utility less what the baseline will have reached. Actors must not look             |

    ## Action: `Discrete(3 * num_candidates + 1)`
    `3 * candidate + fidelity`: a trial. Fidelity 0 times mini-batches and sees the memory, 1 trains a quarter of the
    curve as well, 2 all of it. Candidates of one learning key share a curve, and no part of it is trained twice.
    The last action stops. A trial that is not allowed (made already, failed, or too long for what is left) finds
    nothing and takes the seconds of a timing.

    ## Reward
    The change of utility. Utility is the objective less 0.05 doublings per budget of seconds taken, and the objective
    is the true score of the play-off's choice if it took place now. The last reward is less the baseline's gain in the
    same world, with the same noise. So rewards sum to the gain over the baseline, which is 0 for the baseline itself.

    ## Start
    A world of `worlds`, with the default measured.

    ## End
    Terminates when it is stopped, or when no trial is allowed. None is truncated. Meant for a discount factor of 1.

    ## Arguments
    `worlds`: where worlds are drawn (`a3gnn_envs.acquisition.world.Worlds`); `num_candidates`: the
    largest number of candidates of a world.

    ## Version
    v0: first.
    """

    def __init__(self, worlds: Worlds, num_candidates: int = NUM_CANDIDATES, render_mode: None = None) -> None:
        super().__init__(AcquisitionEpisodes(worlds, 1, num_candidates), render_mode)

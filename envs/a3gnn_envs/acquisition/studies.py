"""`Studies`: studies in progress in stacked worlds, with their measurements, known curves and spent seconds."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from a3gnn_envs.acquisition.beliefs import Beliefs
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, SPEED, WORK, Floats, World

#: The fidelities of a trial: it times mini-batches and measures memory; it also trains a quarter of the curve; it
#: trains all of it.
TIMING, QUARTER, WHOLE = range(3)
FIDELITIES = 3
#: The share of the curve that is trained at each.
SHARES = np.array([0.0, 0.25, 1.0])
#: Configurations that the play-off measures again besides the default, as a tune does
#: (`a3gnn.tuning.run.plans.FINALISTS`).
_FINALISTS = 3
#: The price of time: what a whole budget of trials costs, in doublings of the score. Guess.
PRICE = 0.05


class Studies:
    """Studies of stacked worlds, each begun with a whole trial of the default, which takes nothing of the budget.

    Args:
        world: Stacked worlds.

    Attributes:
        world: As given.
        beliefs: Beliefs about the costs.
        timed: Which candidates had a successful trial, bool, shape (num_studies, K).
        failed: Which candidates had a failed trial, bool, same shape.
        trained: The fidelity to which each candidate's curve is known, from any trial, int64, same shape.
        spent_s: Seconds of trials so far, float64, shape (num_studies,).
        over: Which studies have ended: they stopped, or can afford no trial, bool, shape (num_studies,).
    """

    def __init__(self, world: World) -> None:
        num, count = world.present.shape
        self.world = world
        self.beliefs = Beliefs(world.mean.copy(), world.covariance.copy())
        self.timed = np.zeros((num, count), dtype=np.bool_)
        self.failed = np.zeros((num, count), dtype=np.bool_)
        self.trained = np.full((num, count), TIMING)
        self.spent_s = np.zeros(num)
        self.over = np.zeros(num, dtype=np.bool_)
        self._find(np.arange(num), np.zeros(num, dtype=np.int64), np.full(num, WHOLE))
        self.over |= ~self.allowed().any(axis=(1, 2))

    @property
    def stop(self) -> int:
        """The action that ends a study; the action `candidate * FIDELITIES + fidelity` makes a trial."""
        return self.timed.shape[1] * FIDELITIES

    def replace(self, at: NDArray[np.int64], others: Studies) -> None:
        """Replaces the studies `at` by `others`, one for each."""
        fields = [field.name for field in dataclasses.fields(World)]
        own = ["timed", "failed", "trained", "spent_s", "over"]
        parts: list[tuple[object, object, list[str]]] = [
            (self.world, others.world, fields),
            (self.beliefs, others.beliefs, ["mean", "covariance"]),
            (self, others, own),
        ]
        for mine, theirs, names in parts:
            for name in names:
                getattr(mine, name)[at] = getattr(theirs, name)

    def run(self, actions: NDArray[np.int64]) -> None:
        """Makes one trial in each study that is not over, or stops it.

        A trial that is not `allowed` finds nothing, and takes the seconds of a trial without its curve.

        Args:
            actions: Actions as described at `stop`, int64, shape (num_studies,).
        """
        stopping = actions == self.stop
        at = np.flatnonzero(~self.over & ~stopping)
        candidate, fidelity = np.divmod(actions[at], FIDELITIES)
        world, allowed = self.world, self.allowed()[at, candidate, fidelity]
        crashes = allowed & world.crashes[at, candidate]
        killed = allowed & ~crashes & (world.measured[at, MEMORY, candidate] > world.limits[at, MEMORY])
        done = allowed & ~crashes & ~killed
        self.spent_s[at] += np.where(done, self._seconds()[at, candidate, fidelity], world.start_s[at])
        self.failed[at, candidate] |= crashes | killed
        self.beliefs.exceed(at[killed], MEMORY, candidate[killed], world.limits[at[killed], MEMORY])
        self._find(at[done], candidate[done], fidelity[done])
        self.over |= stopping
        self.over |= ~self.allowed().any(axis=(1, 2))

    def allowed(self) -> NDArray[np.bool_]:
        """Returns which trials are allowed: new ones that the budget affords, bool, shape (num_studies, K, 3)."""
        world, levels = self.world, np.arange(FIDELITIES)
        new = np.where(levels == TIMING, ~self.timed[..., None], levels > self.trained[..., None])
        possible = world.present & ~self.failed & ~self.over[:, None]
        left_s = (world.budget_s - self.spent_s)[:, None, None]
        return possible[..., None] & new & (self.expected_seconds() <= left_s)

    def expected_seconds(self) -> Floats:
        """Returns the expected seconds of each trial, float64, shape (num_studies, K, 3)."""
        mean = self.beliefs.mean
        return self._seconds_to(np.exp2(mean[:, SPEED] + mean[:, WORK]))

    def known(self) -> Floats:
        """Returns the costs as measured, infinite where unknown, float64, shape (num_studies, 4, K)."""
        world = self.world
        early = np.where(np.isnan(world.early), np.inf, world.early)
        accuracy = np.select(
            [self.trained == WHOLE, self.trained == QUARTER], [world.measured[:, ACCURACY], early], np.inf
        )
        work = np.where(accuracy <= world.limits[:, ACCURACY, None], world.measured[:, WORK], np.inf)
        costs = np.stack([world.measured[:, SPEED], world.measured[:, MEMORY], accuracy, work], axis=1)
        return np.where(self.timed[:, None], costs, np.inf)

    def score(self, costs: Floats) -> Floats:
        """Returns the scores of `costs` (num_studies, 4, K), in doublings, float64, shape (num_studies, K)."""
        weights = self.world.weights[..., None]
        return np.asarray(-(weights * np.where(weights > 0, costs, 0.0)).sum(axis=1))

    def keeps_limits(self, costs: Floats) -> NDArray[np.bool_]:
        """Returns whether `costs` (num_studies, 4, K) keep all limits, bool, shape (num_studies, K)."""
        return np.asarray((costs <= self.world.limits[..., None]).all(axis=1) & self.world.present)

    def eligible(self) -> NDArray[np.bool_]:
        """Returns which candidates may be chosen, as measured, bool, shape (num_studies, K)."""
        known = self.known()
        return self.keeps_limits(known) & np.isfinite(self.score(known))

    def objective(self) -> Floats:
        """Returns the true score of a play-off's choice now, in doublings, float64, shape (num_studies,).

        The finalists are the three best eligible candidates and the default. The play-off chooses the best of those
        that truly keep the limits. If none does, the score is that of the worst configuration that would.
        """
        known, eligible = self.known(), self.eligible()
        measured = np.where(eligible, self.score(known), -np.inf)
        last = np.sort(measured, axis=1)[:, -min(_FINALISTS, measured.shape[1])]
        finalist = eligible & (measured >= last[:, None])
        finalist[:, 0] |= eligible[:, 0]
        true, kept = self.true_score(), self.keeps_truly()
        again = np.where(finalist & kept, self.score(self.world.play_off), -np.inf)
        winner = np.take_along_axis(true, again.argmax(axis=1)[:, None], axis=1)[:, 0]
        worst = np.where(kept, true, np.inf).min(axis=1)
        worst = np.where(np.isfinite(worst), worst, 0.0)
        return np.where(np.isfinite(again).any(axis=1), winner, worst)

    def utility(self) -> Floats:
        """Returns the objective less the price of the spent time, float64, shape (num_studies,)."""
        return self.objective() - PRICE * self.spent_s / self.world.budget_s

    def true_score(self) -> Floats:
        """Returns the true scores, float64, shape (num_studies, K)."""
        return self.score(self.world.truth)

    def keeps_truly(self) -> NDArray[np.bool_]:
        """Returns which candidates truly keep the limits and do not crash, bool, shape (num_studies, K)."""
        return self.keeps_limits(self.world.truth) & ~self.world.crashes

    def _seconds(self) -> Floats:
        """Returns the true seconds of each trial, float64, shape (num_studies, K, 3)."""
        measured = self.world.measured
        reached = measured[:, ACCURACY] <= self.world.limits[:, ACCURACY, None]
        return self._seconds_to(np.where(reached, np.exp2(measured[:, SPEED] + measured[:, WORK]), np.inf))

    def _seconds_to(self, target: Floats) -> Floats:
        """Returns the seconds of trials whose curves reach the target at these shares, (num_studies, K)."""
        world = self.world
        end = np.where(world.ends_at_target[:, None], target, np.inf)[..., None]
        more = np.maximum(np.minimum(SHARES, end) - SHARES[self.trained][..., None], 0.0)
        return np.asarray(world.start_s[:, None, None] + world.curve_s[:, None, None] * more)

    def _find(self, at: NDArray[np.int64], candidate: NDArray[np.int64], fidelity: NDArray[np.int64]) -> None:
        """Records the results of successful trials: `candidate` at `fidelity` in each of the studies `at`."""
        world = self.world
        before, new = self.trained[at, candidate], ~self.timed[at, candidate]
        for cost in (SPEED, MEMORY):
            self._measure(at[new], cost, candidate[new], world.measured[at[new], cost, candidate[new]])
        self.timed[at, candidate] = True
        early, limit = world.early[at, candidate], world.limits[at, ACCURACY]
        ended = (fidelity == QUARTER) & world.ends_at_target[at] & (early <= limit)
        after = np.maximum(before, np.where(ended, WHOLE, fidelity))
        alike = world.keys[at] == world.keys[at, candidate][:, None]
        self.trained[at] = np.where(alike, np.maximum(self.trained[at], after[:, None]), self.trained[at])

        quarter = (fidelity == QUARTER) & (before < QUARTER) & ~np.isnan(early)
        expected, further = (early - world.rise[at])[quarter], world.rise_deviation[at[quarter]]
        self._measure(at[quarter], ACCURACY, candidate[quarter], expected, further)
        whole = (after == WHOLE) & (new | (fidelity == WHOLE)) & ~quarter
        self._measure(at[whole], ACCURACY, candidate[whole], world.measured[at[whole], ACCURACY, candidate[whole]])
        self._find_work(at[quarter | whole], candidate[quarter | whole], after[quarter | whole])

    def _find_work(self, at: NDArray[np.int64], candidate: NDArray[np.int64], trained: NDArray[np.int64]) -> None:
        """Records when curves reached the target, which is the limit on accuracy, or that they did not yet."""
        world = self.world
        reached = np.isfinite(self.known()[at, WORK, candidate])
        self._measure(at[reached], WORK, candidate[reached], world.measured[at[reached], WORK, candidate[reached]])
        least = np.log2(SHARES[trained]) - world.measured[at, SPEED, candidate]
        self.beliefs.exceed(at[~reached], WORK, candidate[~reached], least[~reached])

    def _measure(
        self,
        at: NDArray[np.int64],
        cost: int,
        candidate: NDArray[np.int64],
        found: Floats,
        further: Floats | float = 0.0,
    ) -> None:
        """Updates the beliefs with measurements; their noise is the world's and a `further` deviation."""
        self.beliefs.measure(at, cost, candidate, found, self.world.noise[at, cost] ** 2 + np.square(further))

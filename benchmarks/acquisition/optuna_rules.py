"""Rules that ask a sampler of Optuna which trial comes next, on the candidates of one measured grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.trial import FrozenTrial

from a3gnn.config import KNOBS
from a3gnn.seeding import derive
from a3gnn.space import SearchSpace
from a3gnn_envs.acquisition.studies import WHOLE, Studies
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, Floats
from benchmarks.acquisition.compare import Rule, whole_trials
from benchmarks.acquisition.replays import Grid
from benchmarks.acquisition.sampler_proposals import SAMPLERS, Make, Suggester, shown_first


def optuna_rules(grid: Grid, seed: int) -> dict[str, Rule]:
    """Returns the rules of all `SAMPLERS` on worlds of the whole of `grid`, in its order."""
    return {name: whole_trials(SamplerValues(grid, make, seed)) for name, make in SAMPLERS.items()}


class SamplerValues:
    """Values candidates by how close they are to what a sampler suggests: the closest that is left is tried.

    A sampler has what every rule has: before each suggestion it is told of all trials so far, with their constraints,
    and of what the surrogate believes of other candidates by then, as if that had been measured. One that was killed at
    the limit on memory counts as believed after that, which is above the limit; one that crashed as accurate to 0.

    Args:
        grid: Whose candidates they are.
        make: Makes the sampler.
        seed: Decides its draws.
    """

    def __init__(self, grid: Grid, make: Make, seed: int) -> None:
        self._seed = seed
        self._sampler = Suggester(_space_of(grid), make)
        self._rows = np.array([self._sampler.space.encode(config) for config in grid.configs])

    def __call__(self, studies: Studies) -> Floats:
        """Returns the values, float64, shape (num_studies, K)."""
        values = np.zeros(studies.timed.shape)
        for study in np.flatnonzero(~studies.over):
            values[study] = -self._sampler.distances(self._rows, self._suggestion(studies, int(study)))
        return values

    def _suggestion(self, studies: Studies, number: int) -> NDArray[np.int64]:
        """Returns what the sampler suggests for the study of this `number`, int64, shape (n_knobs,)."""
        made = int(studies.timed[number].sum() + studies.failed[number].sum())
        seed = derive(self._seed, "sampler", number, made) % 2**32
        return self._sampler.suggestion(list(self._told(studies, number, np.random.default_rng(seed))), seed)

    def _told(self, studies: Studies, number: int, random: np.random.Generator) -> Iterator[FrozenTrial]:
        """Yields what the sampler is told."""
        believed, weights = studies.beliefs.mean[number], studies.world.weights[number]
        done = studies.timed[number] & (studies.trained[number] == WHOLE)
        costs = np.where(done, studies.world.measured[number], believed)
        supposed = -weights @ believed
        reached = np.isfinite(studies.score(studies.known())[number])  # what misses the target has no seconds to it
        score = np.where(done & reached, -weights @ costs, supposed)
        crashed = studies.failed[number] & studies.world.crashes[number]
        costs[ACCURACY] = np.where(crashed, 0.0, costs[ACCURACY])
        limits = studies.world.limits[number]
        over = {
            name: costs[cost] - limits[cost]
            for name, cost in (("memory", MEMORY), ("accuracy", ACCURACY))
            if np.isfinite(limits[cost])
        }
        for place in self._shown(studies, number, supposed, random):
            constraints = {name: float(values[place]) for name, values in over.items()}
            yield self._sampler.trial(self._rows[place], float(score[place]), constraints)

    def _shown(self, studies: Studies, number: int, supposed: Floats, random: np.random.Generator) -> NDArray[np.int64]:
        """Returns of which candidates the sampler is told: of what was tried, the best as believed, and some drawn."""
        tried = np.flatnonzero(studies.timed[number] | studies.failed[number])
        left = np.flatnonzero(studies.world.present[number] & ~np.isin(np.arange(len(self._rows)), tried))
        keeps = studies.keeps_limits(studies.beliefs.mean)[number]
        return np.concatenate([tried, left[shown_first(supposed[left], keeps[left], random)]])


def _space_of(grid: Grid) -> SearchSpace:
    """Returns the space of the values that the configurations of `grid` have."""
    knobs = []
    for knob in KNOBS:
        values: list[Any] = list(dict.fromkeys(getattr(config, knob.name) for config in grid.configs))
        if knob.scale != "choice":
            values.sort(key=lambda value: (value is not None, value))
        knobs.append(dataclasses.replace(knob, values=tuple(values)))
    return SearchSpace(tuple(knobs))

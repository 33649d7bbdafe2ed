"""Rules that ask a sampler of Optuna which trial comes next, on the candidates of one measured grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, TPESampler
from optuna.trial import FrozenTrial, create_trial

from a3gnn.config import KNOBS
from a3gnn.search.optuna_study import distributions
from a3gnn.seeding import derive
from a3gnn.space import SearchSpace
from a3gnn_envs.acquisition.studies import WHOLE, Studies
from a3gnn_envs.acquisition.world import ACCURACY, MEMORY, Floats
from benchmarks.acquisition.compare import Rule, whole_trials
from benchmarks.acquisition.replays import Grid

#: Candidates of which a sampler is told what the surrogate believes: the best as believed, and others that are drawn.
#: Guesses: of all, a Gaussian process would take seconds per trial.
_BEST, _DRAWN = 32, 32

#: Makes a sampler of the number of trials that it is told of, and a seed.
Make = Callable[[int, int], BaseSampler]

#: The samplers by their names.
SAMPLERS: dict[str, Make] = {
    "Optuna GP": lambda told, seed: GPSampler(seed=seed, n_startup_trials=0),
    "Optuna TPE": lambda told, seed: TPESampler(seed=seed, n_startup_trials=0, multivariate=True),
    "NSGA-II": lambda told, seed: NSGAIISampler(seed=seed, population_size=max(2, told // 2)),
}


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
        self._make, self._seed = make, seed
        self._space = _space_of(grid)
        self._rows = np.array([self._space.encode(config) for config in grid.configs])
        self._distributions = {name: one for name, one in distributions(self._space).items() if not one.single()}
        self._scales = np.maximum(self._space.nvec - 1, 1)
        optuna.logging.set_verbosity(optuna.logging.WARNING)

    def __call__(self, studies: Studies) -> Floats:
        """Returns the values, float64, shape (num_studies, K)."""
        values = np.zeros(studies.timed.shape)
        for study in np.flatnonzero(~studies.over):
            values[study] = -self._distances(self._suggestion(studies, int(study)))
        return values

    def _suggestion(self, studies: Studies, number: int) -> NDArray[np.int64]:
        """Returns what the sampler suggests for the study of this `number`, int64, shape (n_knobs,)."""
        made = int(studies.timed[number].sum() + studies.failed[number].sum())
        seed = derive(self._seed, "sampler", number, made) % 2**32
        told = list(self._told(studies, number, np.random.default_rng(seed)))
        study = optuna.create_study(sampler=self._make(len(told), seed))
        study.add_trials(told)
        params = study.ask(self._distributions).params
        return np.array([params.get(name, 0) for name in self._space.names], dtype=np.int64)

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
            yield self._trial(int(place), -float(score[place]), constraints)

    def _shown(self, studies: Studies, number: int, supposed: Floats, random: np.random.Generator) -> NDArray[np.int64]:
        """Returns of which candidates the sampler is told: of what was tried, the best as believed, and some drawn."""
        tried = np.flatnonzero(studies.timed[number] | studies.failed[number])
        left = np.flatnonzero(studies.world.present[number] & ~np.isin(np.arange(len(self._rows)), tried))
        keeps = studies.keeps_limits(studies.beliefs.mean)[number]
        left = left[np.lexsort((-supposed[left], ~keeps[left]))]
        return np.concatenate([tried, left[:_BEST], random.permutation(left[_BEST:])[:_DRAWN]])

    def _trial(self, place: int, value: float, constraints: dict[str, float]) -> FrozenTrial:
        row = dict(zip(self._space.names, self._rows[place].tolist(), strict=True))
        return create_trial(
            value=value,
            params={name: row[name] for name in self._distributions},
            distributions=self._distributions,
            system_attrs={NSGAIISampler._get_generation_key(): 0},  # all are parents of the next
            constraints=constraints,
        )

    def _distances(self, row: NDArray[np.int64]) -> Floats:
        """Returns how far each candidate is from `row`: steps over a knob's range, and 1 for another choice."""
        choices = np.array([knob.scale == "choice" for knob in self._space.knobs])
        off = np.abs(self._rows - row)
        return np.asarray(np.where(choices, off > 0, off / self._scales).sum(axis=1))


def _space_of(grid: Grid) -> SearchSpace:
    """Returns the space of the values that the configurations of `grid` have."""
    knobs = []
    for knob in KNOBS:
        values: list[Any] = list(dict.fromkeys(getattr(config, knob.name) for config in grid.configs))
        if knob.scale != "choice":
            values.sort(key=lambda value: (value is not None, value))
        knobs.append(dataclasses.replace(knob, values=tuple(values)))
    return SearchSpace(tuple(knobs))

"""`Suggester`: asks a sampler of Optuna for rows of a search space, told of what is known and believed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, TPESampler
from optuna.trial import FrozenTrial, create_trial

from a3gnn.search.optuna_study import distributions
from a3gnn.search.quiet_optuna import quiet_optuna
from a3gnn.space import SearchSpace
from a3gnn_envs.acquisition.world import Floats

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


class Suggester:
    """Suggests rows of `space` by a sampler; knobs of one value are no parameters of it.

    Args:
        space: Where.
        make: Makes the sampler.
    """

    def __init__(self, space: SearchSpace, make: Make) -> None:
        self.space, self._make = space, make
        self._distributions = {name: one for name, one in distributions(space).items() if not one.single()}
        self._scales = np.maximum(space.nvec - 1, 1)

    def trial(self, row: NDArray[np.int64], score: float, over: Mapping[str, float]) -> FrozenTrial:
        """Returns what a sampler is told of `row`, int64, shape (n_knobs,).

        Args:
            row: The configuration.
            score: What is to be maximised.
            over: By how much it breaks each limit; negative where it keeps it.
        """
        params = dict(zip(self.space.names, row.tolist(), strict=True))
        return create_trial(
            value=-score,
            params={name: params[name] for name in self._distributions},
            distributions=self._distributions,
            system_attrs={NSGAIISampler._get_generation_key(): 0},  # all are parents of the next
            constraints=dict(over),
        )

    def suggestion(self, told: Sequence[FrozenTrial], seed: int) -> NDArray[np.int64]:
        """Returns what a sampler that is `told` of these trials suggests, int64, shape (n_knobs,)."""
        with quiet_optuna():
            study = optuna.create_study(sampler=self._make(len(told), seed))
        study.add_trials(list(told))
        params = study.ask(self._distributions).params
        return np.array([params.get(name, 0) for name in self.space.names], dtype=np.int64)

    def distances(self, rows: NDArray[np.int64], row: NDArray[np.int64]) -> Floats:
        """Returns how far each of `rows` is from `row`: steps over a knob's range, and 1 for another choice."""
        choices = np.array([knob.scale == "choice" for knob in self.space.knobs])
        off = np.abs(rows - row)
        return np.asarray(np.where(choices, off > 0, off / self._scales).sum(axis=1))


def shown_first(score: Floats, keeps: NDArray[np.bool_], random: np.random.Generator) -> NDArray[np.int64]:
    """Returns of which candidates a sampler is told what is believed of them: the best, and others that are drawn.

    Args:
        score: Of each, as believed, float64, shape (n,).
        keeps: Whether it is believed to keep the limits, bool, shape (n,).
        random: Draws the others.
    """
    order = np.lexsort((-score, ~keeps))
    return np.concatenate([order[:_BEST], random.permutation(order[_BEST:])[:_DRAWN]])

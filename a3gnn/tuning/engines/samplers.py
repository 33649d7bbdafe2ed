"""`gp`, `tpe` and `nsga2`: Optuna's samplers, which get the surrogate's beliefs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, TPESampler
from optuna.trial import FrozenTrial, create_trial

from a3gnn.limits import MEMORY_NAMES
from a3gnn.objectives import Objectives
from a3gnn.seeding import derive
from a3gnn.space import Rows, SearchSpace
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.expectations import unmeasured
from a3gnn.tuning.engines.improvement import STARTS
from a3gnn.tuning.engines.unguided import drawn
from a3gnn.tuning.study.trial import Proposal

#: Configurations whose beliefs the sampler gets: the best by the beliefs, and random ones. More would take a Gaussian
#: process seconds per trial.
_BEST, _DRAWN = 32, 32
#: The constraint that a trial keeps if it did not fail; Optuna's samplers need the same constraints of all trials.
_FAILED = "failed"


class SamplerEngine:
    """Proposes what an Optuna sampler suggests.

    The sampler gets all trials with their constraints, and the beliefs about other configurations as if they were
    trials. A suggestion counts as found as believed for the rest of a batch. If it was tried, the closest untried
    candidate replaces it.

    Args:
        seed: Decides the draws.
        with_beliefs: Whether the sampler gets beliefs; without them it is Optuna alone.
    """

    def __init__(self, seed: int, *, with_beliefs: bool = True) -> None:
        self._seed, self._with_beliefs = seed, with_beliefs

    def sampler(self, trials: int, seed: int) -> BaseSampler:
        """Returns a sampler that gets so many `trials`."""
        raise NotImplementedError

    def propose(self, beliefs: Beliefs, count: int = 1, seconds_left: float = math.inf) -> list[Proposal]:
        """Returns the proposals; see `Engine.propose`."""
        space = beliefs.space
        seed = derive(self._seed, "sampler", len(beliefs.history.trials)) % 2**32
        left = unmeasured(drawn(space, STARTS, seed), beliefs.tried)
        if not len(left):
            return []
        parameters = Parameters(space)
        trials = [*_measured(parameters, beliefs)]
        if self._with_beliefs:
            trials += _believed(parameters, beliefs, _shown(beliefs, left, seed))
        taken, rows = set(beliefs.tried), list[Rows]()
        for number in range(min(count, len(left))):
            sampler = self.sampler(len(trials), seed + number)
            row = space.canonical(parameters.suggestion(trials, sampler)[None])[0]
            if row.tobytes() in taken:
                left = unmeasured(left, taken)
                row = left[parameters.distances(left, row).argmin()]
            taken.add(row.tobytes())
            rows.append(row)
            trials += _believed(parameters, beliefs, row[None])
        return [Proposal("best", space.decode(row)) for row in rows]


class GpEngine(SamplerEngine):
    """Optuna's Gaussian process, with log expected improvement under constraints."""

    def sampler(self, trials: int, seed: int) -> BaseSampler:
        """Returns a sampler that gets so many `trials`."""
        return GPSampler(seed=seed, n_startup_trials=0 if self._with_beliefs else 5)


class TpeEngine(SamplerEngine):
    """Optuna's tree-structured Parzen estimator."""

    def sampler(self, trials: int, seed: int) -> BaseSampler:
        """Returns a sampler that gets so many `trials`."""
        return TPESampler(seed=seed, n_startup_trials=0 if self._with_beliefs else 5, multivariate=True)


class Nsga2Engine(SamplerEngine):
    """Optuna's NSGA-II; all trials are parents of the next one."""

    def sampler(self, trials: int, seed: int) -> BaseSampler:
        """Returns a sampler that gets so many `trials`."""
        return NSGAIISampler(seed=seed, population_size=max(2, trials // 2))


class Parameters:
    """The knobs of `space` as parameters of Optuna; knobs of one value are none."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space
        self._distributions: dict[str, BaseDistribution] = {
            knob.name: CategoricalDistribution(range(len(knob.values)))
            if knob.scale == "choice"
            else IntDistribution(0, len(knob.values) - 1)
            for knob in space.knobs
            if len(knob.values) > 1
        }

    def trial(self, row: NDArray[np.int64], score: float, over: Mapping[str, float]) -> FrozenTrial:
        """Returns a finished trial of `row`, int64, shape (n_knobs,).

        Args:
            row: The configuration.
            score: The score to maximize.
            over: By how much each limit is broken; negative if it is kept.
        """
        params = dict(zip(self.space.names, row.tolist(), strict=True))
        return create_trial(
            value=-score,
            params={name: params[name] for name in self._distributions},
            distributions=self._distributions,
            system_attrs={NSGAIISampler._get_generation_key(): 0},
            constraints=dict(over),
        )

    def suggestion(self, trials: Sequence[FrozenTrial], sampler: BaseSampler) -> NDArray[np.int64]:
        """Returns the suggestion of `sampler` after `trials`, int64, shape (n_knobs,)."""
        with quiet_optuna():
            study = optuna.create_study(sampler=sampler)
        study.add_trials(list(trials))
        params = study.ask(self._distributions).params
        return np.array([params.get(name, 0) for name in self.space.names], dtype=np.int64)

    def distances(self, rows: Rows, row: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the distance of `rows` from `row`: steps over a knob's range, and 1 for another choice."""
        choices = np.array([knob.scale == "choice" for knob in self.space.knobs])
        off = np.abs(rows - row)
        return np.asarray(np.where(choices, off > 0, off / np.maximum(self.space.nvec - 1, 1)).sum(axis=1))


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Hides Optuna's messages below the level of warnings inside the context."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def _shown(beliefs: Beliefs, rows: Rows, seed: int) -> Rows:
    """Returns the `rows` whose beliefs the sampler gets."""
    prediction = beliefs.predict(rows)
    broken = beliefs.objectives.limits.violation(prediction) > 0
    order = np.lexsort((-beliefs.objectives.score(prediction), broken))
    drawn = np.random.default_rng(seed).permutation(order[_BEST:])[:_DRAWN]
    return np.asarray(rows[np.concatenate([order[:_BEST], drawn])])


def _believed(parameters: Parameters, beliefs: Beliefs, rows: Rows) -> Iterator[FrozenTrial]:
    """Yields the beliefs about `rows` as trials."""
    objectives, prediction = beliefs.objectives, beliefs.predict(rows)
    memory = {name: prediction.column(f"peak_{name}") for name in MEMORY_NAMES}
    accuracy = prediction.column("val_accuracy")
    for place, score in enumerate(objectives.score(prediction)):
        peaks = {name: float(own[place]) for name, own in memory.items()}
        over = _over(objectives, peaks, float(accuracy[place]))
        yield parameters.trial(rows[place], float(score), over)


def _measured(parameters: Parameters, beliefs: Beliefs) -> Iterator[FrozenTrial]:
    """Yields the tune's trials; the beliefs replace what one did not measure."""
    objectives, history = beliefs.objectives, beliefs.history
    for trial in history.trials:
        row, figures = history.row(trial.measurement.config), history.figures(trial)
        if row is None:
            continue
        (belief,) = _believed(parameters, beliefs, row[None])
        score, over = -float(belief.values[0]), dict(belief.constraints)
        if figures is None:
            over[_FAILED] = 1.0
        else:
            measured = float(objectives.measured_score([figures])[0])
            score = measured if np.isfinite(measured) else score  # a trial that missed the target has no seconds to it
            peaks = {name: float(getattr(figures, f"peak_{name}")) for name in MEMORY_NAMES}
            over |= _over(objectives, peaks, figures.val_accuracy)
        yield parameters.trial(row, score, over)


def _over(objectives: Objectives, peaks: Mapping[str, float], accuracy: float | None) -> dict[str, float]:
    """Returns by how much each limit is broken, at most 0 if it is kept.

    Args:
        objectives: The limits.
        peaks: Bytes by the name of the limit, as in `MEMORY_NAMES`; excesses are in doublings.
        accuracy: The accuracy; its lack is a share of 1. None if not known.
    """
    limits, over = objectives.limits, {_FAILED: -1.0}
    for name, peak in peaks.items():
        limit = getattr(limits, name)
        if limit is not None:
            over[name] = math.log2(max(peak, 1.0) / limit)
    if limits.least_accuracy is not None and accuracy is not None:
        over["accuracy"] = limits.least_accuracy - accuracy
    return over

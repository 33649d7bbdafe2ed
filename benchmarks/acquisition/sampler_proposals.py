"""Samplers of Optuna, told of what is known and believed: one suggestion (`Suggester`), or rounds of trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, TPESampler
from optuna.trial import FrozenTrial, create_trial

from a3gnn.objectives import Objectives
from a3gnn.search.optuna_study import distributions, quiet_optuna
from a3gnn.search.run import run_search
from a3gnn.search.searchable import Problem
from a3gnn.seeding import derive
from a3gnn.space import Rows, SearchSpace
from a3gnn.tuning.beliefs.expectations import tried_rows, unmeasured
from a3gnn.tuning.engines.propose import SEARCH_EVALUATIONS, Proposed, candidates, problem_of, round_trials
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import Proposal
from a3gnn_envs.acquisition.world import Floats
from a3gnn_surrogate.surrogate import Surrogate

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
            score: What is to be maximized.
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


#: By how many doublings what failed exceeds the limit on memory at least. Guess.
_KILLED = 0.01


class SamplerProposals:
    """Proposes what a sampler suggests, as many trials a round as a tune's own rule does, until the budget ends.

    The sampler has what that rule has: all trials so far, with their constraints, and what the surrogate that was
    fitted to them believes of the same candidates. What it suggests counts as found as believed for the rest of the
    round, as there; where that was tried already, the closest candidate stands in.

    Args:
        make: Makes the sampler.
        seed: Decides its draws.
    """

    def __init__(self, make: Make, seed: int) -> None:
        self._make, self._seed = make, seed

    def __call__(self, history: History, surrogate: Surrogate) -> Proposed:
        """Returns the next round; nothing when all is measured."""
        problem = problem_of(history, surrogate)
        seed = derive(self._seed, "sampler", len(history.trials)) % 2**32
        search = run_search(history.study.request.engine, problem, SEARCH_EVALUATIONS, seed, beside_random=False)
        rows, taken = candidates(history, search.rows, surrogate), tried_rows(history)
        suggester = Suggester(history.space, self._make)
        told = [*_found(suggester, history, problem), *_believed(suggester, problem, _shown(problem, rows, seed))]
        proposals = []
        for number in range(min(round_trials(history), len(rows))):
            row = history.space.canonical(suggester.suggestion(told, seed + number)[None])[0]
            if row.tobytes() in taken:
                left = unmeasured(rows, taken)
                row = left[suggester.distances(left, row).argmin()]
            taken.add(row.tobytes())
            told += _believed(suggester, problem, row[None])
            proposals.append(Proposal("best", history.space.decode(row)))
        return Proposed(tuple(proposals), math.inf if proposals else 0.0, search)


def _shown(problem: Problem, rows: Rows, seed: int) -> Rows:
    """Returns of which `rows` a sampler is told what is believed."""
    prediction = problem.predict(rows)
    keeps = problem.objectives.limits.violation(prediction) <= 0
    return rows[shown_first(problem.objectives.score(prediction), keeps, np.random.default_rng(seed))]


def _believed(suggester: Suggester, problem: Problem, rows: Rows) -> Iterator[FrozenTrial]:
    """Yields what is believed of `rows`."""
    if not len(rows):
        return
    objectives, prediction = problem.objectives, problem.predict(rows)
    memory, accuracy = prediction.column(objectives.memory), prediction.column("val_accuracy")
    for place, score in enumerate(objectives.score(prediction)):
        over = _over(objectives, float(memory[place]), float(accuracy[place]))
        yield suggester.trial(rows[place], float(score), over)


def _found(suggester: Suggester, history: History, problem: Problem) -> Iterator[FrozenTrial]:
    """Yields what the trials of `history` found; what one does not tell is as believed after it."""
    objectives = problem.objectives
    for trial in history.trials:
        row, figures = history.row(trial.measurement.config), history.figures(trial)
        if row is None:
            continue
        (believed,) = _believed(suggester, problem, row[None])
        score, over = -float(believed.values[0]), dict(believed.constraints)
        if figures is None:
            over["memory"] = max(over.get("memory", 0.0), _KILLED)
        else:
            measured = float(objectives.measured_score([figures])[0])
            score = measured if np.isfinite(measured) else score  # what misses the target has no seconds to it
            over |= _over(objectives, getattr(figures, objectives.memory), figures.val_accuracy)
        yield suggester.trial(row, score, over)


def _over(objectives: Objectives, memory: float, accuracy: float | None) -> dict[str, float]:
    """Returns by how much each limit that is set is broken: in doublings of memory, in shares of accuracy."""
    over, limits = {}, objectives.limits
    if objectives.memory_limit_bytes is not None:
        over["memory"] = math.log2(memory / objectives.memory_limit_bytes)
    if limits.least_accuracy is not None and accuracy is not None:
        over["accuracy"] = limits.least_accuracy - accuracy
    return over

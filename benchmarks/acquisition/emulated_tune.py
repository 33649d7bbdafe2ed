"""`EmulatedTune`: the rounds of a tune on an emulated graph: seconds pass for its trials alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple, Self

from a3gnn.config import TrainConfig
from a3gnn.limits import Limits
from a3gnn.measurement import Measurement
from a3gnn.objectives import Objectives, Priority
from a3gnn.prediction import Prediction
from a3gnn.search.problem import Problem
from a3gnn.search.run import run_search
from a3gnn.tuning.acquisition import Rows
from a3gnn.tuning.arguments import make_request
from a3gnn.tuning.believed import believed
from a3gnn.tuning.expectations import fit_surrogate, predict
from a3gnn.tuning.explore import Proposer
from a3gnn.tuning.history import History
from a3gnn.tuning.learning_differently import learning_differently
from a3gnn.tuning.play_off_plan import FINALISTS
from a3gnn.tuning.proposal import Proposal
from a3gnn.tuning.study import Study
from a3gnn.tuning.trial import JudgedTrial, Trial, predicted_row
from a3gnn.tuning.trial_plan import trial_plan
from a3gnn_surrogate.surrogate import Surrogate
from benchmarks.acquisition.emulated import EmulatedGraph

#: Predictions of the search for what is truly best.
_EVALUATIONS = 10_000


class EmulatedTune(NamedTuple):
    """What came of a tune on an emulated graph; scores are true ones, in doublings, less the default's.

    Attributes:
        chosen: After each trial: the seconds so far, in whole trials' worth, and the score of what a play-off would
            choose.
        best: The best score of what was tried, and of what a search finds on what is true.
        broken: Share of the seconds that went to trials which failed or broke a limit.
        trials: How many there were.
    """

    chosen: tuple[tuple[float, float], ...]
    best: float
    broken: float
    trials: int

    def after(self, whole_trials: float) -> float:
        """Returns the score of what would be chosen after so many whole trials' worth of seconds."""
        return [score for spent, score in self.chosen if spent <= whole_trials][-1]

    @classmethod
    def run(
        cls,
        graph: EmulatedGraph,
        corpus: Sequence[Measurement],
        priority: Priority,
        proposer: Proposer,
        whole_trials: float,
        seed: int,
    ) -> Self:
        """Returns what comes of `proposer` until `whole_trials` of seconds are spent.

        The default's first row is its trial, and its peak the limit on memory, as `--memory-limit default` has it.

        Args:
            graph: The graph.
            corpus: What the surrogate is fitted to beside the trials.
            priority: What is wanted.
            proposer: Says which trials come next.
            whole_trials: The budget, in trials that train a whole curve.
            seed: The tune's.
        """
        history = _begun(graph, corpus, priority, seed)
        whole_s, spent_s, broken_s = sum(graph.default.trial_seconds), 0.0, 0.0
        surrogate = fit_surrogate(history)
        chosen = [(0.0, _chosen(graph, history, surrogate))]
        while spent_s < whole_trials * whole_s:
            proposals, ranked = proposer(history, surrogate).proposals, believed(history, surrogate)
            after: list[tuple[float, History]] = []
            for proposal in proposals:
                if spent_s >= whole_trials * whole_s:
                    break
                trial = _trial(graph, proposal, history, surrogate, ranked)
                history, spent_s = history.with_trial(trial), spent_s + trial.measurement.seconds
                figures = history.figures(trial)
                if figures is None or history.objectives.limits.broken_by(figures):
                    broken_s += trial.measurement.seconds
                after.append((spent_s / whole_s, history))
            if not proposals:
                break
            surrogate = fit_surrogate(history, surrogate)
            chosen += [(spent, _chosen(graph, one, surrogate)) for spent, one in after]
        default = _scores(graph, history.objectives, [TrainConfig()])[0]
        return cls(
            chosen=tuple((spent, score - default) for spent, score in chosen),
            best=_best(graph, history) - default,
            broken=broken_s / max(spent_s, 1e-9),
            trials=len(history.trials) - 1,
        )


def _begun(graph: EmulatedGraph, corpus: Sequence[Measurement], priority: Priority, seed: int) -> History:
    """Returns the history of a tune that has measured the default."""
    request = make_request(
        priority=priority,
        memory_limit="default",
        host_memory_limit=None,
        max_accuracy_drop=1.0,
        budget=1_000,
        engine="local",
        task=graph.setting.task,
        fix=None,
        ranges=None,
        seed=seed,
    )
    study = dataclasses.replace(Study.of(request, graph.setting), corpus=tuple(corpus))
    default = next(row for row in graph.default.by_config[TrainConfig().canonical()] if row.metrics is not None)
    return History(study, (Trial("default", {}, default),))


def _trial(
    graph: EmulatedGraph,
    proposal: Proposal,
    history: History,
    surrogate: Surrogate,
    ranked: Sequence[JudgedTrial],
) -> Trial:
    config = proposal.config.canonical()
    predicted = predict(surrogate, history, [config])
    seconds = float(predicted.column("seconds_to_accuracy")[0]) if predicted.budget_s is not None else math.inf
    plan = trial_plan(proposal, history, predicted_s=seconds, ranked=ranked)
    measured = graph.measure(config, plan, history.curve(config))
    return Trial(proposal.reason, predicted_row(predicted, 0), measured)


def _scores(graph: EmulatedGraph, objectives: Objectives, configs: Sequence[TrainConfig]) -> list[float]:
    """Returns the true scores of `configs`, whatever the limits."""
    return objectives.score(graph.judged([config.canonical() for config in configs])).tolist()


def _kept(graph: EmulatedGraph, history: History, configs: Sequence[TrainConfig]) -> float:
    """Returns the best true score of the default and of those of `configs` that truly keep the limits."""
    limits: Limits = history.objectives.limits
    scores = _scores(graph, history.objectives, [TrainConfig(), *configs])
    keeps = [True, *(limits.violation(graph.true(configs)) <= 0).tolist()] if configs else [True]
    return max(score for score, kept in zip(scores, keeps, strict=True) if kept)


def _chosen(graph: EmulatedGraph, history: History, surrogate: Surrogate) -> float:
    """Returns the true score of what a play-off would choose of the finalists and the default."""
    ranked = believed(history, surrogate)
    finalists = learning_differently(ranked, lambda one: one.trial.measurement.config, FINALISTS)
    return _kept(graph, history, [one.trial.measurement.config for one in finalists])


def _best(graph: EmulatedGraph, history: History) -> float:
    """Returns the best true score of what was tried and of what a search finds on what is true."""

    def true(rows: Rows) -> Prediction:
        return graph.true(history.space.columns(rows))

    problem = Problem(history.space, true, history.objectives)
    found = run_search("local", problem, _EVALUATIONS, seed=0, beside_random=False)
    tried = [trial.measurement.config for trial in history.trials]
    return _kept(graph, history, [*tried, *map(history.space.decode, found.rows)])

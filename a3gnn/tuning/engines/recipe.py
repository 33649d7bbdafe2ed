"""`Recipe`: the engine of `--priority quality`: a race of model shapes, steps around the best, its systems knobs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from a3gnn.config import TrainConfig
from a3gnn.knobs import ALL
from a3gnn.learning_curve import ROUNDING, CurveEnd
from a3gnn.objectives import Priority
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.engines.improvement import ExpectedImprovement, Goal, wanted
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.quality import RUNGS, SHAPES, START, STEPS, race_of, reached_rung, rung_s, shapes_of
from a3gnn.tuning.study.trial import RACE, Proposal, Trial

#: A step whose quality is further below the best's after equal seconds is given up, and no steps are taken from it:
#: about the spread of seeds, whose standard deviation is at most .006 on five graphs (docs/design/seed_order.md).
_BEHIND = 0.005
#: Configurations around which steps are tried, if they are not behind: as many as the verification compares.
_CENTERS = 3
#: Orders the winner's systems knobs, which change speed and memory alone.
_SYSTEMS = Priority.parse("balanced")


class Recipe:
    """Proposes the trials of the recipe: model shapes, then the baseline's values, single values, systems knobs.

    The shapes race by successive halving (Jamieson and Talwalkar, "Non-stochastic Best Arm Identification", 2016). A
    trial of a later round continues the training of the one before (freeze-thaw). A budget that holds few steps leaves
    out the first rounds, and half of the shapes with each (`RaceSize`). All train on the whole graph if the space has
    it, else with the exact first layer where the model has one.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def propose(self, beliefs: Beliefs, count: int = 1, seconds_left: float = math.inf) -> list[Proposal]:
        """Returns the proposals; see `Engine.propose`."""
        history = beliefs.history
        config = next_of_race(history)
        if config is not None:
            return [Proposal(RACE, config)]
        goal = Goal("best", _SYSTEMS, beliefs.learns_as_best)
        rows = wanted(beliefs, goal, ExpectedImprovement(self._seed).starts(beliefs), seconds_left)[:count]
        return [Proposal(goal.reason, beliefs.space.decode(row)) for row in rows]


def next_of_race(history: History) -> TrainConfig | None:
    """Returns the configuration that trains next; None if no shape and no step around the best is left."""
    race, size, task = _Race(history), race_of(history), history.study.setting.task
    first, number = (0, len(SHAPES)) if size is None else (size.first, size.shapes)
    searches_model = any(knob.name == "model" for knob in history.space.searched)
    shapes = [{**START, **shape} for shape in shapes_of(task, searches_model)]
    left = sorted(map(race.config, shapes), key=race.failed)[:number]
    for rung in range(first, RUNGS):
        if (due := next((one for one in left if race.is_due(one, rung)), None)) is not None:
            return due
        left = sorted(left, key=lambda one: -race.quality(one, rung))[: max(len(left) // 2, 1)]
    if not (best := race.best()):
        return None
    own = race.config({name: task.value(name) for name in shapes[0]})
    steps = chain([own] if own != history.study.baseline else [], *map(race.steps, best))
    return next((one for one in steps if race.may_win(one, best[0])), None)


@dataclass(frozen=True)
class _Race:
    """The trials of a race so far."""

    history: History

    def config(self, values: Mapping[str, Any]) -> TrainConfig:
        """Returns the canonical configuration with `values` of the search."""
        space = self.history.space
        systems = {"batch_size": ALL, "input_aggregation": "full"}
        known = {name: value for name, value in systems.items() if value in space.knob(name).values}
        return space.decode(space.row_of({**values, **known}))

    def last(self, config: TrainConfig) -> Trial | None:
        """Returns the last trial of `config`."""
        trials = (one for one in reversed(self.history.trials) if one.measurement.config == config)
        return next(trials, None)

    def failed(self, config: TrainConfig) -> bool:
        """Whether the last trial of `config` failed."""
        trial = self.last(config)
        return trial is not None and trial.metrics is None

    def is_due(self, config: TrainConfig, rung: int) -> bool:
        """Whether `config` has not trained for round `rung`, did not fail, and has not stopped improving."""
        trial = self.last(config)
        if trial is None:
            return True
        curve = self.history.curve(config)
        stopped = curve is not None and curve.ended is CurveEnd.PLATEAU
        return trial.metrics is not None and not stopped and reached_rung(self.history, config) < rung

    def quality(self, config: TrainConfig, rung: int) -> float:
        """Returns the best validation quality within the seconds of round `rung`; minus infinity if unknown."""
        trial, curve = self.last(config), self.history.curve(config)
        if trial is None or trial.metrics is None or curve is None or not curve.batches:
            return -math.inf
        within = max(trial.metrics.pace.batches(rung_s(self.history, rung)) * ROUNDING, curve.batches[0])
        return max(curve.val_accuracy[: sum(batches <= within for batches in curve.batches)])

    def best(self) -> list[TrainConfig]:
        """Returns the best configurations that are done, the best first, without those that are behind it."""
        raced = (trial.measurement.config for trial in self.history.trials if trial.reason == RACE)
        done = [one for one in dict.fromkeys(raced) if not self.is_due(one, RUNGS - 1)]
        known = {one: quality for one in done if (quality := self.quality(one, RUNGS - 1)) > -math.inf}
        best = sorted(known, key=lambda one: -known[one])[:_CENTERS]
        return [one for one in best if known[one] >= known[best[0]] - _BEHIND]

    def may_win(self, config: TrainConfig, best: TrainConfig) -> bool:
        """Whether a step is to be trained (on): it is due, and not known to be behind the best after equal seconds."""
        reached = reached_rung(self.history, config)
        if not self.is_due(config, RUNGS - 1):
            return False
        return reached < 0 or self.quality(config, reached) >= self.quality(best, reached) - _BEHIND

    def steps(self, best: TrainConfig) -> Iterator[TrainConfig]:
        """Yields the configurations that differ from `best` in one step of one value, down before up."""
        values = self.history.space.values(best)
        own = {name: values[name] for name in (*START, *SHAPES[0], "model") if name in values}
        for name, ones in STEPS.items():
            tried = sorted({*ones, own[name]})
            place = tried.index(own[name])
            for other in (place - 1, place + 1):
                if 0 <= other < len(tried):
                    yield self.config({**own, name: tried[other]})

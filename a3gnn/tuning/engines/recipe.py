"""`Recipe`: the engine of `--priority quality`: a race of model shapes, steps around the best, its systems knobs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from a3gnn.config import TrainConfig
from a3gnn.knobs import ALL
from a3gnn.learning_curve import ROUNDING, CurveEnd, LearningCurve
from a3gnn.objectives import Priority
from a3gnn.seeding import derive
from a3gnn.space import Rows
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.engines.improvement import STARTS, Goal, drawn_like, wanted
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.quality import (
    CHOICES,
    RUNGS,
    SHAPES,
    START,
    STEPS,
    baseline_of,
    race_of,
    reached_rung,
    rung_s,
    shapes_of,
    trains_whole,
    with_model,
)
from a3gnn.tuning.study.trial import BASELINE, RACE, Proposal, Trial

#: A step whose quality is further below the best's after equal seconds is given up. Steps around it are tried last. It
#: is about the spread of seeds, whose standard deviation is at most .006 on five graphs (docs/design/seed_order.md).
_BEHIND = 0.005
#: Configurations around which steps are tried first, if they are not behind: as many as the verification compares.
_CENTERS = 3
#: Orders the winner's systems knobs, which change speed and memory alone.
_SYSTEMS = Priority.parse("balanced")


class Recipe:
    """Proposes the trials of the recipe: model shapes, then the baseline's values, single values, systems knobs.

    Seconds that are left then go to single values around the other configurations of the race, in the order of their
    qualities so far. Dropped configurations that are not behind the best are trained on.

    The shapes race by successive halving (Jamieson and Talwalkar, "Non-stochastic Best Arm Identification", 2016). A
    trial of a later round continues the training of the one before (freeze-thaw). A budget that holds few steps leaves
    out the first rounds, and half of the shapes with each (`RaceSize`). Shapes train on the whole graph if the space
    has it and it is fast enough (`trains_whole`), else with the exact first layer where the model has one.
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
        rows = wanted(beliefs, goal, self._systems_of_best(beliefs), seconds_left, climbers=0)[:count]
        if len(rows):
            return [Proposal(goal.reason, beliefs.space.decode(row)) for row in rows]
        config = next_of_race(history, around_all=True)
        return [] if config is None else [Proposal(RACE, config)]

    def _systems_of_best(self, beliefs: Beliefs) -> Rows:
        """Returns rows that learn as the best trial does, with random other knobs, int64, shape (n, n_knobs)."""
        space, history = beliefs.space, beliefs.history
        seed = derive(self._seed, "starts", len(history.trials))
        best = history.row(beliefs.ranked[0].trial.measurement.config) if beliefs.ranked else None
        return space.sample(STARTS, seed) if best is None else drawn_like(beliefs, best, seed)


def next_of_race(history: History, around_all: bool = False) -> TrainConfig | None:
    """Returns the configuration that trains next; None if no shape and no step is left.

    Args:
        history: The trials so far.
        around_all: Whether steps are also taken around configurations that are behind the best, and dropped ones that
            are not behind it are trained on.
    """
    race, size, task = _Race(history), race_of(history), history.study.setting.task
    first, number = (0, len(SHAPES)) if size is None else (size.first, size.shapes)
    searches_model = any(knob.name == "model" for knob in history.space.searched)
    shapes = [{**START, **shape} for shape in shapes_of(task, searches_model)]
    is_whole = trains_whole(history)
    left = sorted((race.config(shape, is_whole) for shape in shapes), key=race.failed)[:number]
    for rung in range(first, RUNGS):
        if (due := next((one for one in left if race.is_due(one, rung)), None)) is not None:
            return due
        left = sorted(left, key=lambda one: -race.quality(one, rung))[: max(len(left) // 2, 1)]
    trained = race.trained()
    if not (done := [one for one in trained if not race.is_due(one, RUNGS - 1)]):
        return None
    best, own = done[0], race.config({name: task.value(name) for name in shapes[0]}, is_whole)
    centers = trained if around_all else [one for one in done[:_CENTERS] if race.is_near(one, best)]
    steps = chain.from_iterable(chain([one], race.steps(one)) for one in centers)
    tried = chain([own] if own != history.study.baseline else [], steps)
    return next((one for one in tried if race.may_win(one, best)), None)


@dataclass(frozen=True)
class _Race:
    """The trials of a race so far."""

    history: History

    def config(self, values: Mapping[str, Any], is_whole: bool) -> TrainConfig:
        """Returns the canonical configuration with `values` of the search, on the whole graph or in mini-batches."""
        space, trial = self.history.space, baseline_of(self.history)
        baseline = self.history.study.baseline if trial is None else trial.measurement.config
        size = ALL if is_whole else baseline.batch_size
        systems = {"batch_size": size, "feature_tier": baseline.feature_tier, "input_aggregation": "full"}
        known = {name: value for name, value in systems.items() if value in space.knob(name).values}
        return space.decode(space.row_of({**values, **known}))

    @cached_property
    def last(self) -> dict[TrainConfig, Trial]:
        """The last trial of each configuration."""
        return {trial.measurement.config: trial for trial in self.history.trials}

    @cached_property
    def curves(self) -> dict[TrainConfig, LearningCurve | None]:
        """The learning curve of each configuration, if it has one."""
        return {config: self.history.curve(config) for config in self.last}

    @cached_property
    def reached(self) -> dict[TrainConfig, int]:
        """The last round that each configuration has trained for."""
        return {config: reached_rung(self.history, config) for config in self.last}

    def failed(self, config: TrainConfig) -> bool:
        """Whether the last trial of `config` failed."""
        return config in self.last and self.last[config].metrics is None

    def is_due(self, config: TrainConfig, rung: int) -> bool:
        """Whether `config` has not trained for round `rung`, did not fail, and has not stopped improving.

        The baseline is never due: its first trial trains it.
        """
        if (trial := self.last.get(config)) is None:
            return True
        if trial.reason in BASELINE:
            return False
        curve = self.curves[config]
        stopped = curve is not None and curve.ended is CurveEnd.PLATEAU
        return trial.metrics is not None and not stopped and self.reached[config] < rung

    def quality(self, config: TrainConfig, rung: int) -> float:
        """Returns the best validation quality within the seconds of round `rung`; minus infinity if unknown."""
        trial, curve = self.last.get(config), self.curves.get(config)
        if trial is None or trial.metrics is None or curve is None or not curve.batches:
            return -math.inf
        within = max(trial.metrics.pace.batches(rung_s(self.history, rung)) * ROUNDING, curve.batches[0])
        return max(curve.val_accuracy[: sum(batches <= within for batches in curve.batches)])

    def trained(self) -> list[TrainConfig]:
        """Returns the configurations of the race that have a quality, and the baseline in the space, the best first.

        Those on the whole graph are left out where it is too slow.
        """
        reasons = (RACE, *BASELINE)
        raced = dict.fromkeys(trial.measurement.config for trial in self.history.trials if trial.reason in reasons)
        is_whole = trains_whole(self.history)
        inside = (one for one in raced if self.history.row(one) is not None and (is_whole or one.batch_size != ALL))
        known = {one: quality for one in inside if (quality := self.quality(one, RUNGS - 1)) > -math.inf}
        return sorted(known, key=lambda one: -known[one])

    def is_near(self, config: TrainConfig, best: TrainConfig, rung: int = RUNGS - 1) -> bool:
        """Whether `config` is not behind `best` after the seconds of round `rung`."""
        return self.quality(config, rung) >= self.quality(best, rung) - _BEHIND

    def may_win(self, config: TrainConfig, best: TrainConfig) -> bool:
        """Whether a step is to be trained (on): it is due, and not known to be behind the best after equal seconds."""
        if config not in self.last:
            return True
        reached = self.reached[config]
        return self.is_due(config, RUNGS - 1) and (reached < 0 or self.is_near(config, best, reached))

    def steps(self, best: TrainConfig) -> Iterator[TrainConfig]:
        """Yields the configurations one step from `best`: numbers down before up, choices, whole graph or mini-batches.

        A step of model or residual connections also maps the node itself where the model's layers do not.
        """
        space = self.history.space
        row = space.encode(best)
        values = space.values(space.decode(row))
        own = {knob.name: values[knob.name] for knob in space.searched}
        model = own.get("model", self.history.study.setting.task.model)
        changes = []
        for name, ones in STEPS.items():
            tried = sorted({*ones, own[name]})
            place = tried.index(own[name])
            changes += [{name: tried[other]} for other in (place - 1, place + 1) if 0 <= other < len(tried)]
        changes += [{name: other} for name in CHOICES if name in own for other in space.knob(name).values]
        for change in changes:
            if not change.keys().isdisjoint(("residual", "model")):
                change = with_model({"residual": own["residual"], **change}, change.get("model", model))
            yield self._changed(row, values, change)
        is_whole = best.batch_size == ALL
        if is_whole or trains_whole(self.history):
            yield self.config(own, not is_whole)

    def _changed(self, row: Rows, values: Mapping[str, Any], change: Mapping[str, Any]) -> TrainConfig:
        """Returns the configuration of `row`, which has `values`, with `change`.

        An input aggregation that was idle is full, as that of the shapes.
        """
        space, name = self.history.space, "input_aggregation"
        if space.knob(name).idle.holds(values) and "full" in space.knob(name).values:
            change = {name: "full", **change}
        changed = row.copy()
        for name, value in change.items():
            changed[space.names.index(name)] = space.knob(name).index(value)
        return space.decode(space.canonical(changed[None])[0])

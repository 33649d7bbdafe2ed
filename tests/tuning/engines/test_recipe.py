"""The race of `--priority quality`, on made-up curves."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.knobs import ALL
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.measurement import Failure, FailureKind, Metrics
from a3gnn.objectives import Priority
from a3gnn.page.views import study_views
from a3gnn.profiling.request import TrialRequest
from a3gnn.search import checked_search, search_of
from a3gnn.search_values import reads_a_table
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.expectations import TrialCost, fit_surrogate
from a3gnn.tuning.engines.engine import engine_of
from a3gnn.tuning.engines.recipe import Recipe, next_of_race
from a3gnn.tuning.outcome.kept_tune import KeptTune
from a3gnn.tuning.run.blocks import reserve_s
from a3gnn.tuning.run.plans import stopped_s, trial_plan, whole_plan
from a3gnn.tuning.run.rounds import _race_s
from a3gnn.tuning.study.folder import check_request, write_request
from a3gnn.tuning.study.history import Compared, History
from a3gnn.tuning.study.quality import (
    RUNGS,
    SHAPES,
    START,
    race_of,
    reached_rung,
    recipe_search,
    rung_s,
    shapes_of,
    trains_whole,
)
from a3gnn.tuning.study.study import Study, TuneRequest
from a3gnn.tuning.study.trial import RACE, Proposal, SpeedTiming, Trial
from a3gnn.units import parse_duration
from tests.tuning.formulas import Formulas, by_quality, quality_of, rising
from tests.tuning.histories import MiB, measured

BUDGET_S = 240.0
DEFAULT = TrainConfig()


def shape_of(config: TrainConfig, task: Task) -> tuple[Any, ...]:
    """Returns the values of a shape in `config`."""
    return tuple(config.task_of(task).value(name) for name in SHAPES[0])


def slowly(steps_per_s: float) -> Callable[[TrialRequest, Metrics, int], Metrics | Failure]:
    """Returns `by_quality` on a machine on which the race's trials take so many steps per second."""

    def slow(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        found = by_quality(request, metrics, before)
        is_raced = bool(request.config.searched) and isinstance(found, Metrics)
        return dataclasses.replace(found, throughput_epochs_per_s=steps_per_s / 10) if is_raced else found

    return slow


@pytest.fixture
def empty(setting: Setting) -> History:
    request = TuneRequest(
        spec="tiny",
        task=setting.task,
        priority=Priority.parse("quality"),
        memory_limit=400 * MiB,
        host_memory_limit=None,
        max_accuracy_drop=0.5,
        budget=BUDGET_S,
        engine="ppo",
        search=search_of(recipe_search(setting.task)),
        recipe=True,
    )
    return History(Study.of(request, setting))


def with_task(history: History, task: Task) -> History:
    """Returns a history without trials, of a tune of `task`."""
    request = dataclasses.replace(history.study.request, task=task, search=search_of(recipe_search(task)))
    return History(Study.of(request, dataclasses.replace(history.study.setting, task=task)))


def with_trial(history: History, proposal: Proposal, machine: Formulas) -> History:
    config = proposal.config.canonical()
    plan = dataclasses.replace(trial_plan(proposal, history), host_limit_bytes=400 * MiB)
    outcome = machine.run(TrialRequest(config, history.study.setting, "", plan))
    return history.with_trial(Trial(proposal.reason, {}, measured(history, config, outcome)))


def raced(history: History, machine: Formulas, most: int = 200) -> tuple[History, list[TrainConfig]]:
    history = with_trial(history, Proposal("default", TrainConfig()), machine)
    tried: list[TrainConfig] = []
    while (config := next_of_race(history)) is not None and len(tried) < most:
        history = with_trial(history, Proposal(RACE, config), machine)
        tried.append(config)
    return history, tried


def test_shapes_race_by_halves_and_go_on_where_they_ended(empty: History, formulas: Callable[..., Formulas]) -> None:
    machine = formulas(by_quality)
    history, tried = raced(empty, machine, most=15)
    assert all(config.batch_size == ALL for config in tried)
    task = history.study.setting.task
    shapes = [START | shape for shape in shapes_of(task)]
    named = [{name: config.task_of(task).value(name) for name in shapes[0]} for config in tried]
    assert named[:8] == shapes
    best = sorted(shapes, key=lambda shape: -quality_of(shape))
    assert all(one in best[:4] for one in named[8:12])
    assert all(one in best[:2] for one in named[12:14])
    assert named[14] == best[0]
    seconds = [request.plan.curve.most_seconds for request in machine.ran[1:] if request.plan.curve]
    assert seconds == [rung_s(history, rung) for rung in range(RUNGS) for _ in range(8 >> rung)]
    assert seconds[-1] == history.study.quality_s == BUDGET_S / 8


@pytest.mark.parametrize(("model", "residual"), [("transformer", True), ("gin", "linear"), ("gat", "linear")])
def test_residuals_map_the_nodes_row_where_layers_do_not(
    model: str, residual: Any, empty: History, formulas: Callable[..., Formulas]
) -> None:
    task = dataclasses.replace(empty.study.setting.task, model=model, hidden_channels=16)
    _, tried = raced(with_task(empty, task), formulas(by_quality), most=8)
    assert [config.task_of(task).residual for config in tried] == [residual, False] * 2 + [False] + [residual] * 3
    is_mapped = residual == "linear"  # a second plain shape in place of one with 3 layers
    assert [config.task_of(task).num_layers for config in tried] == [4, 2, 8, 4, 2, 2, 2 if is_mapped else 3, 12]
    assert [config.task_of(task).weight_decay for config in tried] == [0.0, 5e-4, *[0.0] * 4, 5e-4 * is_mapped, 0.0]


@pytest.mark.parametrize(("steps_per_s", "first", "words"), [(8.0, 1, "4 shapes of 8"), (1.25, 2, "up to 38 steps")])
def test_a_budget_of_few_steps_leaves_out_rounds_and_shapes(
    steps_per_s: float, first: int, words: str, empty: History, formulas: Callable[..., Formulas]
) -> None:
    machine = formulas(slowly(steps_per_s))
    history, tried = raced(empty, machine, most=[0, 8, 4][first])
    size = race_of(history)
    assert size is not None
    assert (size.first, size.shapes) == (first, 8 >> first)
    assert words in size.describe()
    seconds = [request.plan.curve.most_seconds for request in machine.ran[1:] if request.plan.curve]
    rounds = [rung_s(history, rung) for rung in range(RUNGS) for _ in range((rung >= first) * 8 >> rung)]
    assert sorted(seconds) == [rung_s(history, 0), *rounds]  # the first trial measures
    assert len({config.key() for config in tried}) == size.shapes
    assert all(reached_rung(history, one) == RUNGS - 1 for one in tried[-1:])
    longer = dataclasses.replace(history.study.request, budget=parse_duration(size.budget))
    whole = race_of(dataclasses.replace(history, study=Study.of(longer, history.study.setting)))
    assert whole is not None
    assert (whole.first, whole.describe()) == (0, "")


def test_a_budget_in_trials_holds_the_race_that_leaves_half_of_them(
    empty: History, formulas: Callable[..., Formulas]
) -> None:
    for trials, first in ((30, 0), (29, 1), (14, 1), (13, 2), (2, 2)):
        request = dataclasses.replace(empty.study.request, budget=trials)
        history, _ = raced(History(Study.of(request, empty.study.setting)), formulas(by_quality), most=1)
        size = race_of(history)
        assert size is not None
        assert size.first == first
        assert size.budget == "30"


def test_a_budget_in_trials_names_one_in_seconds_where_trainings_are_short(
    empty: History, formulas: Callable[..., Formulas]
) -> None:
    """The steps of a training do not depend on the number of trials."""
    for trials, first in ((100, 0), (14, 1)):
        request = dataclasses.replace(empty.study.request, budget=trials)
        history, _ = raced(History(Study.of(request, empty.study.setting)), formulas(slowly(1.25)), most=1)
        size = race_of(history)
        assert size is not None
        assert (size.first, size.steps) == (first, 1.25 * history.study.quality_s)
        longer = dataclasses.replace(request, budget=parse_duration(size.budget))
        whole = race_of(dataclasses.replace(history, study=Study.of(longer, history.study.setting)))
        assert whole is not None
        assert (whole.first, whole.describe()) == (0, "")


def test_shapes_that_fail_leave_their_places_to_others(empty: History, formulas: Callable[..., Formulas]) -> None:
    slow, task = slowly(1.25), empty.study.setting.task
    shapes = [tuple(shape[name] for name in SHAPES[0]) for shape in shapes_of(task)]
    failed = shapes[1:3]

    def failing(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if request.config.searched and shape_of(request.config, request.setting.task) in failed:
            return Failure(FailureKind.TIMEOUT, "too slow", limit=60.0)
        return slow(request, metrics, before)

    history, tried = raced(empty, formulas(failing), most=6)
    size = race_of(history)
    assert size is not None
    assert size.shapes == 2
    raced_shapes = [shape_of(config, history.study.setting.task) for config in tried]
    assert raced_shapes[:5] == [shapes[place] for place in (0, 0, 1, 2, 3)]


def test_the_size_of_a_race_stays_when_the_machine_is_timed_again(
    empty: History, formulas: Callable[..., Formulas]
) -> None:
    history, _ = raced(empty, formulas(slowly(8.0)), most=1)
    before = race_of(history)
    assert before is not None
    begin = datetime.fromisoformat(history.trials[-1].measurement.created)
    timings = [SpeedTiming((begin + timedelta(seconds=s)).isoformat(), drift) for s, drift in ((-1, 1.0), (1, 0.01))]
    for timing in timings:
        history = history.with_timing(timing)
    assert history.trials[-1].drift != 1
    assert race_of(history) == before


def test_steps_lead_to_the_best_values_within_the_limit(empty: History, formulas: Callable[..., Formulas]) -> None:
    history, tried = raced(empty, formulas(by_quality))
    assert len(tried) < 150
    best = history.best()
    assert best is not None
    task = best.trial.measurement.config.task_of(history.study.setting.task)
    assert (task.num_layers, task.norm, task.residual) == (4, "batch", True)
    assert (task.hidden_channels, task.dropout) == (128, 0.5)
    trials = Counter(config.key() for config in tried)
    assert max(trials.values()) == RUNGS
    wide = [one for one in history.trials if dict(one.measurement.config.searched).get("hidden_channels") == 256]
    assert wide  # over the limit, and tried once each
    assert not any(one.metrics for one in wide)
    assert len({one.measurement.config.key() for one in wide}) == len(wide)


def test_steps_around_the_next_best_lead_to_what_two_steps_from_the_best_reach(
    empty: History, formulas: Callable[..., Formulas]
) -> None:
    """One step of either value alone is no gain, or even a loss."""
    ends = {(0.35, 64): 0.9, (0.5, 64): 0.897, (0.35, 128): 0.89, (0.5, 128): 0.95}

    def both(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        task = request.config.task_of(request.setting.task)
        is_near = (task.model, task.num_layers, task.norm) == ("sage", 4, "batch")
        is_near &= (task.learning_rate, task.weight_decay) == (START["learning_rate"], START["weight_decay"])
        end = ends.get((task.dropout, task.hidden_channels), 0.8) if is_near else 0.8
        return dataclasses.replace(metrics, curve=rising(end), peak_host_bytes=300 * MiB)

    history, tried = raced(empty, formulas(both))
    assert len(tried) < 100
    best = history.best()
    assert best is not None
    task = best.trial.measurement.config.task_of(history.study.setting.task)
    assert (task.num_layers, task.dropout, task.hidden_channels) == (4, 0.5, 128)


def test_seconds_that_are_left_go_to_steps_around_shapes_that_are_behind(
    empty: History, formulas: Callable[..., Formulas]
) -> None:
    """A shape loses the last round by .05, and one step from it is the best of all."""

    def behind(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        task = request.config.task_of(request.setting.task)
        start = {"hidden_channels": 64, "learning_rate": 0.01}
        own = {name: task.value(name) for name in start}
        plain = {(0.5, 5e-4): 0.85, (0.7, 5e-4): 0.97}.get((task.dropout, task.weight_decay), 0.8)
        deep = 0.9 if (task.num_layers, task.dropout, task.weight_decay) == (4, 0.35, 0.0) else 0.8
        ends = {("gcn", "none"): plain, ("sage", "batch"): deep}
        end = ends.get((task.model, task.norm), 0.8) if own == start else 0.8
        return dataclasses.replace(metrics, curve=rising(end), peak_host_bytes=300 * MiB)

    machine = formulas(behind)
    history, tried = raced(empty, machine)
    task, before = history.study.setting.task, len(tried)
    assert not any(config.task_of(task).dropout == 0.7 for config in tried if config.task_of(task).model == "gcn")
    while (config := next_of_race(history) or next_of_race(history, around_all=True)) is not None:
        history = with_trial(history, Proposal(RACE, config), machine)
        tried.append(config)
        if len(tried) == before + 40:
            break
    best = history.best()
    assert best is not None
    chosen = best.trial.measurement.config.task_of(task)
    assert (chosen.model, chosen.norm, chosen.dropout) == ("gcn", "none", 0.7)
    after = tried[tried.index(best.trial.measurement.config) + RUNGS :]
    steps = [one for one in after if (one.task_of(task).model, one.task_of(task).norm) == ("gcn", "none")]
    assert any(one.task_of(task).dropout == 0.7 for one in steps), "steps follow around it"


@pytest.mark.parametrize("whole", ["fails", "is slow"])
def test_shapes_train_in_mini_batches_where_the_whole_graph_is_slow(
    whole: str, empty: History, formulas: Callable[..., Formulas]
) -> None:
    def slow(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        found = by_quality(request, metrics, before)
        if request.config == DEFAULT or isinstance(found, Failure):
            return found
        if whole == "fails" and request.config.batch_size == ALL:
            return Failure(FailureKind.OUT_OF_MEMORY, "too large", 500 * MiB, 400.0 * MiB)
        epochs_per_s = 0.12 if request.config.batch_size == ALL else 4.0  # of ten steps; the baseline's is 1
        return dataclasses.replace(found, throughput_epochs_per_s=epochs_per_s)

    history, tried = raced(empty, formulas(slow), most=17)
    task = history.study.setting.task
    shapes = [tuple(shape[name] for name in SHAPES[0]) for shape in shapes_of(task)]
    assert [config.batch_size for config in tried] == [ALL] + [1024] * 16
    assert [shape_of(config, task) for config in tried[:9]] == [shapes[0], *shapes]
    size = race_of(history)
    assert size is not None
    assert size.measured == tuple(tried[:2])
    assert reached_rung(history, tried[1]) == RUNGS - 1
    machine = formulas(slow)
    history, tried = raced(empty, machine)
    for _ in range(30):
        config = next_of_race(history, around_all=True)
        assert config is not None
        history = with_trial(history, Proposal(RACE, config), machine)
        tried.append(config)
    assert [config.batch_size for config in tried].count(ALL) == 1, "no step goes back"


@pytest.mark.parametrize(
    "fixed",
    [
        {"num_workers": 2},
        {"num_partitions": 4},
        {"seed_fanout": 2},
        {"seed_order": "proximity"},
        {"bias_rate": 2.0},
        {"parallel_mode": "mode1"},
        {"input_aggregation": "full"},
        {"batch_size": 256},
    ],
    ids=lambda fixed: next(iter(fixed)),
)
def test_steps_keep_fixed_knobs_and_leave_a_baseline_without_them(
    fixed: dict[str, Any], empty: History, formulas: Callable[..., Formulas]
) -> None:
    """The baseline ends above all shapes and has other values, so the best of the others is the center of the steps."""

    def above(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        end = 0.99 if request.config == DEFAULT else quality_of(dict(request.config.searched))
        return dataclasses.replace(metrics, curve=rising(end), peak_host_bytes=300 * MiB)

    request = dataclasses.replace(empty.study.request, fixed=tuple(fixed.items()))
    history, tried = raced(History(Study.of(request, empty.study.setting)), formulas(above), most=40)
    space = history.space
    assert all(space.decode(space.encode(config)) == config for config in tried)
    assert "batch_size" not in fixed or {config.batch_size for config in tried} == {256}
    assert (history.row(DEFAULT) is None) == fixed.keys().isdisjoint(("num_workers", "bias_rate"))  # idle there
    if history.row(DEFAULT) is None:
        ends = [one.task_of(history.study.setting.task) for one in tried if reached_rung(history, one) == RUNGS - 1]
        assert any((task.num_layers, task.norm, task.dropout) == (4, "batch", 0.5) for task in ends)


def test_no_other_trial_stands_in_for_a_baseline_that_does_not_fit(
    empty: History, formulas: Callable[..., Formulas]
) -> None:
    """The best one is much faster than the first, as if the whole graph were slow."""

    def no_baseline(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        found = by_quality(request, metrics, before)
        if not request.config.searched:
            return Failure(FailureKind.OUT_OF_MEMORY, "too large", 500 * MiB, 400.0 * MiB)
        is_fast = dict(request.config.searched).get("model") == "gcn"
        return (
            found
            if isinstance(found, Failure)
            else dataclasses.replace(found, throughput_epochs_per_s=40.0 if is_fast else 2.0)
        )

    history, tried = raced(empty, formulas(no_baseline), most=80)
    assert trains_whole(history)
    assert {config.batch_size for config in tried[:12]} == {ALL}
    assert 1024 in {config.batch_size for config in tried}, "a step tries the baseline's mini-batches"
    assert race_of(history) is not None


def test_shapes_read_from_disk_where_only_such_a_baseline_fits(
    empty: History, formulas: Callable[..., Formulas]
) -> None:
    def large(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if request.config.feature_tier == "ram":
            return Failure(FailureKind.OUT_OF_MEMORY, "too large", 500 * MiB, 400.0 * MiB)
        return by_quality(request, metrics, before)

    machine, on_disk = formulas(large), TrainConfig(feature_tier="disk")
    history = with_trial(empty, Proposal("default", TrainConfig()), machine)
    history = with_trial(history, Proposal("default", on_disk), machine)
    for _ in range(3):
        config = next_of_race(history)
        assert config is not None
        history = with_trial(history, Proposal(RACE, config), machine)
    first, *others = (trial.measurement.config for trial in history.trials[2:])
    assert first.batch_size == ALL
    assert all((config.batch_size, config.feature_tier) == (1024, "disk") for config in others)


def test_steps_around_the_baseline_keep_its_mini_batches(empty: History, formulas: Callable[..., Formulas]) -> None:
    """Every shape ends below it, and one step from it is the best of all."""

    def above(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        values = dict(request.config.searched)
        ends = {(): 0.9, (("dropout", 0.7),): 0.95}
        end = ends.get(tuple(values.items()), 0.8) if request.config.batch_size == 1024 else 0.7
        return dataclasses.replace(metrics, curve=rising(end), peak_host_bytes=300 * MiB)

    history, _ = raced(empty, formulas(above))
    best = history.best()
    assert best is not None
    assert best.trial.measurement.config == dataclasses.replace(TrainConfig(), searched=(("dropout", 0.7),)).canonical()


@pytest.mark.parametrize(
    "change",
    [
        {"residual": False},
        {"norm": "layer"},
        {"model": "gcn", "residual": "linear"},
        {"layers": 3},
        {"batch_size": 1024},
    ],
    ids=lambda change: next(iter(change)),
)
def test_steps_change_the_shape_and_the_mini_batch(
    change: dict[str, Any], empty: History, formulas: Callable[..., Formulas]
) -> None:
    """One change from the best shape is the best of all."""
    of_shape = {"layers": 4, "norm": "batch", "residual": True, "model": "sage", "batch_size": ALL, **START}
    ends = [(of_shape, 0.9), ({**of_shape, **change}, 0.95)]
    task = empty.study.setting.task

    def by_step(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        own = request.config.task_of(task)
        values = {name: own.value(name) for name in of_shape if name != "batch_size"}
        values["batch_size"] = request.config.batch_size
        end = next((end for one, end in ends if one == values), 0.8)
        return dataclasses.replace(metrics, curve=rising(end), throughput_epochs_per_s=3.0, peak_host_bytes=300 * MiB)

    history, _ = raced(empty, formulas(by_step))
    best = history.best()
    assert best is not None
    config = best.trial.measurement.config
    found = {name: config.task_of(task).value(name) for name in change if name != "batch_size"}
    assert found == {name: value for name, value in change.items() if name != "batch_size"}
    assert config.batch_size == change.get("batch_size", ALL)


@pytest.mark.parametrize(("fixed", "reason"), [((("batch_size", 256),), "best"), ((), RACE)])
def test_after_the_steps_trials_change_what_the_best_does_not_learn_from(
    fixed: tuple[tuple[str, Any], ...], reason: str, empty: History, formulas: Callable[..., Formulas]
) -> None:
    """The whole graph leaves no such knob, so further steps follow at once."""
    request = dataclasses.replace(empty.study.request, fixed=fixed)
    history, _ = raced(History(Study.of(request, empty.study.setting)), formulas(by_quality))
    beliefs, task = Beliefs(history, fit_surrogate(history)), history.study.setting.task
    best = beliefs.ranked[0].trial.measurement.config
    (proposal,) = Recipe(0).propose(beliefs)
    assert proposal.reason == reason
    assert (proposal.config.curve_key(task) == best.curve_key(task)) is (reason == "best")
    if reason == "best":
        assert proposal.config.canonical() not in [one.measurement.config for one in history.trials]


@pytest.mark.parametrize(("own", "other"), [("sage", "gcn"), ("gcn", "sage")])
def test_shapes_of_the_other_model_race_with_residuals_of_its_own(
    own: str, other: str, empty: History, formulas: Callable[..., Formulas]
) -> None:
    def by_model(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        found, values = by_quality(request, metrics, before), dict(request.config.searched)
        if isinstance(found, Failure) or values.get("model") != other:
            return found
        return dataclasses.replace(found, curve=rising(quality_of(values) + 0.05))

    empty = with_task(empty, dataclasses.replace(empty.study.setting.task, model=own))
    history, tried = raced(empty, formulas(by_model))
    tasks = [config.task_of(history.study.setting.task) for config in tried[:8]]
    assert [task.model for task in tasks] == [own, own, own, other, own, other, "gcn", own]
    assert all(task.residual == {"sage": True, "gcn": "linear"}[task.model] for task in tasks if task.residual)
    best = history.best()
    assert best is not None
    task = best.trial.measurement.config.task_of(history.study.setting.task)
    assert (task.model, task.num_layers, task.hidden_channels, task.dropout) == (other, 4, 128, 0.5)


def test_a_step_that_is_behind_after_equal_seconds_is_given_up(
    empty: History, formulas: Callable[..., Formulas]
) -> None:
    _, tried = raced(empty, formulas(by_quality))
    trials = Counter(config.key() for config in tried)
    worse = [config for config in tried if dict(config.searched).get("hidden_channels") == 32]
    assert worse
    assert sum(not config.searched for config in tried) == 1  # the task's own values
    assert all(trials[config.key()] == 1 for config in worse)


def test_the_baseline_is_no_step_where_shapes_train_as_it_does(
    empty: History, formulas: Callable[..., Formulas]
) -> None:
    """Attention in mini-batches; its end is near the best, and its curve still rises."""
    task = dataclasses.replace(empty.study.setting.task, model="gat", hidden_channels=16, heads=1)
    request = dataclasses.replace(with_task(empty, task).study.request, fixed=(("batch_size", 1024),))
    setting = dataclasses.replace(empty.study.setting, task=task)

    def level(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return dataclasses.replace(metrics, curve=rising(0.9), peak_host_bytes=300 * MiB)

    history, tried = raced(History(Study.of(request, setting)), formulas(level))
    assert tried
    assert history.study.baseline not in tried


def test_failed_shapes_leave_the_race(empty: History, formulas: Callable[..., Formulas]) -> None:
    def deep_fails(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if dict(request.config.searched).get("layers") in (4, 8):
            return Failure(FailureKind.OUT_OF_MEMORY, "too deep", 500 * MiB, 400.0 * MiB)
        return by_quality(request, metrics, before)

    history, tried = raced(empty, formulas(deep_fails))
    best = history.best()
    assert best is not None
    assert best.trial.measurement.config.task_of(history.study.setting.task).num_layers == 3
    deep = Counter(config.key() for config in tried if dict(config.searched).get("layers") in (4, 8))
    assert set(deep.values()) == {1}


def test_trainings_end_where_they_stop_improving_and_count_as_complete(
    empty: History, formulas: Callable[..., Formulas]
) -> None:
    request = dataclasses.replace(empty.study.request, budget=4 * BUDGET_S)
    empty = History(Study.of(request, empty.study.setting))
    history = with_trial(empty, Proposal("default", TrainConfig()), formulas(by_quality))
    plan = whole_plan(history, TrainConfig())
    assert plan.curve is not None
    assert plan.curve.until_plateau
    flat = LearningCurve(tuple(range(10, 600, 10)), (0.8,) * 59, CurveEnd.PLATEAU)

    def stops(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return dataclasses.replace(metrics, curve=flat, peak_host_bytes=300 * MiB)

    config = next_of_race(history)
    assert config is not None
    history = with_trial(history, Proposal(RACE, config), formulas(stops))
    figures = history.figures(history.trials[-1])
    assert figures is not None
    assert figures.complete
    assert next_of_race(history) != config


def test_a_tune_by_another_versions_recipe_goes_on(empty: History, tmp_path: Path) -> None:
    request = empty.study.request
    before = dataclasses.replace(request, search=request.search[1:])
    write_request(tmp_path, before)
    check_request(tmp_path, request)
    write_request(tmp_path, dataclasses.replace(before, recipe=False))
    with pytest.raises(UsageError, match="search was"):
        check_request(tmp_path, dataclasses.replace(request, recipe=False))


def test_a_kept_tune_is_judged_by_the_seconds_that_it_compared_by(
    empty: History, formulas: Callable[..., Formulas]
) -> None:
    """The release before trained for a sixteenth of the budget at most."""

    def stops(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        flat = LearningCurve(tuple(range(10, 110, 10)), (0.8,) * 10, CurveEnd.PLATEAU)
        return dataclasses.replace(metrics, curve=flat)

    history = with_trial(empty, Proposal("default", TrainConfig()), formulas(stops))
    kept = dataclasses.replace(history, compared=Compared(BUDGET_S / 16, 0.8))
    assert history.reference is not None
    assert kept.reference is not None
    assert (history.reference.budget_s, kept.reference.budget_s) == (BUDGET_S / 8, BUDGET_S / 16)


@pytest.mark.parametrize("fields", [{"accuracy_epochs": 10_000}, {"target_accuracy": 99.0}])
def test_a_baseline_with_an_end_of_its_own_leaves_the_seconds_of_a_second_seed(
    fields: dict[str, Any], empty: History, formulas: Callable[..., Formulas]
) -> None:
    study = Study.of(dataclasses.replace(empty.study.request, **fields), empty.study.setting)
    history = with_trial(History(study), Proposal("default", TrainConfig()), formulas(by_quality))
    assert study.reference_curve.most_seconds == study.quality_s
    assert history.reference is not None
    assert history.reference.budget_s <= study.quality_s
    assert reserve_s(history, 0.0) < BUDGET_S - history.reference.budget_s
    assert reserve_s(history, 0.0) < reserve_s(history, math.inf)  # a third seed, where a share has room for it
    needed_s, _ = _race_s(history, 0.0)
    assert needed_s == pytest.approx(reserve_s(history, 0.0) + TrialCost.of(history).seconds(rung_s(history, 0)))


def test_the_recipe_runs_unless_a_search_or_an_engine_is_given(empty: History) -> None:
    request = empty.study.request
    assert isinstance(engine_of(request), Recipe)
    assert not isinstance(engine_of(dataclasses.replace(request, engine="random")), Recipe)
    assert not isinstance(engine_of(dataclasses.replace(request, recipe=False)), Recipe)
    again = TuneRequest.from_dict(request.to_dict())
    assert again == request
    assert isinstance(engine_of(again), Recipe)
    assert "recipe" not in dataclasses.replace(request, recipe=False).to_dict()


def test_other_priorities_never_try_the_whole_graph(empty: History) -> None:
    study = empty.study
    assert ALL in study.space.knob("batch_size").values
    for priority, fixed in (("accuracy", ()), ("quality", (("batch_size", 256),))):
        request = dataclasses.replace(study.request, priority=Priority.parse(priority), fixed=fixed)
        assert ALL not in request.space(study.setting).knob("batch_size").values


@pytest.mark.parametrize("models", [(), ("sage", "gcn", "gin", "gat")])
def test_where_a_searched_residual_leaves_no_table_the_input_layer_samples(models, empty: History) -> None:
    task = dataclasses.replace(empty.study.setting.task, model="gcn", hidden_channels=16)
    setting = dataclasses.replace(empty.study.setting, task=task)
    given = {"residual": [False, True, "linear"]} | ({"model": list(models)} if models else {})
    request = dataclasses.replace(empty.study.request, task=task, search=checked_search(search_of(given), task))
    space, found = request.space(setting), {}
    for values in itertools.product(*given.values()):
        named = dict(zip(given, values, strict=True))
        config = space.decode(space.row_of({"batch_size": 64, "input_aggregation": "full", **named})).canonical()
        known = config.task_of(task)
        assert (known.residual, known.model) == (named["residual"], named.get("model", "gcn"))
        assert (config.input_aggregation == "full") == reads_a_table(known)
        found[known.model, known.residual] = config.input_aggregation
    assert (found["gcn", True], found["gcn", "linear"]) == ("full", "sampled")


@pytest.mark.parametrize(("epochs", "times"), [(None, 2.0), (100, math.inf)])
def test_a_further_training_ends_after_twice_the_seconds_of_the_first(
    epochs: int | None, times: float, empty: History, formulas: Callable[..., Formulas]
) -> None:
    """But a number of epochs is trained to its end."""
    flat = LearningCurve(tuple(range(10, 610, 10)), (0.8,) * 60, CurveEnd.PLATEAU)

    def stops(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        return dataclasses.replace(metrics, curve=flat)

    request = dataclasses.replace(empty.study.request, accuracy_epochs=epochs, budget=4 * BUDGET_S)
    history = with_trial(History(Study.of(request, empty.study.setting)), Proposal("default", DEFAULT), formulas(stops))
    assert history.reference is not None
    trained_s = history.reference_metrics.pace.seconds(history.curve(DEFAULT).trained)
    assert stopped_s(history, DEFAULT) == pytest.approx(times * trained_s)
    assert stopped_s(history, dataclasses.replace(DEFAULT, batch_size=64)) == math.inf


def test_bad_requests_are_refused(quick_tune: Callable[..., Any], tiny_graph) -> None:
    with pytest.raises(UsageError, match="needs a built-in model or a search of your own"):
        quick_tune(priority="quality", model="tests.own_models:sage", task=None)
    from a3gnn.tuning.recommend import recommend

    with pytest.raises(UsageError, match="needs trials"):
        recommend(tiny_graph, priority="quality")


@pytest.mark.parametrize("fixed", [{}, {"batch_size": ALL}], ids=["free", "fixed"])
def test_a_tune_says_that_shapes_leave_the_whole_graph(
    fixed: dict[str, Any], quick_tune: Callable[..., Any], formulas: Callable[..., Formulas]
) -> None:
    """Unless the user asked for it."""

    def first_fails(request: TrialRequest, metrics: Metrics, before: int) -> Metrics | Failure:
        if request.config.batch_size == ALL and shape_of(request.config, request.setting.task)[0] == 4:
            return Failure(FailureKind.OUT_OF_MEMORY, "too large", 500 * MiB, 400.0 * MiB)
        return by_quality(request, metrics, before)

    lines: list[str] = []
    options = {"priority": "quality", "engine": "ppo", "budget": 2, "notify": lines.append, "max_accuracy_drop": 100.0}
    result = quick_tune(fix=fixed, executor=formulas(first_fails), **options)
    said = [line for line in lines if "so shapes train in mini-batches" in line]
    assert len(said) == (0 if fixed else 1)
    sizes = [trial.measurement.config.batch_size for trial in KeptTune.read(result.folder).history.trials]
    assert sizes == [1024, ALL, ALL if fixed else 1024]


@pytest.mark.slow
def test_a_whole_tune_chooses_the_best_shape(quick_tune: Callable[..., Any], formulas: Callable[..., Formulas]) -> None:
    result = quick_tune(priority="quality", engine="ppo", fix={}, budget=16, executor=formulas(by_quality))
    task = result.tuned.task
    assert (task.num_layers, task.norm) == (4, "batch")
    assert result.config.batch_size == ALL
    assert "final validation" in repr(result) or "validation accuracy" in repr(result)
    assert study_views(result.folder)["title"] == result.tuned.setting.graph.name  # without the baseline's model
    assert "time to" not in repr(result)  # the seconds to the baseline's quality are no answer to a question of quality
    tune = KeptTune.read(result.folder)
    assert len(tune.history.timings) == 1  # the baseline's own: speed decides nothing between trials
    asked = tune.judged_by(dataclasses.replace(tune.history.study.request, priority=Priority.parse("time")))
    assert all(asked.row(trial.measurement.config) is not None for trial in asked.trials)  # `pick` may take them

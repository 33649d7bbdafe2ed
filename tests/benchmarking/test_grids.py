"""Measured grids: what is measured of a graph, how often, and that an interrupted one goes on; by formulas."""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.learning_curve import CurveEnd, LearningCurve
from a3gnn.measurement import Measurement, Metrics
from a3gnn.profiling.request import TrialRequest
from a3gnn.profiling.store.jsonl import read_lines, read_measurements, shipped_measurements
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from benchmarks.corpus.measure import DEFAULT, SubjectTrials
from benchmarks.corpus.subjects import SUBJECTS as CORPUS
from benchmarks.corpus.subjects import Subject
from benchmarks.grids.__main__ import write_grid
from benchmarks.grids.design import SUBJECTS, grid_design
from benchmarks.grids.measure import Shape, best, cells, forecast, measure_grid, table
from benchmarks.report import ResultLines
from tests.tuning.formulas import Formulas

SUBJECT = Subject("synthetic:nodes=300,degree=8,classes=4,features=16")
SHAPE = Shape(keys=3, settings=2, top=2, replicates=3)


@pytest.fixture
def setting(tiny_graph: Graph, hardware: Hardware) -> Setting:
    return Setting(Task(), tiny_graph.characteristics(), hardware)


class Measure:
    """Measures the grid of a tiny graph into one folder, and notes what ran.

    Args:
        folder: Where.
        hardware: The machine.
        make_metrics: The fixture.
    """

    def __init__(self, folder: Path, hardware: Hardware, make_metrics: Callable[..., Metrics]) -> None:
        self.ran: list[TrialRequest] = []
        self._folder, self._hardware, self._make = folder, hardware, make_metrics

    def __call__(self, stop_after: int | None = None, shape: Shape = SHAPE) -> list[Measurement]:
        """Returns the grid's rows; nothing where it was stopped after so many trials."""
        self.ran.clear()

        def note(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
            if len(self.ran) == stop_after:
                raise KeyboardInterrupt
            self.ran.append(request)
            return metrics

        try:
            with self.opened(Formulas(self._make, note)) as trials:
                return measure_grid(trials, shape, SUBJECT.seed)
        except KeyboardInterrupt:
            return []

    def opened(self, executor: Formulas) -> SubjectTrials:
        """Returns the context of the subject's trials."""
        lines, console = ResultLines(self._folder / "rows.jsonl"), Console(file=io.StringIO())
        return SubjectTrials.opened(SUBJECT, lines, console, self._hardware, executor, self._folder)


@pytest.fixture
def measure(tmp_path: Path, hardware: Hardware, make_metrics: Callable[..., Metrics]) -> Measure:
    return Measure(tmp_path, hardware, make_metrics)


def test_a_design_has_so_many_settings_of_so_many_keys(setting: Setting) -> None:
    groups = grid_design(SearchSpace.of(setting), keys=12, settings=3, seed=0)
    keys = [{config.learning_key() for config in group} for group in groups]
    assert len(groups) == 12
    assert all(len(one) == 1 for one in keys)
    assert len(set.union(*keys)) == 12
    assert keys[0] == {DEFAULT.learning_key()}
    every = [config for group in groups for config in group]
    assert len(set(every)) == len(every) == 36
    assert DEFAULT not in every
    assert all(config == config.canonical() for config in every)


def test_a_design_is_decided_by_its_seed_and_a_larger_one_begins_with_it(setting: Setting) -> None:
    space = SearchSpace.of(setting)
    found = grid_design(space, keys=4, settings=2, seed=1)
    assert grid_design(space, keys=4, settings=2, seed=1) == found
    assert grid_design(space, keys=4, settings=2, seed=2) != found
    larger = grid_design(space, keys=6, settings=3, seed=1)
    assert [group[:2] for group in larger[:4]] == found


@pytest.mark.weekly  # a benchmark's, which a person runs
def test_a_space_with_few_settings_gives_what_it_has(setting: Setting) -> None:
    space = SearchSpace.of(setting)
    for knob in space.knobs:
        if knob.name not in ("batch_size", "feature_tier"):
            space = space.fix(knob.name, knob.default)
    groups = grid_design(space, keys=1_000, settings=6, seed=0)
    assert len(groups) == len(space.knob("batch_size").values)
    assert {len(group) for group in groups} == {1, 2}


def test_each_is_measured_once_and_the_best_and_the_default_again(measure: Measure, setting: Setting) -> None:
    found = measure()
    configs = cells(SearchSpace.of(setting), SHAPE, SUBJECT.seed)
    assert [row.config for row in found[:7]] == [DEFAULT, *configs]
    again = Counter(row.config for row in found[7:])
    assert len(again) == 3
    assert set(again.values()) == {2}
    assert again[DEFAULT] == 2
    for start in (7, 10):  # a round holds each of them once
        assert {row.config for row in found[start : start + 3]} == set(again)
    assert len({row.id for row in found}) == len(found) == 13
    assert all(request.plan.host_limit_bytes is None for request in measure.ran)


def test_a_curve_is_trained_once_per_learning_key(measure: Measure) -> None:
    measure()
    new = [request.config.learning_key() for request in measure.ran if request.known_curve is None]
    assert len(new) == len(set(new)) == SHAPE.keys


def test_an_interrupted_one_goes_on_and_measures_nothing_twice(measure: Measure) -> None:
    assert measure(stop_after=9) == []
    before = [request.config for request in measure.ran]
    found = measure()
    assert [row.config for row in found] == before + [request.config for request in measure.ran]
    assert measure() == found
    assert measure.ran == []


def test_what_misses_the_accuracy_is_not_among_the_best(measure: Measure, make_metrics: Callable[..., Metrics]) -> None:
    fast = TrainConfig(batch_size=64, learning_rate_scale=2.0).canonical()

    def wrong(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
        if request.config != fast:
            return metrics
        return dataclasses.replace(
            metrics, throughput_epochs_per_s=100.0, curve=LearningCurve((10,), (0.1,), CurveEnd.BUDGET)
        )

    with measure.opened(Formulas(make_metrics, wrong)) as trials:
        rows = [trials.default, trials.measure(1, fast), trials.measure(2, TrainConfig(feature_tier="disk"))]
        assert rows[1].metrics.throughput_epochs_per_s == 100
        assert best(trials, rows, 5) == [TrainConfig(feature_tier="disk").canonical()]
        assert best(trials, rows, 0) == []


def test_a_file_holds_the_rows_and_where_they_come_from(measure: Measure, tmp_path: Path) -> None:
    found = measure()
    path = write_grid(tmp_path, found)
    assert list(read_measurements(path)) == found
    provenance = read_lines(path).provenance
    assert provenance is not None
    assert len(provenance.hashes) == len(found)


def test_a_forecast_counts_each_curve_once(setting: Setting) -> None:
    past = shipped_measurements()[:45]
    configs = [DEFAULT, *cells(SearchSpace.of(setting), SHAPE, seed=0)]
    short, long = (forecast(setting, configs, SHAPE, seconds, past) for seconds in (2.0, 8.0))
    assert np.isfinite(short.seconds).all()
    assert (short.seconds > 0).all()
    more = long.seconds - short.seconds
    assert (more > 6.0).sum() == SHAPE.keys
    assert (np.abs(more[more <= 6.0]) < 1e-9).all()
    assert short.again_s == pytest.approx(6 * np.median(long.seconds - 8.0 * (more > 6) * more.max() / 6), rel=0.01)
    lines = table(configs, short)
    assert len(lines) == len(configs) + 2
    assert "7 configurations of 3 learning keys" in lines[-1]


def test_two_grids_are_of_the_corpus_and_two_are_not() -> None:
    known = {subject.spec for subject in CORPUS}
    assert [subject.spec in known for subject in SUBJECTS] == [True, True, False, False]

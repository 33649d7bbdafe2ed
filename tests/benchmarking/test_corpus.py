"""The corpus: what is measured of a graph, and that an interrupted one goes on; by formulas."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from a3gnn.config import KNOBS, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import Measurement, Metrics
from a3gnn.profiling.trial.request import TrialRequest
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from benchmarks.corpus import DEFAULT_EVERY, GRAPHS, WORK_KNOBS, Corpus, design
from benchmarks.result_lines import ResultLines
from tests.tuning.formulas import Formulas

SPEC = "synthetic:nodes=300,degree=8,classes=4,features=16"


def varies_work_alone(config: TrainConfig) -> bool:
    others = [knob for knob in KNOBS if knob.name not in WORK_KNOBS]
    return all(getattr(config, knob.name) == knob.default for knob in others)


def test_half_of_the_rows_vary_the_work_alone(tiny_graph: Graph, hardware: Hardware) -> None:
    space = SearchSpace.of(Setting(Task(), tiny_graph.characteristics(), hardware))
    found = design(space, 12, seed=0)
    assert len(set(found)) == len(found) == 12
    assert [varies_work_alone(config) for config in found[::2]] == [True] * 6
    assert sum(map(varies_work_alone, found[1::2])) < 3
    assert found != design(space, 12, seed=1)


def test_graphs_are_named_once_and_not_those_that_tunes_are_shown_on() -> None:
    assert len(set(GRAPHS)) == len(GRAPHS)
    assert "synthetic:" not in GRAPHS


@pytest.fixture
def measure(hardware: Hardware, make_metrics: Callable[..., Metrics], tmp_path: Path) -> Callable[..., list]:
    """Measures so many rows of a tiny graph into one folder, and returns them and what ran."""

    def run(rows: int, stop_after: int | None = None) -> tuple[list[Measurement], list[TrainConfig]]:
        ran: list[TrainConfig] = []

        def note(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
            if len(ran) == stop_after:
                raise KeyboardInterrupt
            ran.append(request.config)
            return metrics

        corpus = Corpus(ResultLines(tmp_path / "rows.jsonl"), Console(file=io.StringIO()))
        try:
            return corpus.measure(SPEC, rows, hardware, Formulas(make_metrics, note), tmp_path), ran
        except KeyboardInterrupt:
            return [], ran

    return run


def test_the_default_comes_first_and_after_every_few_others(measure: Callable[..., tuple]) -> None:
    found, ran = measure(rows=DEFAULT_EVERY + 2)
    defaults = [i for i, row in enumerate(found) if row.config == TrainConfig().canonical()]
    assert defaults[0] == 0
    assert all(later - earlier <= DEFAULT_EVERY + 1 for earlier, later in itertools.pairwise(defaults))
    assert [row.config for row in found] == ran
    assert len({row.id for row in found}) == len(found)


def test_an_interrupted_one_goes_on_and_measures_nothing_twice(measure: Callable[..., tuple]) -> None:
    _, before = measure(rows=4, stop_after=3)
    found, after = measure(rows=4)
    assert [row.config for row in found] == before + after
    again, ran = measure(rows=4)
    assert again == found
    assert ran == []

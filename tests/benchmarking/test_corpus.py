"""The corpus: what is measured of a graph, and that an interrupted one goes on; by formulas."""

from __future__ import annotations

import dataclasses
import io
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from a3gnn.config import KNOBS, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import Measurement, Metrics
from a3gnn.profiling.request import TrialRequest
from a3gnn.profiling.store.jsonl import read_measurements, shipped_measurements, shipped_profiles
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from benchmarks.corpus.measure import DEFAULT_EVERY, WORK_KNOBS, Corpus, design
from benchmarks.corpus.subjects import SUBJECTS, TYPED_SUBJECTS, Subject
from benchmarks.engine.graphs import spec_of
from benchmarks.report import ResultLines
from tests.tuning.formulas import Formulas

SUBJECT = Subject("synthetic:nodes=300,degree=8,classes=4,features=16")


def rows_of(*names: str) -> list[Measurement]:
    folder = shipped_profiles()
    assert folder is not None
    return [row for name in names for row in read_measurements(folder / f"{name}.jsonl.gz")]


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


def test_subjects_are_named_once_and_not_graphs_that_tunes_are_shown_on() -> None:
    subjects = (*SUBJECTS, *TYPED_SUBJECTS)
    assert len({subject.name for subject in subjects}) == len(subjects)
    specs = {subject.spec for subject in subjects}
    assert specs.isdisjoint({"synthetic:", "facebook_pages", "wordnet_en", "amazon_computers", "flickr_small"})


@pytest.fixture
def measure(hardware: Hardware, make_metrics: Callable[..., Metrics], tmp_path: Path) -> Callable[..., list]:
    """Measures so many rows of a tiny graph into one folder, and returns them and what ran."""

    def run(
        rows: int, stop_after: int | None = None, subject: Subject = SUBJECT
    ) -> tuple[list[Measurement], list[TrainConfig]]:
        ran: list[TrainConfig] = []

        def note(request: TrialRequest, metrics: Metrics, before: int) -> Metrics:
            if len(ran) == stop_after:
                raise KeyboardInterrupt
            ran.append(request.config)
            return metrics

        corpus = Corpus(ResultLines(tmp_path / "rows.jsonl"), Console(file=io.StringIO()))
        try:
            return corpus.measure(subject, rows, hardware, Formulas(make_metrics, note), tmp_path), ran
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


def test_a_limit_below_the_defaults_peak_ends_others_and_never_the_default(measure: Callable[..., tuple]) -> None:
    tight = dataclasses.replace(SUBJECT, model="gcn", memory_share=0.95)
    found, _ = measure(rows=DEFAULT_EVERY + 2, subject=tight)
    assert {row.setting.task for row in found} == {Task(model="gcn")}
    default = [row for row in found if row.config == TrainConfig().canonical()]
    limit = int(0.95 * default[0].metrics.peak_host_bytes)
    assert all(row.metrics is not None for row in default)
    others = [row for row in found if row not in default]
    assert any(row.metrics is None for row in others)
    for row in others:
        peak = row.metrics.peak_host_bytes if row.metrics else row.outcome.peak_host_bytes
        assert (row.metrics is None) == (peak > limit)


def test_a_graph_with_types_has_its_target_and_the_model_that_suits_it(tmp_path: Path, monkeypatch) -> None:
    typed, rng = tmp_path / "data-typed", np.random.default_rng(0)
    typed.mkdir()
    np.savez(
        typed / "shop.npz",
        node_types=np.array(["user", "item"]),
        num_nodes=np.array([30, 20]),
        edge_types=np.array(["user__buys__item"]),
        edge_index__user__buys__item=np.stack([rng.integers(30, size=200), rng.integers(20, size=200)]),
    )
    monkeypatch.setenv("A3GNN_DATA", str(tmp_path / "data"))
    spec = spec_of("target:user,buys,item:shop")
    assert spec == f"target:user,buys,item:{typed / 'shop.npz'}"
    task = Subject("target:user,buys,item:shop", hidden=8).task(Graph.load(spec))
    assert (task.model, task.metric, task.hidden_channels, task.own is None) == ("rsage", "recall@20", 8, False)


def test_only_predictions_for_graphs_with_types_learn_from_typed_measurements() -> None:
    plain, all_of_them = rows_of("corpus"), rows_of("corpus", "typed")
    assert [row.id for row in shipped_measurements()] == [row.id for row in plain]
    assert [row.id for row in shipped_measurements(typed=True)] == [row.id for row in all_of_them]
    assert not any(row.setting.graph.relations for row in plain)
    typed = all_of_them[len(plain) :]
    assert all(row.setting.graph.relations for row in typed)
    assert len({row.setting.graph.fingerprint for row in typed}) == len(TYPED_SUBJECTS) == 6

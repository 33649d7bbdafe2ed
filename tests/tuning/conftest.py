"""Tunes without a real trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import Metrics
from a3gnn.objectives import Priority
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.run import session
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.study import Study, TuneRequest
from a3gnn.tuning.tune import tune
from a3gnn_surrogate import residual
from tests.shipped import shipped
from tests.tuning.formulas import SMALL_SPACE, Formulas
from tests.tuning.histories import MiB, made
from tests.tuning.measured import Measured, measure

#: Of the shipped measurements, so many: all of three graphs.
_ROWS = 45


@pytest.fixture
def formulas(make_metrics: Callable[..., Metrics]) -> Callable[..., Formulas]:
    """Makes `Formulas`."""
    return lambda *alter: Formulas(make_metrics, *alter)


@pytest.fixture
def quick_tune(
    tiny_graph: Graph,
    hardware: Hardware,
    formulas: Callable[..., Formulas],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., TuneResult]:
    """Tunes the tiny graph, or another, by formulas, into `tmp_path`/run; options take the place of the defaults.

    The corpus is a part of the shipped one, fits have at most 40 trees, and front.png is empty: fitting and drawing
    are most of what such a tune takes.
    """
    part = shipped(_ROWS)
    monkeypatch.setattr(session, "shipped_measurements", lambda: part)
    monkeypatch.setattr(residual, "_NUM_TREES", (0, 20, 40))
    monkeypatch.setattr(TuneResult, "plot", lambda self: SimpleNamespace(savefig=lambda file, dpi: file.touch()))

    def run(graph: Graph = tiny_graph, **options: Any) -> TuneResult:
        defaults: dict[str, Any] = {
            "task": Task(hidden_channels=16, fanouts=(3, 3)),
            "engine": "random",
            "budget": 4,
            "fix": SMALL_SPACE,
            "out": tmp_path / "run",
            "hardware": hardware,
        }
        options = defaults | options
        options.setdefault("executor", formulas())
        return tune(graph, **options)

    return run


@pytest.fixture
def measured(
    tiny_folder_graph: Graph, hardware: Hardware, formulas: Callable[..., Formulas], tmp_path: Path
) -> Iterator[Callable[..., Measured]]:
    """Measures the default and other configurations by formulas, as a tune does between its searches."""
    with ExitStack() as stack:

        def run(*configs: TrainConfig, executor: Formulas | None = None, **options: Any) -> Measured:
            machine = executor or formulas()
            return measure(configs, tiny_folder_graph, hardware, machine, tmp_path, stack, **options)

        yield run


@pytest.fixture
def setting(tiny_graph: Graph, hardware: Hardware) -> Setting:
    return Setting(Task(hidden_channels=16, fanouts=(3, 3)), tiny_graph.characteristics(), hardware)


@pytest.fixture
def history(setting: Setting) -> History:
    """A tune without a trial."""
    request = TuneRequest(
        spec="tiny",
        task=setting.task,
        priority=Priority.parse("time"),
        memory_limit=400 * MiB,
        host_memory_limit=None,
        max_accuracy_drop=5.0,
        budget=5,
        engine="random",
        fixed=tuple(SMALL_SPACE.items()),
    )
    return History(Study.of(request, setting))


@pytest.fixture
def tried(history: History, formulas: Callable[..., Formulas]) -> History:
    """Trials of the default and of four others."""
    configs = [
        TrainConfig(),
        TrainConfig(parallel_mode="mode1", num_workers=2),
        TrainConfig(num_partitions=2, partitioner="blocks"),
        TrainConfig(num_partitions=4, partitioner="blocks"),
        TrainConfig(feature_tier="disk"),
    ]
    for config in configs:
        history = history.with_trial(made(history, config, formulas))
    return history

"""What the surrogate is fitted to: every trial once, however a tune came by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.objectives import Priority
from a3gnn.task import Task
from a3gnn.tuning.beliefs.beliefs import Beliefs
from a3gnn.tuning.beliefs.expectations import fit_surrogate
from a3gnn.tuning.run import session
from a3gnn.tuning.run.session import open_study
from a3gnn.tuning.study.study import TuneRequest
from a3gnn.tuning.study.trial import Proposal
from tests.shipped import shipped
from tests.tuning.formulas import Formulas

CONFIGS = (TrainConfig(), TrainConfig(batch_size=64))
Run = Callable[..., tuple[int, int]]


@pytest.fixture
def run(
    tiny_graph: Graph,
    hardware: Hardware,
    formulas: Callable[..., Formulas],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Measures `CONFIGS` in a tune; returns how many rows its surrogate was fitted to, before and after."""
    part = shipped(45)  # fitting to all would take longest
    monkeypatch.setattr(session, "shipped_measurements", lambda typed: part)
    request = TuneRequest(
        spec="tiny",
        task=Task(hidden_channels=8, fanouts=(3, 3)),
        priority=Priority.parse("throughput"),
        memory_limit=None,
        host_memory_limit=None,
        max_accuracy_drop=100.0,
        budget=5,
        engine="random",
        accuracy_epochs=100,
    )

    def measure(out: str, resume: bool = False) -> tuple[int, int]:
        store = tmp_path / "store.db"
        options = {"store": store, "executor": formulas(), "hardware": hardware}
        with open_study(request, tiny_graph, tmp_path / out, resume=resume, **options) as (history, runner):
            surrogate = fit_surrogate(history)
            before = surrogate.num_rows_
            for config in CONFIGS:
                history = runner.measure(Proposal("front", config), Beliefs(history, surrogate))
            return before, fit_surrogate(history).num_rows_

    return measure


def test_resume_and_a_shared_store_count_every_trial_once(run: Run) -> None:
    start, fresh = run("first")
    assert fresh == start + len(CONFIGS)
    assert run("first", resume=True) == (fresh, fresh)
    assert run("second") == (fresh, fresh)

"""A tune starts from the surrogate that is kept for its corpus, and from no other."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import a3gnn_surrogate
from a3gnn.measurement import Measurement
from a3gnn.tuning.beliefs import kept_surrogate
from a3gnn.tuning.beliefs.expectations import fit_surrogate
from a3gnn.tuning.outcome.result import TuneResult
from a3gnn.tuning.run import session
from a3gnn.tuning.study.folder import Journal
from a3gnn.tuning.study.history import History
from a3gnn.tuning.study.trial import Predicted
from tests.shipped import shipped


class FirstTrials:
    """Runs tunes, and tells what each predicted of its first trial.

    Args:
        tune: Runs one.
        folder: Where their folders are made.

    Attributes:
        fits: How many surrogates were fitted for tunes that had measured nothing.
    """

    def __init__(self, tune: Callable[..., TuneResult], folder: Path) -> None:
        self._tune, self._folder, self.fits = tune, folder, 0

    def fit(self, history: History) -> object:
        """Fits, and counts it."""
        self.fits += 1
        return fit_surrogate(history)

    def __call__(self, name: str, **options: object) -> Predicted:
        """Returns what a tune in the folder `name` predicted of its first trial."""
        out = self._folder / name
        self._tune(out=out, budget=1, **options)
        return Journal(out).read()[0].predicted


@pytest.fixture
def first(quick_tune: Callable[..., TuneResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FirstTrials:
    """Runs tunes with an empty cache folder."""
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "cache"))
    found = FirstTrials(quick_tune, tmp_path)
    monkeypatch.setattr(kept_surrogate, "fit_surrogate", found.fit)
    return found


def faster(row: Measurement) -> Measurement:
    """Returns `row`, id and all, at twice the throughput."""
    metrics = row.metrics
    assert metrics is not None
    twice = dataclasses.replace(metrics, throughput_epochs_per_s=2 * metrics.throughput_epochs_per_s)
    return dataclasses.replace(row, outcome=twice)


def test_the_second_tune_fits_nothing_before_its_first_trial(first: FirstTrials) -> None:
    assert first("one") == first("two")
    assert first.fits == 1


def test_a_stale_one_is_never_used(first: FirstTrials, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = first("before")
    part = shipped(45)
    changed = [faster(row) for row in part]
    monkeypatch.setattr(session, "shipped_measurements", lambda typed: changed)
    after = first("after")
    assert first.fits == 2
    assert after["throughput_epochs_per_s"]["mean"] > 1.5 * before["throughput_epochs_per_s"]["mean"]
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "another"))
    assert first("fresh") == after
    assert first.fits == 3


def test_another_seed_or_other_sources_are_another_surrogate(
    first: FirstTrials, monkeypatch: pytest.MonkeyPatch
) -> None:
    first("one")
    first("seed", seed=1)
    assert first.fits == 2
    monkeypatch.setattr(kept_surrogate, "__version__", "0.0.0")
    first("version")
    assert first.fits == 3


def test_other_equations_are_another_surrogate(
    first: FirstTrials, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources = shutil.copytree(a3gnn_surrogate.__path__[0], tmp_path / "sources")
    first("one")
    monkeypatch.setattr(a3gnn_surrogate, "__path__", [str(sources)])
    first("the same")
    assert first.fits == 1
    with (sources / "physics" / "memory.py").open("a") as file:
        file.write("# changed\n")
    first("changed")
    assert first.fits == 2


def test_rows_of_the_graph_itself_are_another_surrogate(first: FirstTrials, tmp_path: Path) -> None:
    plain = first("one")
    store = tmp_path / "store.sqlite"
    assert first("two", store=store) == plain
    assert first.fits == 1
    known = first("three", store=store)  # its store holds what the second tune measured
    assert first.fits == 2
    assert known["throughput_epochs_per_s"] != plain["throughput_epochs_per_s"]


def test_a_resumed_tune_is_fitted_to_its_trials(
    first: FirstTrials, quick_tune: Callable[..., TuneResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first("one")

    def refuse(history: History) -> object:
        raise AssertionError("a resumed tune has trials")

    monkeypatch.setattr(kept_surrogate, "fit_surrogate", refuse)
    quick_tune(out=tmp_path / "one", budget=2, resume=True)
    assert len(Journal(tmp_path / "one").read()) > 1

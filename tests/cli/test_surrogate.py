"""`a3gnn surrogate card`."""

from __future__ import annotations

import dataclasses

import pytest
from click.testing import CliRunner

from a3gnn.cli.main import app
from a3gnn.measurement import MEASUREMENT_VERSION
from a3gnn.profiling.store import jsonl
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn.profiling.store.store import ProfileStore
from a3gnn_surrogate import residual
from tests.answers import checked


@pytest.fixture
def few(monkeypatch):
    """Six rows each of two graphs in place of all shipped ones, and few trees: fits are quick. And a row of a third."""
    groups = {}
    for row in shipped_measurements():
        groups.setdefault(row.setting.graph.name, []).append(row)
    first, second, third = list(groups.values())[:3]
    monkeypatch.setattr(jsonl, "shipped_measurements", lambda: [*first[:6], *second[:6]])
    monkeypatch.setattr(residual, "_NUM_TREES", (0, 20))
    return dataclasses.replace(third[0], version=MEASUREMENT_VERSION)


def test_the_card_is_printed(few, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["surrogate", "card"], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout.startswith("# Model card of the surrogate")
    assert "12 measurements of 2 graphs" in result.stdout
    assert "ten measured: no graph has enough rows" in result.stdout


def test_json_holds_the_same(few, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["surrogate", "card", "--json"], catch_exceptions=False)
    assert checked("surrogate card", result.stdout)["num_rows"] == 12


def test_own_measurements_count(few, tmp_path):
    place = tmp_path / "own.db"
    with ProfileStore.open(place) as store:
        store.add(few)
    result = CliRunner().invoke(app, ["surrogate", "card", "--store", str(place)], catch_exceptions=False)
    assert "13 measurements of 3 graphs" in result.stdout


def test_a_store_that_is_not_there_is_refused(few, tmp_path):
    result = CliRunner().invoke(app, ["surrogate", "card", "--store", str(tmp_path / "none.db")])
    assert "no profile store exists" in str(result.exception)

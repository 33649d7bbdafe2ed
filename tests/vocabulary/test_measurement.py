"""Which rows are copies of each other, and which are repetitions."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import MEASUREMENT_VERSION, Failure, FailureKind, Measurement, Metrics, distinct
from a3gnn.profiling.store.jsonl import shipped_measurements
from a3gnn.setting import Setting
from a3gnn.task import Task


@pytest.fixture
def graph(tiny_graph: Graph) -> GraphCharacteristics:
    return tiny_graph.characteristics()


@pytest.fixture
def row(graph: GraphCharacteristics, hardware: Hardware, make_metrics: Callable[..., Metrics]) -> Measurement:
    """A row as they were made before they had ids."""
    when = "2025-01-02T03:04:05+00:00"
    metrics = make_metrics(2.5, 1 << 28, 0.75)
    return Measurement(TrainConfig(), Setting(Task(), graph, hardware), metrics, 3, 4.5, MEASUREMENT_VERSION, when)


def stored(row: Measurement, without: tuple[str, ...] = ()) -> Measurement:
    """A copy of `row` that was written and read, by a version that did not know `without`."""
    fields = json.loads(json.dumps(row.to_dict()))
    return Measurement.from_dict({name: value for name, value in fields.items() if name not in without})


def test_copies_have_one_id_whether_or_not_it_was_stored(row: Measurement) -> None:
    old, new = stored(row, without=("id",)), stored(row)
    assert row.id == old.id == new.id != ""
    assert distinct([row, old, new]) == [row]


def test_other_rows_have_other_ids(row: Measurement, make_metrics: Callable[..., Metrics]) -> None:
    others = [
        {"config": TrainConfig(batch_size=64)},
        {"setting": dataclasses.replace(row.setting, task=Task(model="gin"))},
        {"outcome": make_metrics(2.6, 1 << 28, 0.75)},
        {"outcome": Failure(FailureKind.TIMEOUT, "slow", 5, 60.0)},
        {"outcome": Failure(FailureKind.TIMEOUT, "slow", 5, 70.0)},
        {"seconds": 4.6},
        {"created": "2025-01-02T03:04:06+00:00"},
        {"accuracy_budget": 4},
    ]
    assert len({row.id, *(dataclasses.replace(row, **other).id for other in others)}) == 1 + len(others)


def test_repetitions_stay_and_copies_of_them_go(row: Measurement) -> None:
    first, second = dataclasses.replace(row, id="one"), dataclasses.replace(row, id="two")
    assert (stored(first).id, dataclasses.replace(first, seconds=9.0).id) == ("one", "one")
    assert distinct([second, first, stored(second), stored(first)]) == [second, first]


def test_shipped_rows_have_ids_of_their_own() -> None:
    rows = shipped_measurements()
    assert len({row.id for row in rows}) == len(rows) > 0


def test_null_is_a_value_of_optional_fields_alone(make_metrics: Callable[..., Metrics]) -> None:
    metrics = make_metrics(1.0, 100 << 20, 0.5)
    fields = json.loads(json.dumps(metrics.to_dict()))
    assert Metrics.from_dict(fields) == metrics
    assert Metrics.from_dict(fields | {"curve": None}).curve is None
    with pytest.raises(TypeError):
        Metrics.from_dict(fields | {"stage_seconds": None})

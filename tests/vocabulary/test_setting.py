"""A setting is stored as its parts, where files have always had them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.measurement import Measurement
from a3gnn.profiling.request import CurvePlan, TrialPlan, TrialRequest
from a3gnn.setting import Setting
from a3gnn.task import Task


@pytest.fixture
def setting(tiny_graph: Graph, hardware: Hardware) -> Setting:
    return Setting(Task(model="gin", fanouts=(4, 3)), tiny_graph.characteristics(), hardware)


def test_a_setting_survives_json_among_other_fields(setting: Setting) -> None:
    fields = json.loads(json.dumps(setting.to_dict()))
    assert Setting.from_dict(fields) == Setting.from_dict(fields | {"seconds": 1.0}) == setting
    assert Setting.from_dict(fields).key() == setting.key()


def test_measurements_are_stored_with_the_parts_of_their_setting(measurement: Callable[..., Measurement]) -> None:
    row = measurement(TrainConfig(), task=Task(model="gcn"))
    fields = row.to_dict()
    described = ["accuracy_budget", "seconds", "version", "created", "id"]
    assert list(fields) == ["config", "task", "graph", "hardware", "metrics", *described]
    assert fields["task"] == Task(model="gcn").to_dict()
    assert Measurement.from_dict(fields) == row


def test_requests_are_sent_with_the_parts_of_their_setting(setting: Setting) -> None:
    fields = TrialRequest(TrainConfig(), setting, "folder", TrialPlan(curve=CurvePlan(60.0))).to_dict()
    assert {name: fields[name] for name in ("task", "graph", "hardware")} == setting.to_dict()
    assert TrialRequest.from_dict(fields).setting == setting

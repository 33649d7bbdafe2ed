"""What a trial's model imports is imported before it."""

from __future__ import annotations

import dataclasses
from importlib.util import find_spec

import pytest

from a3gnn.process.worker import Worker
from a3gnn.profiling.executor import imports_of
from a3gnn.task import MODELS, SHIPPED, OwnCost, OwnModel, Task


@pytest.mark.parametrize(
    ("model", "norm"),
    [
        ("gat", "layer"),
        *(
            pytest.param(*one, marks=pytest.mark.weekly)
            for one in (("sage", "layer"), ("sage", "none"), ("gin", "none"))
        ),
    ],
)
def test_building_a_model_imports_nothing_more(model: str, norm: str, worker: Worker) -> None:
    task = Task(model=model, norm=norm)
    ended = worker.run("chores:build_model", {"task": task.to_dict()}, imports=imports_of(task, False))
    assert ended.result is not None, ended.log
    assert not [name for name in ended.result["imported"] if name.startswith(("torch_geometric", "a3gnn."))]
    assert ended.result["threads"] == 1


@pytest.mark.parametrize("model", MODELS)
def test_what_a_model_imports_is_there(model: str) -> None:
    assert all(find_spec(name) for name in imports_of(Task(model=model, norm="batch"), False))


def test_of_a_model_of_the_users_its_optimizer_is_known_and_whether_it_has_layers_of_pyg() -> None:
    own = OwnModel("files", "weights", "edge_index", None, OwnCost(10, 1.0, 1.0, 1.0, 1.0, 0.0))
    other, optimizer = Task(model="my_models:make_model", own=own), ("torch._dynamo",)
    assert imports_of(other, False) == imports_of(Task(model="my_models:make_model"), False) == optimizer
    layers = dataclasses.replace(other, own=dataclasses.replace(own, native=2))
    for task in (layers, *(Task(model=model) for model in SHIPPED)):
        assert imports_of(task, False) == (*optimizer, "torch_geometric.nn")


def test_on_a_device_adam_is_torchs() -> None:
    assert imports_of(Task(), False) == ()
    assert imports_of(Task(), True) == ("torch._dynamo",)

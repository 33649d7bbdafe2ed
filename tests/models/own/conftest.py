"""Tasks of models of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from a3gnn.training.describe import described
from tests.own_models import Package


@pytest.fixture
def own_task(package: Package) -> Callable[..., Task]:
    """Returns a maker of tasks of the package's factories, described for a graph."""

    def make(graph: Graph, factory: str = "Edges", **fields: object) -> Task:
        name = factory if ":" in factory else package.factory(factory)
        return described(Task(**{"model": name, "fanouts": (10, 5), "learning_rate": 0.01} | fields), graph)

    return make


@pytest.fixture(autouse=True)
def generator_is_left_alone() -> Iterator[None]:
    """Whatever a test does, torch's generator is the caller's own afterwards."""
    torch.manual_seed(11)
    before = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), before)

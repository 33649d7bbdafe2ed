"""Kernels between layers: none is left to compile once they are warm, whatever the size of a mini-batch."""

import pytest

from a3gnn.config import Task, TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.training.layers import kernels
from a3gnn.training.trainer import Trainer

WARMED = (kernels.by_source, kernels.collect, kernels.count_in_edges, kernels.rectify, kernels.gate)


@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_training_compiles_nothing_more(small_graph: Graph, model: str) -> None:
    kernels.warm_up()
    known = {kernel.py_func.__name__: list(kernel.signatures) for kernel in WARMED}
    # Wide layers aggregate first, narrow ones last, and the last mini-batch of an epoch is a small one.
    for hidden in (8, 256):
        task = Task(model=model, hidden_channels=hidden, fanouts=(3, 2), dropout=0.5)
        with Trainer(small_graph, TrainConfig(batch_size=199), task) as trainer:
            steps = list(trainer.steps(0))
    assert steps
    assert {kernel.py_func.__name__: list(kernel.signatures) for kernel in WARMED} == known

"""Kernels of training: none is left to compile once they are warm, whatever the size of a mini-batch."""

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.kernels import dropout, edges, sparse, sums, warm_up
from a3gnn.models import adam as adam_kernels
from a3gnn.models.layers import norm_kernels
from a3gnn.task import Task
from a3gnn.training.trainer import Trainer

MODULES = (warm_up, norm_kernels, adam_kernels)
WARMED = (
    edges.by_source,
    sums.collect,
    edges.count_in_edges,
    dropout.rectify,
    dropout.gate,
    sparse.multiply,
    sparse.count_columns,
    sparse.sort_tiles,
    norm_kernels.block_moments,
    norm_kernels.scale_and_rectify,
    norm_kernels.block_gradients,
    norm_kernels.input_gradient,
    adam_kernels.update,
)


@pytest.mark.parametrize("features", ["dense", "sparse"])
@pytest.mark.parametrize("model", ["sage", "gcn", "gin"])
def test_training_compiles_nothing_more(small_graph: Graph, sparse_graph: Graph, model: str, features: str) -> None:
    for module in MODULES:
        module.warm_up()
    known = {kernel.py_func.__name__: list(kernel.signatures) for kernel in WARMED}
    # Wide layers aggregate first, narrow ones last, and the last mini-batch of an epoch is a small one.
    graph = sparse_graph if features == "sparse" else small_graph
    for hidden in (8, 256):
        task = Task(model=model, hidden_channels=hidden, fanouts=(3, 2), dropout=0.5)
        with Trainer(graph, TrainConfig(batch_size=199), task) as trainer:
            steps = list(trainer.steps(0))
    assert steps
    assert {kernel.py_func.__name__: list(kernel.signatures) for kernel in WARMED} == known

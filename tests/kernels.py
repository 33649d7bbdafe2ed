"""`python -m tests.kernels`: compiles the kernels of all models on dense features, which most tests need."""

from __future__ import annotations

from a3gnn.graphs.graph import Graph
from a3gnn.task import MODELS, Task
from a3gnn.training.compile_ahead import KernelSet, compile_ahead

if __name__ == "__main__":
    compile_ahead(KernelSet(), print)
    graph = Graph.load("synthetic:nodes=300")
    for model in MODELS:
        compile_ahead(KernelSet.of(graph, Task(model=model, fanouts=(5, 5))), print)

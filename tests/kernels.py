"""`python -m tests.kernels`: compiles the kernels of all models on dense features, which most tests need.

Tunes that tests start are of GraphSAGE, or of a model of one's own, which takes the kernels of gat: all that a tune may
try is compiled for these two. Of other models, tests train few configurations.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.task import MODELS, Task
from a3gnn.training.compile_ahead import KernelSet, _note, compile_ahead
from a3gnn.training.compile_kernels import compile_kernels

TUNED = ("sage", "gat")


def compiled(wanted: KernelSet) -> None:
    """Compiles a set in this process, so that commands that tests start find it."""
    with TemporaryDirectory() as folder:
        compile_kernels(wanted, Path(folder))
    _note(wanted).touch()


if __name__ == "__main__":
    compile_ahead(KernelSet(), print)
    graph, tasks = Graph.load("synthetic:nodes=300"), {model: Task(model=model, fanouts=(5, 5)) for model in MODELS}
    for model in TUNED:
        compile_ahead(KernelSet.of(graph, tasks.pop(model)), print)
    for task in tasks.values():
        for dtype in ("float32", "bfloat16"):
            compiled(KernelSet.of(graph, task, TrainConfig(compute_dtype=dtype)))
        print(f"{task.model} has kernels", flush=True)
    compiled(KernelSet.of(graph, tasks["gin"], TrainConfig(cache_bytes=4096, bias_rate=2.0)))  # tests/training/ranks

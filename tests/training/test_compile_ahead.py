"""Kernels are compiled by another process than the one that trains, and all that are needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from a3gnn.task import Task
from a3gnn.training import compile_ahead as module
from a3gnn.training.compile_ahead import KernelSet, compile_ahead, is_compiled

SPEC = "synthetic:nodes=1500,degree=8,classes=4,features=24"
READ = """
import json
from a3gnn.graphs.graph import Graph
from a3gnn.process.compilations import compilations
from a3gnn.training.compile_ahead import compile_ahead
from a3gnn.training.compile_ahead import KernelSet
lines = []
seconds = [compile_ahead(KernelSet(), lines.append) for _ in range(2)]
Graph.load("synthetic:nodes=500").on_disk()
print(json.dumps([seconds, lines, compilations.happened]))
"""
TRAIN = """
import json, sys
from pathlib import Path
from a3gnn.config import TrainConfig
from a3gnn.process.compilations import compilations
from a3gnn.task import Task
from a3gnn.apply.train import train
folder, spec, configs = Path(sys.argv[1]), sys.argv[2], json.load(sys.stdin)
compilations.start_anew(folder / "compiled")
task, lines = Task(hidden_channels=16, fanouts=(5, 5)), []
for number, fields in enumerate(configs):
    config = TrainConfig(batch_size=128, **fields)
    train(config, spec, task=task, epochs=1, out=folder / str(number), notify=lines.append)
print(json.dumps([compilations.happened, lines]))
"""
#: Compiles a set, or loads it, trains configurations that a tune of it may try, and prints the kernels that were
#: called meanwhile with arguments of types with which they had not been called before.
TUNE = """
import dataclasses, json, sys
from pathlib import Path
import numpy as np
from numba.core.dispatcher import Dispatcher
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import MachineProfile
from a3gnn.machine.host import host_with
from a3gnn.setting import Setting
from a3gnn.space import SearchSpace
from a3gnn.task import Task
from a3gnn.training.compile_kernels import compile_kernels
from a3gnn.training.compile_ahead import KernelSet
from a3gnn.training.trainer import Trainer, TrainerOptions

def known():
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("a3gnn.")]
    kernels = {kernel for module in modules for kernel in vars(module).values() if isinstance(kernel, Dispatcher)}
    return {(kernel.py_func.__module__, kernel.__name__, str(sig)) for kernel in kernels for sig in kernel.signatures}

folder, spec, model, count = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
graph, task = Graph.load(spec), Task(model=model, hidden_channels=32, fanouts=(5, 5), edge_dim=int(sys.argv[5]))
if task.edge_dim:
    values = np.random.default_rng(0).random((graph.num_edges, task.edge_dim), dtype=np.float32)
    graph = dataclasses.replace(graph, edge_attr=values, edge_weight=values[:, 0].copy())
graph = graph.save(folder / "graph")
fast_in_bfloat16 = MachineProfile(1e8, 1e10, 1e9, 1e10, 1e10, 0.8, 1e-3, 150 << 20, bf16_gemm_flops_per_s=1e11)
space = SearchSpace.of(Setting(task, graph.characteristics(), host_with(fast_in_bfloat16)))
compile_kernels(KernelSet.of(graph, task), folder / "tiny")
before = known()
for row in space.sample(count, seed=0):
    config = space.decode(row)
    with Trainer(graph, config, task, TrainerOptions(scratch=folder)) as trainer:
        for step in trainer.steps(0):
            if step.index == 8:
                break
        trainer.validate()
print(json.dumps([len(before), sorted(known() - before)]))
"""


def run(script: str, cache: Path | None, *arguments: object, given: Any = None) -> Any:
    """What `script` prints as JSON, run in a process of its own with numba's cache in `cache`, or the tests'."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    command = [sys.executable, "-c", script, *map(str, arguments)]
    ended = subprocess.run(command, input=json.dumps(given), env=environment, text=True, stdout=subprocess.PIPE)
    assert ended.returncode == 0
    return json.loads(ended.stdout.splitlines()[-1])


def test_kernels_are_compiled_once_and_again_where_the_cache_was_emptied(tmp_path: Path) -> None:
    cache = tmp_path / "numba"
    (first, second), lines, happened = run(READ, cache)
    assert first > 0
    assert second == 0
    assert not happened
    assert lines[0] == "compiling kernels for reading graphs (once on this machine, up to a minute)"
    assert lines[1].startswith("kernels compiled in ")
    assert run(READ, cache) == [[0, 0], [], False]
    shutil.rmtree(cache)
    assert run(READ, cache)[0][0] > 0


@pytest.mark.weekly  # the other tests here have the sets of kernels
def test_a_training_on_a_new_machine_compiles_nothing_itself(tmp_path: Path) -> None:
    configs = [{}, {"compute_dtype": "bfloat16", "input_aggregation": "full", "feature_dtype": "float16"}]
    happened, lines = run(TRAIN, tmp_path / "numba", tmp_path, SPEC, given=configs)
    assert not happened
    assert sum(line.startswith("compiling kernels") for line in lines) == 1 + len(configs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "features", "edge_dim"),
    [
        ("sage", "features=24", 0),  # a kernel that another model lacks would only be compiled later
        pytest.param("gin", "features=24", 0, marks=pytest.mark.weekly),
        pytest.param("gcn", "features=100,density=0.1", 0, marks=pytest.mark.weekly),
        pytest.param("gat", "features=24", 0, marks=pytest.mark.weekly),
        pytest.param("gatv2", "features=24", 3, marks=pytest.mark.weekly),
        pytest.param("gcn", "features=24", 1, marks=pytest.mark.weekly),
    ],
)
def test_a_tune_needs_no_other_kernels_than_were_compiled_for_it(
    tmp_path: Path, model: str, features: str, edge_dim: int
) -> None:
    (tmp_path / "tiny").mkdir()
    spec = f"synthetic:nodes=1500,degree=8,classes=4,{features}"
    kernels, further = run(TUNE, None, tmp_path, spec, model, 60, edge_dim)
    assert kernels > 30
    assert further == []


def test_what_can_not_be_compiled_ahead_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_compiled", is_compiled)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    lines: list[str] = []
    assert compile_ahead(KernelSet(Task(model="gat", fanouts=(3, 3), weight_decay=0.5)), lines.append) > 0
    assert len(lines) == 2
    assert "could not be compiled ahead" in lines[1]
    assert "/nowhere/python" in lines[1]

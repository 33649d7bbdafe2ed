"""`check`: compares an accelerator's C simulation, and its OpenCL host program, with torch on a sampled mini-batch."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.hls.case import Case, Floats, LayerCase, LayerResult
from a3gnn.hitgnn.hls.generate import LANES, Design
from a3gnn.hitgnn.hls.simulation import CycleComparison, KernelCall, compare_cycles, run_opencl, simulate
from a3gnn.measurement import StageSeconds
from a3gnn.models.batch_blocks import blocks_of
from a3gnn.models.layers.aggregation import factors
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.gcn import GCNLayer
from a3gnn.models.layers.sage import SAGELayer
from a3gnn.models.model import build_model
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.sampling.sampler import Sampler
from a3gnn.task import Task

AcceleratedModel = Literal["sage", "gcn"]
ACCELERATED: tuple[AcceleratedModel, ...] = get_args(AcceleratedModel)
#: Largest error, relative to the largest value of a matrix, that counts as equal: float32 sums in another order.
TOLERANCE = 1e-4
#: Widths are no multiples of 16, and some seeds have no in-neighbors.
_GRAPH = "synthetic:nodes=2000,degree=9,classes=7,features=40"
_SEEDS, _FANOUTS, _HIDDEN = 48, (5, 10), 24


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check.

    Attributes:
        model: The model of the training step.
        nodes: Nodes of the mini-batch, whose features it reads.
        edges: Sampled edges of all layers.
        forward: The largest relative error of a layer's output; inf if a value is not finite.
        backward: The largest relative error of a gradient; inf if a value is not finite.
        rows_read: Rows that the aggregate kernels read, of features and of gradients.
        distinct_sources: Rows that they need, each once per kernel.
        network_depth: The most values that a FIFO of the routing network held at once.
        cycles: Counted and modeled cycles.
        device: The OpenCL device; None if the host program was not run.
        opencl: The largest relative error of the host program's results; None if it was not run.
    """

    model: AcceleratedModel
    nodes: int
    edges: int
    forward: float
    backward: float
    rows_read: int
    distinct_sources: int
    network_depth: int
    cycles: Sequence[CycleComparison]
    device: str | None = None
    opencl: float | None = None

    @property
    def passed(self) -> bool:
        """Whether all results equal torch's within `TOLERANCE`, and each source's row was read once."""
        equal = max(self.forward, self.backward, self.opencl or 0.0) <= TOLERANCE
        return equal and self.rows_read == self.distinct_sources

    def to_dict(self) -> dict[str, Any]:
        """Returns the check as JSON types; an infinite error is None, because JSON has no such number."""
        errors = {name: getattr(self, name) for name in ("forward", "backward", "opencl")}
        finite = {name: None if error == np.inf else error for name, error in errors.items()}
        cycles = [dataclasses.asdict(one) | {"modelled": one.modeled} for one in self.cycles]
        return dataclasses.asdict(self) | finite | {"cycles": cycles, "passed": self.passed}


def check(design: Design, model: AcceleratedModel, folder: str | os.PathLike[str], *, opencl: bool = False) -> Check:
    """Compiles the accelerator that `generate` wrote to `folder`, and compares a two-layer training step with torch's.

    The step's case stays in the folder, as `sage.case` or `gcn.case`.

    Args:
        design: The accelerator's design.
        model: The model of the training step.
        folder: The accelerator's folder.
        opencl: Whether to run the OpenCL host program too.

    Raises:
        MissingDependencyError: There is no make or no C++ compiler.
        A3GNNError: A program does not compile or run.
    """
    batch = _mini_batch(Graph.load(_GRAPH))
    case, expected = _case_of(model, batch)
    case.write(Path(folder) / f"{model}.case")
    found, calls = simulate(Path(folder), case)
    errors = [layer.errors(wanted) for layer, wanted in zip(found, expected, strict=True)]
    device, opencl_error = None, None
    if opencl:
        results, device = run_opencl(Path(folder), case)
        opencl_error = max(max(one.errors(wanted).values()) for one, wanted in zip(results, expected, strict=True))
    return Check(
        model=model,
        nodes=batch.subgraph.num_nodes,
        edges=sum(len(block.indices) for block in batch.blocks),
        forward=max(error["out"] for error in errors),
        backward=max(value for error in errors for name, value in error.items() if name != "out"),
        rows_read=rows_read(case, calls),
        distinct_sources=sum(len(np.unique(rows)) for layer in case.layers for rows in (layer.sources, layer.pieces)),
        network_depth=max(call.depths.get("network", 0) for call in calls),
        cycles=compare_cycles(design, calls),
        device=device,
        opencl=opencl_error,
    )


def rows_read(case: Case, calls: Sequence[KernelCall]) -> int:
    """Returns the number of whole rows that the aggregate kernels read from memory."""
    rows = 0.0
    for i, layer in enumerate(case.layers):
        words = -(-layer.in_columns // LANES)
        rows += sum(call.counts.get("feature_words", 0) for call in calls if call.layer == i) / words
    return round(rows)


def _mini_batch(graph: Graph) -> MiniBatch:
    """Returns a sampled mini-batch of `graph`."""
    sampler = Sampler(graph.edges, _FANOUTS, seed=0)
    subgraph = sampler.sample(graph.train_ids[:_SEEDS].astype(np.int32), epoch=0, batch=0)
    x = torch.from_numpy(graph.features.arrays()["x"][subgraph.n_id])
    y = torch.from_numpy(graph.labels[subgraph.n_id[:_SEEDS]])
    return MiniBatch(
        epoch=0,
        index=0,
        subgraph=subgraph,
        x=x,
        y=y,
        indptr=torch.from_numpy(subgraph.indptr),
        indices=torch.from_numpy(subgraph.indices),
        hits=0,
        seconds=StageSeconds(0, 0, 0, 0),
    )


def _case_of(name: AcceleratedModel, batch: MiniBatch) -> tuple[Case, list[LayerResult]]:
    """Returns a model's training step on `batch`, with the seeds' cross-entropy, and its results."""
    classes = int(batch.y.max()) + 1
    task = Task(model=name, hidden_channels=_HIDDEN, fanouts=_FANOUTS, dropout=0.0)
    model = build_model(task, batch.x.shape[1], classes)
    blocks = blocks_of(batch, with_degrees=model.needs_degrees)
    logits = model(batch.x, blocks)
    (gradient,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, batch.y), logits)
    return case_of(model.layers, blocks, batch.x, gradient)  # type: ignore[arg-type]


def case_of(
    layers: Sequence[SAGELayer | GCNLayer], blocks: Sequence[LayerBlock], features: Tensor, gradient: Tensor
) -> tuple[Case, list[LayerResult]]:
    """Returns the training step of `layers`, without dropout, as a case, and its results by torch's autograd.

    The layers' own gradients are replaced.

    Args:
        layers: The input layer first; ReLU between them.
        blocks: One per layer, their destinations first among their sources.
        features: float32, shape (num_src of the first block, in_channels).
        gradient: Gradient of the last layer's output, float32, shape (num_dst of the last block, out_channels).
    """
    last = len(layers) - 1
    cases = [_layer_case(layer, block, i < last) for i, (layer, block) in enumerate(zip(layers, blocks, strict=True))]
    rows = [features.detach().clone().requires_grad_()]
    for i, (layer, block) in enumerate(zip(layers, blocks, strict=True)):
        layer.zero_grad()
        out = layer(block, rows[-1])
        rows.append(torch.relu(out) if i < last else out)
        rows[-1].retain_grad()
    rows[-1].backward(gradient)  # type: ignore[no-untyped-call]
    results = [
        LayerResult(_array(out), _gradient(layer), _array(_bias(layer).grad), _array(sources.grad))
        for layer, (sources, out) in zip(layers, pairwise(rows), strict=True)
    ]
    return Case(tuple(cases), _array(features), _array(gradient)), results


def _layer_case(layer: SAGELayer | GCNLayer, block: LayerBlock, rectified: bool) -> LayerCase:
    """Returns the layer's case. A node's own row is an edge too: to a piece of its own (sage), or to the sum (gcn)."""
    assert layer.aggregator is not None
    of_edges, of_own = factors(layer.aggregator, block)
    parts = 2 if isinstance(layer, SAGELayer) else 1
    own = np.arange(block.num_dst, dtype=np.uint32)
    weight = np.concatenate([_array(part).T for part in layer.input_weights])
    return LayerCase(
        block.num_src,
        block.num_dst,
        np.concatenate([block.indices.numpy().astype(np.uint32), own]),
        np.concatenate([block.rows.numpy().astype(np.uint32) * parts, own * parts + (parts - 1)]).astype(np.uint32),
        np.concatenate([of_edges, of_own]).astype(np.float32),
        weight,
        _array(_bias(layer)),
        rectified,
        parts,
    )


def _bias(layer: SAGELayer | GCNLayer) -> Tensor:
    return layer.lin_l.bias if isinstance(layer, SAGELayer) else layer.bias


def _gradient(layer: SAGELayer | GCNLayer) -> Floats:
    return np.concatenate([_array(weight.grad).T for weight in layer.input_weights])


def _array(values: Tensor | None) -> Floats:
    assert values is not None
    copied: Floats = values.detach().numpy().copy()
    return copied

"""`case_of`: turns a mini-batch of one of our models into a case, with torch's results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from a3gnn.hitgnn.hls.case import Case, Floats, LayerCase, LayerResult
from a3gnn.models.layers.aggregation import factors
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.gcn import GCNLayer
from a3gnn.models.layers.sage import SAGELayer


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

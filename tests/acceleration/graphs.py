"""Graphs, and the comparison of a convolution with PyG's, for the tests of this folder."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from a3gnn import Loader, accelerate
from a3gnn.acceleration.calls import Accelerated

#: Largest difference, relative to the largest entry if that is above 1.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


class Edges(NamedTuple):
    """Edges with their numbers of sources and targets."""

    edge_index: Tensor
    num_src: int
    num_dst: int


def random_edges(num_src: int, num_dst: int, edges: int, seed: int = 0) -> Tensor:
    """Returns unsorted edges with repeats and self loops; the last nodes have none."""
    generator = torch.Generator().manual_seed(seed)
    sources = torch.randint(max(num_src - 3, 1), (edges,), generator=generator)
    targets = torch.randint(max(num_dst - 3, 1), (edges,), generator=generator)
    loops = torch.tensor([[0, 1, 1], [0, 1, 1]])
    repeated = torch.stack([sources[:5], targets[:5]])
    return torch.cat([torch.stack([sources, targets]), loops, repeated], dim=1)


def batches(nodes: int = 400, features: int = 6, size: int = 40) -> Loader:
    """Returns a loader of a small graph."""
    edge_index = random_edges(nodes, nodes, 8 * nodes)
    data = Data(torch.randn(nodes, features), edge_index, y=torch.randint(3, (nodes,)))
    data.edge_attr = torch.rand(edge_index.shape[1], 2)
    return Loader(data, [5, 3], torch.arange(100), batch_size=size)


def square_graphs() -> dict[str, Edges]:
    """Returns graphs whose sources are the targets."""
    plain = random_edges(30, 30, 120)
    batch = next(iter(batches()))
    by_target = plain[:, plain[1].argsort(stable=True)]
    return {
        "random": Edges(plain, 30, 30),
        "sorted": Edges(by_target, 30, 30),
        "int32": Edges(plain.int(), 30, 30),
        "without loops": Edges(plain[:, plain[0] != plain[1]], 30, 30),
        "no edges": Edges(plain[:, :0], 7, 7),
        "one node": Edges(torch.tensor([[0], [0]]), 1, 1),
        "large": Edges(random_edges(3000, 3000, 20000), 3000, 3000),
        "mini-batch": Edges(batch.edge_index.clone(), batch.num_nodes, batch.num_nodes),
    }


def bipartite_graphs() -> dict[str, Edges]:
    """Returns graphs with other sources than targets."""
    return {
        "more sources": Edges(random_edges(40, 12, 100), 40, 12),
        "more targets": Edges(random_edges(12, 40, 100), 12, 40),
    }


def in_turns(cases: Iterable[Any], others: Iterable[Any], turns: Sequence[Any]) -> list[Any]:
    """Returns the parameters (case, other, turn): each case with each other in one of the turns, and weekly in all."""
    return [
        pytest.param(case, other, turn, marks=() if (i + j) % len(turns) == k else pytest.mark.weekly)
        for i, case in enumerate(cases)
        for j, other in enumerate(others)
        for k, turn in enumerate(turns)
    ]


def weights_of(out: Tensor) -> Tensor:
    """Returns fixed weights of a sum of all outputs, so that each output has a gradient of its own."""
    return torch.linspace(0.5, 1, max(out.numel(), 1)).view(-1)[: out.numel()].view_as(out).to(out.dtype)


def assert_same(found: Any, expected: Any, dtype: torch.dtype) -> None:
    """Checks that two tensors are equal up to rounding in `dtype`."""
    if expected is None:
        assert found is None or not bool(found.abs().max() if found.numel() else 0)
        return
    found = torch.zeros_like(expected) if found is None else found
    scale = max(1.0, float(expected.detach().abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(found.detach(), expected.detach(), rtol=0, atol=TOLERANCE[dtype] * scale)


def compare(conv: nn.Module, dtype: torch.dtype, *inputs: Any, native: bool = True, **more: Any) -> None:
    """Checks that the accelerated `conv` has PyG's output and gradients, and that it ran natively or did not."""
    conv = copy.deepcopy(conv).to(dtype)
    conv.zero_grad()
    ours = accelerate(copy.deepcopy(conv))
    outs, grads = [], []
    for one in (conv, ours):
        leaves: list[Tensor] = []

        def leaf(value: Any, leaves: list[Tensor] = leaves, one: nn.Module = one) -> Any:
            if isinstance(value, Tensor) and value.is_floating_point():
                leaves.append(value.detach().to(dtype).requires_grad_())
                return leaves[-1]
            if one is conv and isinstance(value, Tensor) and value.dtype is torch.int32:
                return value.long()  # torch's gradient of scatter_add is wrong for indices of int32
            return type(value)(map(leaf, value)) if isinstance(value, tuple) else value

        out = one(*map(leaf, inputs), **{name: leaf(value) for name, value in more.items()})
        (out * weights_of(out)).sum().backward()
        outs.append(out)
        grads.append([*(value.grad for value in leaves), *(value.grad for value in one.parameters())])
    assert_same(outs[1], outs[0], dtype)
    for found, expected in zip(grads[1], grads[0], strict=True):
        assert_same(found, expected, dtype)
    for part in ours.modules():
        if isinstance(part, Accelerated):
            assert (part.refused is None) == native, part.refused


Make = Callable[[], nn.Module]

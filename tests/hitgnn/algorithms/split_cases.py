"""What a split model is compared with: one process with the same mini-batches, one after the other, and all columns."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.p3 import ColumnPart, InputStructure, Moved, SplitModel, share_structures
from a3gnn.models.batch_blocks import input_block
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.model import Model, build_model
from a3gnn.sampling.sampler import Sampler
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.seeding import derive
from a3gnn.task import Task

#: No number of ranks from 2 to 4 divides them.
WIDTH = 13
_SMALL: dict[str, Any] = {"hidden_channels": 8, "fanouts": (5, 3), "heads": 2, "dropout": 0.5}
MODELS = ("sage", "gcn", "gin", "gat", "gatv2", "transformer")
TASKS = {
    **{name: Task(model=name, **_SMALL) for name in MODELS},
    "sage, norm, residual": Task(model="sage", norm="batch", residual=True, **_SMALL),
    "gin, norm, residual": Task(model="gin", norm="layer", residual=True, **_SMALL),
    **{f"{name}, linear residual": Task(model=name, residual="linear", **_SMALL) for name in ("sage", "gin", "gat")},
    "gatv2, three layers": Task(model="gatv2", norm="layer", residual=True, **_SMALL | {"fanouts": (4, 3, 2)}),
    **{f"{name}, one layer": Task(model=name, **_SMALL | {"fanouts": (5,)}) for name in ("sage", "gat")},
    # The map comes before the aggregation.
    "sage, narrow": Task(model="sage", **_SMALL | {"hidden_channels": 2}),
    "gcn, narrow": Task(model="gcn", **_SMALL | {"hidden_channels": 2}),
}
#: Seeds of each rank's mini-batch in two iterations; a rank without any is idle. A single one would be normalized by
#: running statistics, which one process has of all mini-batches before.
SEEDS = {
    2: ((30, 17), (0, 9)),
    3: ((30, 2, 17), (0, 12, 0)),
    4: ((8, 30, 2, 17), (5, 0, 0, 6)),
}


class Found(NamedTuple):
    """What a run came to: gradients of each iteration, weights after steps by them, and the traffic of each rank."""

    gradients: list[dict[str, Tensor]]
    weights: dict[str, Tensor]
    traffic: list[list[int]]


@cache
def graph() -> Graph:
    """300 nodes, of which the first has a self loop and the last no in-neighbors."""
    found = Graph.load(f"synthetic:nodes=300,degree=8,classes=4,features={WIDTH}")
    indices, indptr = found.indices.copy(), found.indptr.copy()
    indices[0] = 0
    indptr[-1] = indptr[-2]
    return dataclasses.replace(found, indices=indices[: indptr[-1]], indptr=indptr)


@cache
def minibatches(fanouts: tuple[int, ...], ranks: int) -> list[list[Subgraph | None]]:
    """Returns each iteration's mini-batches, one per rank."""
    sampler = Sampler(graph().edges, fanouts, seed=3)
    order, found, done = np.random.default_rng(0).permutation(300).astype(np.int32), [], 0
    order = np.concatenate([[0, 299], order[(order != 0) & (order != 299)]]).astype(np.int32)
    for iteration, sizes in enumerate(SEEDS[ranks]):
        found.append([])
        for rank, size in enumerate(sizes):
            seeds, done = order[done : done + size], done + size
            found[-1].append(sampler.sample(seeds, 0, iteration * ranks + rank) if size else None)
    return found


def model_of(task: Task) -> Model:
    """Returns the task's model in double precision, whose biases are not zeros."""
    model = build_model(task, WIDTH, 4).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return model


def blocks(subgraph: Subgraph, task: Task) -> list[LayerBlock]:
    """Returns the layers' blocks."""
    parts = [subgraph.block(layer) for layer in range(subgraph.num_layers)]
    arrays = [(torch.from_numpy(part.indptr), torch.from_numpy(part.indices), part.num_src) for part in parts]
    first = input_block(*arrays[0], with_degrees=task.model == "gcn")
    degrees = first.in_degrees
    later = [
        LayerBlock(indptr, indices, size, slice(0, indptr.numel() - 1), None if degrees is None else degrees[:size])
        for indptr, indices, size in arrays[1:]
    ]
    return [first, *later]


def loss_of(logits: Tensor, subgraph: Subgraph, seeds: int) -> Tensor:
    """Returns what a mini-batch adds to the loss of an iteration of `seeds` seeds."""
    labels = torch.from_numpy(np.asarray(graph().labels)[subgraph.n_id[: subgraph.num_seeds]]).long()
    return functional.cross_entropy(logits, labels, reduction="sum") / seeds


def in_one_process(case: str, ranks: int) -> Found:
    """Trains whole mini-batches."""
    task = TASKS[case]
    model, features = model_of(task), torch.from_numpy(np.asarray(graph().features.array)).double()
    step, gradients = torch.optim.SGD(model.parameters(), lr=0.5), []
    for iteration, batches in enumerate(minibatches(task.fanouts, ranks)):
        step.zero_grad()
        seeds = sum(SEEDS[ranks][iteration])
        for rank, one in enumerate(batches):
            if one is not None:
                seed = derive(1, iteration, rank)
                x = features[torch.from_numpy(one.n_id)]
                logits = model(x, blocks(one, task), seed=seed, dtype=torch.float64)
                loss_of(logits, one, seeds).backward()
        gradients.append({name: weight.grad.clone() for name, weight in model.named_parameters()})
        step.step()
    return Found(gradients, weights_of(model.state_dict()), [])


def by_ranks(ranks: Any, case: str) -> Found:
    """Trains as one of `ranks`, which has its columns alone: all others are NaN."""
    task = TASKS[case]
    columns = WIDTH * ranks.rank // ranks.size, WIDTH * (ranks.rank + 1) // ranks.size
    features = torch.full((300, WIDTH), float("nan"), dtype=torch.float64)
    features[:, slice(*columns)] = torch.from_numpy(np.asarray(graph().features.array))[:, slice(*columns)].double()
    model = SplitModel(model_of(task), ranks, columns)
    step, gradients = torch.optim.SGD(model.parameters(), lr=0.5), []
    for iteration, batches in enumerate(minibatches(task.fanouts, ranks.size)):
        step.zero_grad()
        own = batches[ranks.rank]
        mine = None if own is None else InputStructure.of(own)
        structures = share_structures(ranks, mine, model.traffic.structures)
        parts = [
            None
            if one is None
            else ColumnPart(
                one.block(with_degrees=task.model == "gcn"), features[torch.from_numpy(one.n_id)][:, slice(*columns)]
            )
            for one in structures
        ]
        seeds, seed = sum(SEEDS[ranks.size][iteration]), derive(1, iteration, ranks.rank)
        if own is None:
            logits = model(parts)
            assert logits.shape == (0, 4)
            logits.sum().backward()
        else:
            loss_of(model(parts, blocks(own, task)[1:], seed=seed), own, seeds).backward()
        for weight in model.shared_weights:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
            ranks.sum(weight.grad)
        split = {id(weight) for weight in model.split_weights}
        gradients.append(
            {
                name: model.whole(weight.grad) if id(weight) in split else weight.grad.clone()
                for name, weight in model.model.named_parameters()
            }
        )
        step.step()
    traffic = model.traffic
    moved: list[Moved] = [traffic.structures, traffic.activations, traffic.gradients]
    told = torch.tensor([bytes_ for one in moved for bytes_ in (one.sent, one.received)])
    every = [one.tolist() for one in ranks.swap([told] * ranks.size, [len(told)] * ranks.size)]
    return Found(gradients, weights_of(model.whole_state()), every)


def weights_of(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns `state` without running statistics, which are of each rank's own mini-batches."""
    return {
        name: value.clone()
        for name, value in state.items()
        if ".module.running" not in name and "num_batches" not in name
    }


def difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Returns the largest difference of an entry; NaN where one is NaN."""
    assert one.keys() == other.keys()
    return float(torch.stack([(one[name] - other[name]).abs().max() for name in one]).max())


def check(found: Found, case: str, ranks: int) -> None:
    """Holds `found` to one process."""
    expected = in_one_process(case, ranks)
    for one, other in zip(found.gradients, expected.gradients, strict=True):
        assert difference(one, other) <= 1e-10, case
        assert max(float(value.abs().max()) for value in other.values()) > 1e-3
    assert difference(found.weights, expected.weights) <= 1e-10, case
    assert found.traffic == [expected_traffic(case, ranks, rank) for rank in range(ranks)], case


def expected_traffic(case: str, ranks: int, rank: int) -> list[int]:
    """Returns the bytes of structures, activations and gradients, each sent and received, from shapes alone."""
    structures, activations = [], []
    for batches in minibatches(TASKS[case].fanouts, ranks):
        sizes = [(0, 0, 0) if one is None else (one.num_nodes, len(one.indptr), one.num_edges) for one in batches]
        structures.append([4 * sum(size) for size in sizes])
        activations.append([8 * _products(TASKS[case], nodes, max(rows - 1, 0)) for nodes, rows, _ in sizes])
    others = ranks - 1
    own, rest = (
        [sum(one[rank] for one in every) for every in (structures, activations)],
        [sum(sum(one) - one[rank] for one in every) for every in (structures, activations)],
    )
    counts = 3 * 8 * others * len(structures)
    return [counts + others * own[0], counts + rest[0], rest[1], others * own[1], others * own[1], rest[1]]


def _products(task: Task, sources: int, destinations: int) -> int:
    """Returns the entries of what the input layer's maps make of a mini-batch."""
    last = task.num_layers == 1
    out = 4 if last else task.hidden_channels
    heads = task.heads * out if last else out
    own = destinations * out * (task.residual == "linear")
    match task.model:
        case "gat":
            return own + sources * heads
        case "gatv2":
            return own + (sources + destinations) * heads
        case "transformer":
            return own + sources * 2 * heads + destinations * (heads + out)
        case _:
            return own + destinations * out

"""Training loops of one's own in double precision: in one process, or in each of several, under DDP or FSDP.

torchrun --nproc-per-node N own_loops.py GRAPH FOUND: every case under every wrapper; rank 0 writes FOUND.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GATConv, SAGEConv

from a3gnn import Graph, Loader, Task
from a3gnn.errors import UsageError
from a3gnn.training.batch_model import BatchModel

FANOUTS, EPOCHS, BATCH, SEEDS = (6, 4), 2, 256, 513  # the last mini-batch has one seed
_SMALL: dict[str, Any] = {"hidden_channels": 16, "fanouts": FANOUTS, "heads": 2, "dropout": 0.5}
#: Built-in models, and classes of the user's.
TASKS = {
    **{name: Task(model=name, **_SMALL) for name in ("sage", "gcn", "gat", "gin", "gatv2", "transformer")},
    "sage, norm, residual": Task(model="sage", norm="batch", residual=True, **_SMALL),
    "gin, norm, residual": Task(model="gin", norm="layer", residual=True, **_SMALL),
    "gcn, linear residual": Task(model="gcn", norm="batch", residual="linear", **_SMALL),
}
OWN = ("Edges", "Layers")
WRAPS = ("ddp", "fsdp")


class Edges(nn.Module):
    """Takes PyG's edges."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([GATConv(in_channels, 16), SAGEConv(16, out_channels)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.convs[0](x, edge_index).relu()
        return self.convs[1](x, edge_index)  # type: ignore[no-any-return]


class Layers(nn.Module):
    """Takes an adjacency per layer."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(in_channels, 16), SAGEConv(16, out_channels)])

    def forward(self, x: Tensor, adjs: list[Tensor]) -> Tensor:
        for conv, adj in zip(self.convs, adjs, strict=True):
            x = conv((x, x[: adj.size(0)]), adj.to(x.dtype))
            if conv is not self.convs[-1]:
                x = x.relu()
        return x


def trained(case: str, graph: Graph, wrap: str = "", share: tuple[int, int] | None = None) -> dict[str, Tensor]:
    """Returns the weights after the epochs, and what the model then answers in evaluation."""
    inner, layers, outputs = _model(case, graph)
    wrapped = _wrapped(inner, layers, wrap)
    # A bias before a batch norm has a gradient of rounding alone, which Adam divides by eps.
    optimizer = torch.optim.Adam(wrapped.parameters(), lr=0.01, eps=1e-6)
    loader = Loader(graph, FANOUTS, range(SEEDS), batch_size=BATCH, shuffle=True, adjs=case == "Layers", share=share)
    for _ in range(EPOCHS):
        for batch in loader.minibatches() if case in TASKS else loader:
            optimizer.zero_grad()
            out, labels = outputs(wrapped, batch)
            loss = functional.cross_entropy(out, labels)
            if share is not None:
                loss = loss * batch.seed_share * share[1]
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    kept = inner.model if isinstance(inner, BatchModel) else inner
    weights = get_model_state_dict(kept, options=StateDictOptions(full_state_dict=wrap == "fsdp"))
    whole = Loader(graph, FANOUTS, range(SEEDS), batch_size=BATCH, adjs=case == "Layers")
    wrapped.eval()
    with torch.no_grad():
        answer, _ = outputs(wrapped, next(whole.minibatches() if case in TASKS else iter(whole)))
    return {**weights, "answer": answer}


def fresh(case: str, graph: Graph) -> dict[str, Tensor]:
    """Returns the weights before the first mini-batch."""
    inner, _, _ = _model(case, graph)
    return (inner.model if isinstance(inner, BatchModel) else inner).state_dict()


def _model(
    case: str, graph: Graph
) -> tuple[nn.Module, nn.ModuleList, Callable[[nn.Module, Any], tuple[Tensor, Tensor]]]:
    """Returns the model, its layers, and what gives the seeds' outputs of a mini-batch with their labels."""
    widths = graph.num_features, graph.num_classes
    if case in TASKS:
        model = BatchModel(TASKS[case], *widths, dtype=torch.float64).double()
        return model, model.model.convs, lambda wrapped, batch: (wrapped(batch), batch.y)
    torch.manual_seed(0)
    own: Any = {"Edges": Edges, "Layers": Layers}[case](*widths).double()

    def outputs(wrapped: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        edges = batch.adjs if case == "Layers" else batch.edge_index
        return wrapped(batch.x.double(), edges)[: batch.batch_size], batch.y[: batch.batch_size].long()

    return own, own.convs, outputs


def _wrapped(model: nn.Module, layers: nn.ModuleList, wrap: str) -> nn.Module:
    if wrap == "ddp":
        return DistributedDataParallel(model)
    if wrap == "fsdp":
        for layer in layers:
            fully_shard(layer)
        fully_shard(model)
    return model


def _refused(graph: Graph, share: tuple[int, int]) -> list[str]:
    """Returns the errors of what a model in a group of processes does not take."""
    loaders = (Loader(graph, FANOUTS, range(SEEDS), batch_size=BATCH, share=some) for some in (None, share, share))
    batches = [next(loader.minibatches()) for loader in loaders]
    models = [BatchModel(TASKS["gin"], graph.num_features, graph.num_classes) for _ in batches]
    narrow = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    fully_shard(models[1], mp_policy=narrow)
    fully_shard(models[2].model.convs[0], mp_policy=narrow)
    fully_shard(models[2])
    return [_error(*pair) for pair in zip(models, batches, strict=True)]


def _error(model: nn.Module, batch: Any) -> str:
    try:
        model(batch)
    except UsageError as error:
        return str(error)
    return ""


def _all(graph: Graph, share: tuple[int, int]) -> Iterator[tuple[tuple[str, str], dict[str, Tensor]]]:
    for wrap in WRAPS:
        for case in (*TASKS, *OWN):
            yield (case, wrap), trained(case, graph, wrap, share)


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    given, mine = Graph.load(sys.argv[1]), (rank, distributed.get_world_size())
    found: dict[Any, Any] = {**dict(_all(given, mine)), "refused": _refused(given, mine)}
    if rank == 0:
        torch.save(found, Path(sys.argv[2]))
    distributed.destroy_process_group()

"""Seconds per training step of PyG models in a loop of one's own: as written, and with a3gnn's two lines.

    python -m benchmarks.accelerate [--graph arxiv] [--models sage gcn gat gin] [--rounds 7] [--steps 4]
        [--workers 0] [--full] [--compile] [--json FILE]

As written is PyG's `NeighborLoader` and the model. The two lines are `Loader` and `accelerate(model)`; a third arm adds
bfloat16. Between them is `Loader` with PyG's layers, which shows the share of each line. `--compile` adds the model as
written by `torch.compile(model, dynamic=True)`, which needs a C++ compiler. With `--full`, a step is one pass over the
whole graph, and a last arm is a3gnn's own training with `batch_size=all`. `sage` is PyG's example `reddit.py`; the
others are PyG's `GCN`, `GAT` (4 heads) and `GIN`, with 2 layers of 256 columns and dropout 0.5. Mini-batches have 1,024
seeds and fanouts 25,10.

Arms take turns: each round runs each arm for a few steps. Figures are medians over rounds, with the lowest and highest.
A step loads the mini-batch, too. NeighborLoader needs pyg-lib or torch-sparse
(`pip install --no-build-isolation -r benchmarks/engine/peers/pyg-sampler.txt`); without, its arm is left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
import torch_geometric.typing
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GAT, GCN, GIN, SAGEConv

from a3gnn import Graph, Loader, Task, TrainConfig, accelerate
from a3gnn.knobs import ALL
from a3gnn.training.trainer import Trainer
from benchmarks.engine.graphs import GRAPHS, spec_of

Step = Callable[[], None]
_HIDDEN, _DROPOUT, _FANOUTS, _SEEDS = 256, 0.5, [25, 10], 1024


class RedditSAGE(nn.Module):
    """The model of PyG's `examples/reddit.py`."""

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(in_channels, hidden_channels), SAGEConv(hidden_channels, out_channels)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Returns logits of all nodes."""
        for i, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            if i < len(self.convs) - 1:
                x = functional.dropout(x.relu_(), p=_DROPOUT, training=self.training)
        return x


def model_of(name: str, data: Data, classes: int) -> nn.Module:
    """Returns a new model; all of one name have the same weights."""
    torch.manual_seed(0)
    if name == "sage":
        return RedditSAGE(data.num_features, _HIDDEN, classes)
    kind, options = {"gcn": (GCN, {}), "gat": (GAT, {"heads": 4}), "gin": (GIN, {})}[name]
    model: nn.Module = kind(data.num_features, _HIDDEN, 2, classes, dropout=_DROPOUT, **options)
    return model


def data_of(spec: str) -> Data:
    """Returns a graph as PyG's `Data` with dense features."""
    data = Graph.load(spec_of(spec)).to_pyg()
    data.x = data.x.to_dense() if data.x.is_sparse_csr else data.x
    return data


def forever(loader: Any) -> Iterator[Any]:
    """Yields the loader's mini-batches, epoch after epoch."""
    while True:
        yield from loader


def sampled_step(model: nn.Module, loader: Any) -> Step:
    """Returns a step of training on the next mini-batch."""
    optimizer, batches = torch.optim.Adam(model.parameters(), lr=0.01), forever(loader)

    def step() -> None:
        batch = next(batches)
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
        optimizer.step()

    return step


def full_step(model: nn.Module, data: Data) -> Step:
    """Returns a step of training on the whole graph."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)[data.train_mask]
        functional.cross_entropy(out, data.y[data.train_mask]).backward()
        optimizer.step()

    return step


def built_in_step(name: str, spec: str) -> Step:
    """Returns a step of a3gnn's own model of this name on the whole graph (`batch_size=all`)."""
    task = Task(model=name, hidden_channels=_HIDDEN, dropout=_DROPOUT, learning_rate=0.01, fanouts=tuple(_FANOUTS))
    trainer, epochs = Trainer(Graph.load(spec_of(spec)), TrainConfig(batch_size=ALL), task), count()

    def step() -> None:
        for _ in trainer.steps(next(epochs)):
            pass

    return step


def arms(name: str, data: Data, classes: int, asked: argparse.Namespace) -> dict[str, Step]:
    """Returns the steps that take turns."""

    def model() -> nn.Module:
        return model_of(name, data, classes)

    def compiled() -> Any:
        return torch.compile(model(), dynamic=True)

    if asked.full:
        return {
            "PyG": full_step(model(), data),
            **({"torch.compile": full_step(compiled(), data)} if asked.compile else {}),
            "accelerate": full_step(accelerate(model()), data),
            "accelerate, bfloat16": full_step(accelerate(model(), "bfloat16"), data),
            "batch_size=all": built_in_step(name, asked.spec),
        }

    def loader(kind: Any) -> Any:
        options = {"batch_size": _SEEDS, "shuffle": True, "num_workers": asked.workers}
        return kind(data, _FANOUTS, input_nodes=data.train_mask, **options)

    found = {}
    if torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE:
        found["NeighborLoader, PyG"] = sampled_step(model(), loader(NeighborLoader))
        if asked.compile:
            found["NeighborLoader, torch.compile"] = sampled_step(compiled(), loader(NeighborLoader))
    elif asked.compile:
        found["Loader, torch.compile"] = sampled_step(compiled(), loader(Loader))
    return found | {
        "Loader, PyG": sampled_step(model(), loader(Loader)),
        "Loader, accelerate": sampled_step(accelerate(model()), loader(Loader)),
        "Loader, accelerate, bfloat16": sampled_step(accelerate(model(), "bfloat16"), loader(Loader)),
    }


def measured(steps: dict[str, Step], rounds: int, repeats: int) -> dict[str, list[float]]:
    """Returns each arm's seconds per step, one figure per round; arms take turns."""
    for step in steps.values():  # compiles kernels, starts workers
        step(), step()
    seconds: dict[str, list[float]] = {arm: [] for arm in steps}
    for _ in range(rounds):
        for arm, step in steps.items():
            begin = perf_counter()
            for _ in range(repeats):
                step()
            seconds[arm].append((perf_counter() - begin) / repeats)
    return seconds


def lines(seconds: dict[str, list[float]]) -> Iterator[str]:
    """Yields a line per arm: milliseconds per step, and how many times as fast as the first arm it is."""
    first = next(iter(seconds.values()))
    for arm, mine in seconds.items():
        ratios = [one / other for one, other in zip(first, mine, strict=True)]
        spread = f"{1e3 * min(mine):.0f} to {1e3 * max(mine):.0f}"
        yield f"  {arm:30} {1e3 * median(mine):8.1f} ms ({spread}){median(ratios):8.2f} x"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--graph", default="arxiv", help="a graph of benchmarks.engine, a real one, or what Graph.load takes"
    )
    parser.add_argument("--models", nargs="+", default=["sage", "gcn", "gat", "gin"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--compile", action="store_true", help="measure torch.compile, too")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    asked.spec = GRAPHS[asked.graph].spec if asked.graph in GRAPHS else asked.graph
    data = data_of(asked.spec)
    classes = int(data.y.max()) + 1
    shares = 100 * float(data.x.count_nonzero()) / data.x.numel()
    print(f"{asked.graph}: {data.num_nodes} nodes, {data.num_edges} edges, {data.num_features} features, ", end="")
    print(f"{shares:.1f}% of them not 0", flush=True)
    document = {}
    for name in asked.models:
        steps = arms(name, data, classes, asked)
        document[name] = measured(steps, asked.rounds, asked.steps)
        print(name, *lines(document[name]), sep="\n", flush=True)
    if asked.json is not None:
        asked.json.write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()

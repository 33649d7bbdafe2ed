"""Milliseconds of a step of two `HeteroConv` layers on mini-batches of `Loader`: PyG's, accelerated, and joined.

    python -m benchmarks.typed_layers GRAPH.npz ... [--fanouts 15 10] [--seeds 1024] [--hidden 64] [--batches 30]
        [--conv SAGEConv] [--threads 1] [--json FILE]

A graph is an .npz file with node_types; reverses of all relations are added. Seeds are nodes of the type with labels,
or else of the first relation's sources. Types without features have rows of the hidden width with a gradient, as
learned embeddings have. A step is the forward and backward pass of the layers, with ReLU between them and a sum of
squares of the seeds' outputs. Loading is not part of it. The arms are PyG's layers; layers whose convolutions are
accelerated one by one; and `accelerate` as it is, which joins the relations into a type. Arms take turns with each
mini-batch, in an order that alternates, each with a copy of its own that no arm has seen. Figures are medians over
mini-batches, with the quartiles.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import HeteroData

from a3gnn import Loader, accelerate
from a3gnn.graphs.typed import read_typed
from a3gnn.threads import pool
from benchmarks.typed_sampling import print_arms, print_mean, quartiles

_WARM_UP = 4


class Layers(nn.Module):
    """Two layers."""

    def __init__(self, data: HeteroData, conv: str, hidden: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        kind = getattr(pyg, conv)
        self.convs = nn.ModuleList(
            pyg.HeteroConv({relation: kind((-1, -1), hidden) for relation in data.edge_types}) for _ in range(2)
        )

    def forward(self, x: dict[str, Tensor], edge_index: dict[Any, Tensor]) -> dict[str, Tensor]:
        """Returns the outputs of all types."""
        x = {kind: rows.relu() for kind, rows in self.convs[0](x, edge_index).items()}
        return self.convs[1](x, edge_index)  # type: ignore[no-any-return]


def seed_type(data: HeteroData) -> str:
    """Returns the type whose nodes are seeds."""
    labeled: list[str] = [kind for kind in data.node_types if "y" in data[kind]]
    return labeled[0] if labeled else str(data.edge_types[0][0])


def inputs_of(batch: HeteroData, hidden: int) -> dict[str, Tensor]:
    """Returns each type's rows."""
    draw = torch.Generator().manual_seed(0)
    return {
        kind: batch[kind].x.float()
        if "x" in batch[kind]
        else torch.randn(batch[kind].num_nodes, hidden, generator=draw).requires_grad_()
        for kind in batch.node_types
    }


def step_seconds(model: Layers, batch: HeteroData, kind: str, hidden: int) -> float:
    """Returns the seconds of a step."""
    x, edges = inputs_of(batch, hidden), batch.edge_index_dict
    model.zero_grad()
    begin = perf_counter()
    model(x, edges)[kind][: batch[kind].batch_size].square().sum().backward()
    return perf_counter() - begin


def measured(path: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Returns the row of a graph."""
    data = read_typed(path, reverse=True)
    kind = seed_type(data)
    options = {"input_nodes": kind, "batch_size": min(asked.seeds, data[kind].num_nodes), "shuffle": True}
    names = ("PyG", "one by one", "joined")
    arms: dict[str, Layers] = {}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        model = Layers(data, asked.conv, asked.hidden)
        arms[name] = model if name == "PyG" else accelerate(model)
        if name == "one by one":
            for layer in model.convs:
                layer.__class__ = pyg.HeteroConv
    loaders, edges = [Loader(data, asked.fanouts, **options) for _ in names], 0
    done = 0
    while done < asked.batches + _WARM_UP:
        for batches in zip(*loaders, strict=True):
            edges += sum(one.edge_index.shape[1] for one in batches[0].edge_stores)
            for name, batch in list(zip(names, batches, strict=True))[:: 1 if done % 2 else -1]:
                seconds[name].append(step_seconds(arms[name], batch, kind, asked.hidden))
            done += 1
            if done == asked.batches + _WARM_UP:
                break
    row: dict[str, Any] = {"graph": path.stem, "relations": len(data.edge_types), "edges": edges / done}
    return row | {name: quartiles(seconds[name][_WARM_UP:]) for name in names}


def main() -> None:
    """Measures, and prints a row per graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument("--fanouts", nargs="+", type=int, default=[15, 10])
    parser.add_argument("--seeds", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--conv", default="SAGEConv", help="SAGEConv or GraphConv")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    pool.limit(asked.threads)
    rows = []
    for path in asked.graphs:
        row = measured(path, asked)
        rows.append(row)
        print_arms(row, ("PyG", "one by one", "joined"), "PyG", row["edges"])
    for name in ("one by one", "joined"):
        print_mean(rows, "PyG", name)
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

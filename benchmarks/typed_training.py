"""Test quality and seconds of `train` on graphs with node types, beside PyG's own loop with the same model and epochs.

python -m benchmarks.typed_training GRAPH.npz ... --seeds 5 --epochs 30

Both train `rsage` (PyG's `HeteroConv` of `SAGEConv`) with the same fanouts, batch size and Adam, evaluate validation
after each epoch on the whole graph, and test the weights of the best epoch. PyG's loop samples with its
`NeighborLoader`, which needs pyg-lib, and computes with PyG's layers. Systems take turns, seed by seed.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch.nn import functional
from torch_geometric.data import HeteroData
from torch_geometric.loader import NeighborLoader

from a3gnn import Task, TrainConfig, train
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.typed import read_typed
from a3gnn.models.relational import rsage


def data_of(path: Path, graph: Graph) -> HeteroData:
    """Returns the data in the file, with its reverse relations and the split of `graph`."""
    data = read_typed(path, reverse=True)
    assert graph.types is not None
    for kind in graph.types.for_model.in_channels:
        data[kind].x = data[kind].x.to_dense().float()  # PyG's loader selects no rows of CSR
    store = data[graph.types.target]
    for name, ids in (("train", graph.train_ids), ("val", graph.val_ids), ("test", graph.test_ids)):
        store[f"{name}_ids"] = torch.from_numpy(ids - graph.types.first).long()
    return data


def inputs_of(data: HeteroData) -> dict[str, torch.Tensor]:
    """Returns the rows of each type, or their ids where there are none."""
    found = {}
    for kind in data.node_types:
        store = data[kind]
        found[kind] = store.x if "x" in store else store.n_id
    return found


def by_pyg(data: HeteroData, graph: Graph, task: Task, batch_size: int, epochs: int) -> tuple[float, float]:
    """Returns the test accuracy of PyG's loop, and its seconds of training."""
    assert graph.types is not None
    target, best, seconds = graph.types.target, (-1.0, 0.0), 0.0
    torch.manual_seed(task.seed)
    options = {"hidden_channels": task.hidden_channels, "dropout": task.dropout, "layers": task.num_layers}
    model = rsage(graph.types.for_model, graph.num_classes, **options)
    adam = torch.optim.Adam(model.parameters(), lr=task.learning_rate)
    sampled, store = copy.copy(data), data[target]
    for kind in sampled.node_types:
        sampled[kind].n_id = torch.arange(sampled[kind].num_nodes)
    x, edges = inputs_of(sampled), data.edge_index_dict
    loader = NeighborLoader(
        sampled, list(task.fanouts), input_nodes=(target, store.train_ids), batch_size=batch_size, shuffle=True
    )
    for _ in range(epochs):
        begin = time.perf_counter()
        model.train()
        for batch in loader:
            count = batch[target].batch_size
            adam.zero_grad()
            out = model(inputs_of(batch), batch.edge_index_dict)[:count]
            functional.cross_entropy(out, batch[target].y[:count]).backward()
            adam.step()
        seconds += time.perf_counter() - begin
        model.eval()
        with torch.no_grad():
            right = model(x, edges).argmax(dim=1) == store.y
        val, test = (right[ids].float().mean().item() for ids in (store.val_ids, store.test_ids))
        if val > best[0]:
            best = val, test
    return best[1], seconds


def by_a3gnn(graph: Graph, task: Task, batch_size: int, epochs: int) -> tuple[float, float]:
    """Returns the test accuracy of a3gnn's training, and its seconds of training."""
    with tempfile.TemporaryDirectory() as folder:
        result = train(
            TrainConfig(batch_size=batch_size),
            graph,
            task=task,
            epochs=epochs,
            patience=None,
            out=Path(folder) / "run",
            notify=lambda line: None,
        )
    assert result.test_accuracy is not None
    return result.test_accuracy, result.train_seconds


def main() -> None:
    """Prints a line per graph: mean and deviation over seeds, and the ratio of the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=1024)
    given = parser.parse_args()
    print("| graph | a3gnn: test accuracy | PyG: test accuracy | seconds of training | ratio |\n|---|--:|--:|--:|--:|")
    for path in given.graphs:
        graph = Graph.load(path)
        data = data_of(path, graph)
        results: dict[str, list[tuple[float, float]]] = {"a3gnn": [], "PyG": []}
        for seed in range(given.seeds):
            task = Task(model="rsage", hidden_channels=given.hidden, fanouts=(15, 10), learning_rate=0.01, seed=seed)
            given_both: tuple[Any, ...] = (task, given.batch_size, given.epochs)
            for name in ("a3gnn", "PyG")[:: 1 if seed % 2 else -1]:
                found = by_a3gnn(graph, *given_both) if name == "a3gnn" else by_pyg(data, graph, *given_both)
                results[name].append(found)
        shown = [
            f"{100 * mean(q for q, _ in rows):.1f} ± {100 * stdev(q for q, _ in rows) if len(rows) > 1 else 0:.1f}"
            for rows in results.values()
        ]
        ours, theirs = (mean(s for _, s in rows) for rows in results.values())
        print(
            f"| {path.stem} | {shown[0]} | {shown[1]} | {ours:.1f}, {theirs:.1f} | {theirs / ours:.1f}x |", flush=True
        )


if __name__ == "__main__":
    main()

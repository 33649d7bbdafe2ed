"""A PyG user's own training script: GraphSAGE with NeighborLoader.

    python pyg_script.py FOLDER --epochs E [--seeds 0 1 ...] [...]

FOLDER holds the .npy files of a converted graph. It needs torch and torch_geometric, and not a3gnn. It trains E epochs
with each seed, evaluates from all neighbors, and answers with one line of JSON per seed.
"""

from __future__ import annotations

import argparse
import json
import warnings
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE


def read_data(folder: Path) -> Data:
    """Returns the graph in `folder`; features are dense float32."""
    arrays = {path.stem: np.load(path) for path in folder.glob("*.npy")}
    indptr, labels = arrays["indptr"], arrays["labels"]
    targets = np.repeat(np.arange(len(labels)), np.diff(indptr))
    if "x" in arrays:
        x = torch.from_numpy(arrays["x"]).float()
    else:
        parts = (torch.from_numpy(arrays[name]) for name in ("x_indptr", "x_indices", "x_data"))
        x = torch.sparse_csr_tensor(*parts, tuple(arrays["x_shape"].tolist()), check_invariants=False)
        x = x.to_dense().float()
    data = Data(x=x, edge_index=torch.from_numpy(np.stack([arrays["indices"], targets])), y=torch.from_numpy(labels))
    for name in ("train", "val", "test"):
        data[f"{name}_mask"] = torch.from_numpy(np.isin(np.arange(len(labels)), arrays[f"{name}_ids"]))
    return data


def make_loader(options: argparse.Namespace, data: Data) -> NeighborLoader:
    """Returns the loader."""
    return NeighborLoader(
        data, options.fanouts, input_nodes=data.train_mask, batch_size=options.batch_size, shuffle=True
    )


def make_model(options: argparse.Namespace, data: Data) -> GraphSAGE:
    """Returns a fresh model."""
    classes = int(data.y.max()) + 1
    return GraphSAGE(data.num_features, options.hidden, len(options.fanouts), classes, dropout=options.dropout)


def hop_sizes(batch: Data) -> tuple[list[int], list[int]]:
    """Returns the nodes known after each hop, seeds first, and the edges.

    With torch-sparse alone NeighborLoader does not count them; nodes and edges come in order of discovery.
    """
    if batch.get("num_sampled_nodes") is not None:
        return list(accumulate(batch.num_sampled_nodes)), list(accumulate(batch.num_sampled_edges))
    sources, targets = batch.edge_index
    nodes, edges = [batch.batch_size], []
    while not edges or edges[-1] < len(targets):
        edges.append(int(torch.searchsorted(targets, nodes[-1])))
        nodes.append(max(nodes[-1], int(sources[: edges[-1]].max()) + 1))
    return nodes, edges


def adjacencies(batch: Data) -> list[torch.Tensor]:
    """Returns each layer's adjacency, input layer first, sparse CSR of shape (num_dst, num_src)."""
    nodes, edges = hop_sizes(batch)
    found = []
    for hop in reversed(range(len(edges))):
        sources, targets = batch.edge_index[:, : edges[hop]]
        indptr = functional.pad(targets.bincount(minlength=nodes[hop]).cumsum(0), (1, 0))
        size = (nodes[hop], nodes[hop + 1])
        found.append(torch.sparse_csr_tensor(indptr, sources, torch.ones(edges[hop]), size, check_invariants=False))
    return found


def train_step(model: GraphSAGE, optimizer: torch.optim.Optimizer, batch: Data) -> None:
    """Trains on one mini-batch, each layer on an adjacency of its own, which gives the same sums in less time."""
    optimizer.zero_grad()
    x = batch.x
    for conv, adj in zip(model.convs, adjacencies(batch), strict=True):
        x = conv((x, x[: adj.size(0)]), adj)
        if conv is not model.convs[-1]:
            x = functional.dropout(x.relu(), model.dropout.p, model.training)
    functional.cross_entropy(x, batch.y[: batch.batch_size]).backward()
    optimizer.step()


@torch.no_grad()
def evaluate(model: GraphSAGE, data: Data) -> dict[str, float]:
    """Returns the accuracies on validation and test nodes, from all neighbors."""
    size = (data.num_nodes, data.num_nodes)
    indptr = functional.pad(data.edge_index[1].bincount(minlength=data.num_nodes).cumsum(0), (1, 0))
    adj = torch.sparse_csr_tensor(indptr, data.edge_index[0], torch.ones(data.num_edges), size, check_invariants=False)
    right = model.eval()(data.x, adj).argmax(dim=1) == data.y
    return {name: right[data[f"{name}_mask"]].float().mean().item() for name in ("val", "test")}


def fit(options: argparse.Namespace, data: Data, seed: int) -> dict[str, float]:
    """Returns the accuracies after `options.epochs` epochs."""
    torch.manual_seed(seed)
    model = make_model(options, data)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate)
    loader = make_loader(options, data)
    model.train()
    for _ in range(options.epochs):
        for batch in loader:
            train_step(model, optimizer, batch)
    return {"seed": seed} | evaluate(model, data)


def main() -> None:
    """Reads the options and answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[25, 10])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    warnings.filterwarnings("ignore", message="Using 'NeighborSampler' without a 'pyg-lib'")
    data = read_data(options.folder)
    for seed in options.seeds:
        print(json.dumps(fit(options, data, seed)), flush=True)


if __name__ == "__main__":
    main()

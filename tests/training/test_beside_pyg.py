"""The baseline ends where a plain PyG script ends: final accuracy on real graphs, over seeds."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GraphSAGE

from a3gnn import Graph, Loader, Task, TrainConfig, train

SEEDS, EPOCHS = range(4), 20

pytestmark = pytest.mark.weekly


def scripted(graph: Graph, task: Task, seed: int) -> float:
    """Returns the test accuracy of PyG's own layers in a loop written by hand, at the best validation of all epochs."""
    data = graph.to_pyg()
    x = data.x.to_dense() if data.x.is_sparse_csr else data.x
    torch.manual_seed(seed)
    model = GraphSAGE(graph.num_features, task.hidden_channels, 2, graph.num_classes, dropout=task.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=task.learning_rate, weight_decay=task.weight_decay)
    loader = Loader(data, list(task.fanouts), data.train_mask, batch_size=1024, shuffle=True, seed=seed)
    reached = []
    for _ in range(EPOCHS):
        model.train()
        for batch in loader:
            optimizer.zero_grad()
            rows = batch.x.to_dense() if batch.x.is_sparse_csr else batch.x
            out = model(rows, batch.edge_index)[: batch.batch_size]
            cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
        with torch.no_grad():
            right = (model.eval()(x, data.edge_index).argmax(dim=1) == data.y).float()
        reached.append((right[data.val_mask].mean().item(), right[data.test_mask].mean().item()))
    return max(reached)[1]


@pytest.mark.parametrize("name", ["cora_ml", "citeseer", "acm"])
def test_the_baseline_ends_where_a_plain_script_ends(name: str, data_folder: Path, tmp_path: Path) -> None:
    graph = Graph.load(str(data_folder / f"{name}.npz"))
    ours, theirs = [], []
    for seed in SEEDS:
        task = Task(seed=seed)
        out = tmp_path / str(seed)
        run = train(TrainConfig(), graph, task=task, epochs=EPOCHS, patience=None, out=out, notify=lambda line: None)
        ours.append(run.test_accuracy)
        theirs.append(scripted(graph, task, seed))
    spread = max(max(side) - min(side) for side in (ours, theirs))
    assert abs(fmean(ours) - fmean(theirs)) <= spread, (ours, theirs)

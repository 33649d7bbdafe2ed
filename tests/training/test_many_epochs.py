"""Two thousand epochs of a user's loop: threads, open files and live tensors stay as many as they were."""

import gc
import os
import threading

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GraphSAGE

from a3gnn import Graph, Loader, accelerate

pytestmark = pytest.mark.weekly


def counts() -> tuple[int, int, int]:
    """Returns this process's threads, open files and live tensors."""
    gc.collect()
    tensors = sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())
    return threading.active_count(), len(os.listdir("/proc/self/fd")), tensors


@pytest.mark.parametrize("limit", [None, 1 << 50], ids=["plain", "memory_limit"])
@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_grows(workers: int, limit: int | None) -> None:
    graph = Graph.load("synthetic:nodes=200,degree=4,classes=3,features=8")
    model = accelerate(GraphSAGE(8, 8, 2, 3))
    optimizer = torch.optim.Adam(model.parameters())
    loader = Loader(
        graph,
        [3, 3],
        graph.train_ids,
        batch_size=64,
        shuffle=True,
        num_workers=workers,
        memory_limit=limit,
        model=model,
    )
    seen = []
    for epoch in range(2000):
        for batch in loader:
            optimizer.zero_grad()
            for share in batch.shares() if limit else [batch]:
                out = model(share.x, share.edge_index)[: share.batch_size]
                cross_entropy(out, share.y[: share.batch_size].long()).backward()
            optimizer.step()
        del batch, share, out
        if epoch in (99, 1999):
            seen.append(counts())
    assert seen[0] == seen[1]

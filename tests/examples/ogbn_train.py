"""The pattern of PyG's examples/ogbn_train.py, on the `Data` in the file that is named.

y in a column and a split of node ids, as OGB's data sets have them, three loaders, and a model of PyG's.
"""

import sys

import torch
import torch.nn.functional as F  # noqa: N812
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn.models import GraphSAGE
from torch_geometric.utils import to_undirected

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
num_layers = 3
data = torch.load(sys.argv[1], weights_only=False)
split = {name: data[f"{name}_mask"].nonzero().view(-1) for name in ("train", "val", "test")}
data.y = data.y.view(-1, 1)
data.edge_index = to_undirected(data.edge_index, reduce="mean")
data.to(device, "x", "y")

options = {"batch_size": 128, "shuffle": True, "num_workers": 2, "persistent_workers": True}
fanouts = [5] * num_layers
train_loader = NeighborLoader(data, input_nodes=split["train"], num_neighbors=fanouts, **options)
val_loader = NeighborLoader(data, input_nodes=split["val"], num_neighbors=fanouts, **options)
test_loader = NeighborLoader(data, input_nodes=split["test"], num_neighbors=fanouts, **options)

model = GraphSAGE(data.num_features, 32, num_layers, int(data.y.max()) + 1, dropout=0.5).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.0)


def train():
    model.train()
    total = 0.0
    for batch in train_loader:
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index.to(device))[: batch.batch_size]
        loss = F.cross_entropy(out, batch.y[: batch.batch_size].squeeze().to(torch.long))
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(train_loader)


@torch.no_grad()
def test(loader):
    model.eval()
    right = seen = 0
    for batch in loader:
        batch = batch.to(device)
        seeds = batch.num_sampled_nodes[0]
        y = batch.y[:seeds].view(-1).to(torch.long)
        right += int((model(batch.x, batch.edge_index)[:seeds].argmax(dim=-1) == y).sum())
        seen += y.size(0)
    assert seen == len(loader.dataset)
    return right / seen


for epoch in range(1, 6):
    loss = train()
    print(f"epoch {epoch}: loss {loss:.4f}, val {test(val_loader):.4f}, test {test(test_loader):.4f}")

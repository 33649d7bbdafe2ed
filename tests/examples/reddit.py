"""The pattern of PyG's examples/reddit.py, on the `Data` in the file that is named.

It trains on sampled neighbors, and infers layer by layer from all of them, by a loader whose data lose x and y.
"""

import copy
import sys

import torch
import torch.nn.functional as F  # noqa: N812
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import SAGEConv

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = torch.load(sys.argv[1], weights_only=False).to(device, "x", "y")

options = {"batch_size": 128, "num_workers": 2, "persistent_workers": True}
train_loader = NeighborLoader(data, input_nodes=data.train_mask, num_neighbors=[10, 5], shuffle=True, **options)
subgraph_loader = NeighborLoader(copy.copy(data), input_nodes=None, num_neighbors=[-1], shuffle=False, **options)
del subgraph_loader.data.x, subgraph_loader.data.y
subgraph_loader.data.num_nodes = data.num_nodes
subgraph_loader.data.n_id = torch.arange(data.num_nodes)


class SAGE(torch.nn.Module):
    def __init__(self, in_channels, hidden_channels, out_channels):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            [SAGEConv(in_channels, hidden_channels), SAGEConv(hidden_channels, out_channels)]
        )

    def forward(self, x, edge_index):
        x = F.dropout(self.convs[0](x, edge_index).relu(), 0.5, self.training)
        return self.convs[1](x, edge_index)

    @torch.no_grad()
    def inference(self, x_all, loader):
        for i, conv in enumerate(self.convs):
            rows = []
            for batch in loader:
                x = conv(x_all[batch.n_id.to(x_all.device)].to(device), batch.edge_index.to(device))
                rows.append((x if i else x.relu())[: batch.batch_size].cpu())
            x_all = torch.cat(rows)
        return x_all


model = SAGE(data.num_features, 32, int(data.y.max()) + 1).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def train():
    model.train()
    seen = right = 0
    for batch in train_loader:
        optimizer.zero_grad()
        y = batch.y[: batch.batch_size]
        out = model(batch.x, batch.edge_index.to(device))[: batch.batch_size]
        F.cross_entropy(out, y).backward()
        optimizer.step()
        right += int((out.argmax(dim=-1) == y).sum())
        seen += batch.batch_size
    assert seen == len(train_loader.dataset) == int(data.train_mask.sum())
    return right / seen


@torch.no_grad()
def test():
    model.eval()
    out = model.inference(data.x, subgraph_loader)
    right = out.argmax(dim=-1) == data.y.cpu()
    return [float(right[mask].float().mean()) for mask in (data.train_mask, data.val_mask, data.test_mask)]


for epoch in range(1, 6):
    print(f"epoch {epoch}: approx. train {train():.4f}, train, val, test", *(f"{share:.4f}" for share in test()))

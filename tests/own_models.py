"""A package of the user's with models of each kind."""

from __future__ import annotations

from pathlib import Path

MODELS = """
import torch
from torch.nn import functional as F
from torch_geometric.nn import SAGEConv

from .widths import HIDDEN


class Edges(torch.nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(in_channels, HIDDEN), SAGEConv(HIDDEN, out_channels)])

    def forward(self, x, edge_index):
        x = F.dropout(self.convs[0](x, edge_index).relu(), 0.5, self.training)
        return self.convs[1](x, edge_index)


class Layers(Edges):
    aggregates = "mean"

    def forward(self, x, adjs):
        x = self.convs[0]((x, x[: adjs[0].size(0)]), adjs[0])
        x = F.dropout(x.relu(), 0.5, self.training)
        return self.convs[1]((x, x[: adjs[1].size(0)]), adjs[1])


class One(torch.nn.Module):
    aggregates = "mean"

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = SAGEConv(in_channels, out_channels)

    def forward(self, x, adjs):
        return self.conv((x, x[: adjs[0].size(0)]), adjs[0])


class Own(Edges):
    def __init__(self, in_channels, out_channels):
        super().__init__(in_channels, out_channels)
        self.loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

    def optimizer(self, learning_rate):
        first, last = ({"params": conv.parameters()} for conv in self.convs)
        return torch.optim.SGD([first, last | {"lr": 3 * learning_rate}], lr=learning_rate, momentum=0.9)

    def schedule(self, batch, batches_per_epoch):
        return 0.5 ** (batch // batches_per_epoch)


def make_layers(in_channels, out_channels):
    return Layers(in_channels, out_channels)


def fails(in_channels, out_channels):
    raise RuntimeError("no such width")


def wrong(in_channels, out_channels):
    return [in_channels]


NUMBER = 3
"""


class Package:
    """The user's package.

    Attributes:
        name: What it is imported as.
        folder: Where its files lie.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        folder.mkdir()
        self.write("__init__", "")
        self.write("widths", "HIDDEN = 32\n")
        self.write("models", MODELS)

    def write(self, module: str, text: str) -> None:
        """Writes a module of it."""
        (self.folder / f"{module}.py").write_text(text)

    def factory(self, name: str) -> str:
        """Returns the name of the factory `name` in its `models`."""
        return f"{self.name}.models:{name}"

    def add_class(self, body: str) -> str:
        """Returns the name of the factory of `Edges` with `body`, in a module of its own."""
        module = f"more{len(list(self.folder.iterdir()))}"
        text = f"import torch\nfrom {self.name}.models import Edges\n\n\nclass Model(Edges):\n{body}\n"
        self.write(module, text)
        return f"{self.name}.{module}:Model"

"""The model that a task asks for."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from a3gnn.errors import ConfigError
from a3gnn.features.rows.aggregate import Aggregator
from a3gnn.seeding import derive
from a3gnn.task import Task
from a3gnn.training.layers.block import LayerBlock
from a3gnn.training.layers.dropout import Dropout
from a3gnn.training.layers.gcn import GCNLayer
from a3gnn.training.layers.layer import Layer
from a3gnn.training.layers.sage import SAGELayer
from a3gnn.training.layers.sparse_linear import by_column


class Model(nn.Module):
    """Graph layers with ReLU and dropout between them.

    Its state loads into PyG's `GraphSAGE`, `GCN`, `GIN` or `GAT` with the same widths, and theirs into it.
    """

    def __init__(self, layers: list[Layer], dropout: float) -> None:
        super().__init__()
        self.convs = nn.ModuleList(layers)
        self.dropout = dropout

    @property
    def layers(self) -> list[Layer]:
        """The graph layers, input layer first."""
        return list(self.convs)  # type: ignore[arg-type]

    @property
    def needs_degrees(self) -> bool:
        """Whether the layers read the blocks' `in_degrees`."""
        return any(layer.needs_degrees for layer in self.layers)

    @property
    def aggregator(self) -> Aggregator | None:
        """What the input layer makes of features before anything that is learnt; None if it can't (GAT)."""
        return self.layers[0].aggregator

    def forward(
        self,
        x: Tensor,
        blocks: list[LayerBlock],
        *,
        aggregated: bool = False,
        seed: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Returns the seeds' logits, float32, shape (num_seeds, num_classes).

        Args:
            x: Input nodes' features, of `dtype` or in sparse CSR float32, (num_src of the first block, num_features);
                or, (num_dst of the first block, input_width), what the input layer's `aggregator` made of them.
            blocks: One per layer, input layer first; each one's destinations are the next one's sources. Where `x` is
                aggregated the input layer's is not read, and may be left out.
            aggregated: Which of the two `x` is.
            seed: Decides what is dropped in training; None draws a seed from torch's generator.
            dtype: Of activations and of the operands of products, float32 or bfloat16.
        """
        if seed is None:
            seed = int(torch.randint(2**62, ())) if self.training else 0
        layers = list(enumerate(self.layers))
        if aggregated:
            x = self.layers[0].combine(x)
            del layers[0]
            blocks = blocks[len(blocks) - len(layers) :]
        for (i, layer), block in zip(layers, blocks, strict=True):
            if i:
                x = x.to(dtype)  # sparse features are float32, and so is what the input layer makes of them
            dropout = Dropout.of(self.dropout if self.training else 0.0, seed, "hidden", i) if i else None
            x = layer(block, x, dropout, derive(seed, "layer", i))
        return x.float()


def build_model(task: Task, num_features: int, num_classes: int, *, sparse: bool = False) -> Model:
    """Returns the task's model with the weights that its seed decides, whatever torch's own generator holds.

    Args:
        task: The task.
        num_features: Columns of the features.
        num_classes: Columns of the logits.
        sparse: Whether features are sparse: the memory of the weights that map them is then in the order of their
            columns, as products with sparse rows read it.
    """
    widths = [num_features, *[task.hidden_channels] * (task.num_layers - 1), num_classes]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(task.seed, "weights"))
        layers = [
            _layer(task, narrow, wide, last=i == task.num_layers - 1)
            for i, (narrow, wide) in enumerate(pairwise(widths))
        ]
    for weight in layers[0].input_weights if sparse else []:
        by_column(weight)
    return Model(layers, task.dropout)


def _layer(task: Task, in_channels: int, out_channels: int, *, last: bool) -> Layer:
    """Returns one layer. GIN and GAT use PyG's modules, whose import takes 65 MiB that sage and gcn need not pay."""
    match task.model:
        case "sage":
            return SAGELayer(in_channels, out_channels)
        case "gcn":
            return GCNLayer(in_channels, out_channels)
        case "gin":
            from a3gnn.training.layers.gin import GINLayer

            return GINLayer(in_channels, out_channels)
        case "gat":
            from a3gnn.training.layers.gat import GATLayer

            return GATLayer(in_channels, out_channels, heads=task.heads, concat=not last, dropout=task.dropout)
    raise ConfigError(f"layers must be of a built-in model, got {task.model}; a3gnn.training.own builds those of users")

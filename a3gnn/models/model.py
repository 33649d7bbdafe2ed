"""`Model`: a task's built-in model, made of layers, norms and residuals by `build_model`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from a3gnn.errors import ConfigError
from a3gnn.features.row_table import Aggregator
from a3gnn.models.layers.activation import Dropout, relu_dropout
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.gcn import GCNLayer
from a3gnn.models.layers.layer import Layer, LayerShapes, linear, make_norm
from a3gnn.models.layers.sage import SAGELayer
from a3gnn.models.layers.sparse_linear import by_column
from a3gnn.seeding import derive
from a3gnn.task import Task


class Model(nn.Module):
    """Graph layers with a norm, ReLU and dropout between them, in PyG's order, and residual connections.

    Parameters are named as in PyG's models (`a3gnn.training.pyg_modules`).

    Args:
        layers: The graph layers, input layer first.
        dropout: Probability of dropping an activation.
        norms: One norm for the output of each layer but the last; empty for none.
        shortcuts: Residual maps of a node's input row, `nn.Linear` or `nn.Identity`: one for every layer, or for every
            layer but the first; empty for none.
    """

    def __init__(self, layers: list[Layer], dropout: float, norms: list[nn.Module], shortcuts: list[nn.Module]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(layers)
        self.norms = nn.ModuleList(norms)
        self.shortcuts = nn.ModuleList(shortcuts)
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
        """The input layer's aggregation of features before any weights.

        None if it has none (attention), or if its residual map needs rows that the aggregates do not have.
        """
        found = self.layers[0].aggregator
        return found if found == "mean" or self.shortcut(0) is None else None

    def forward(
        self,
        x: Tensor,
        blocks: list[LayerBlock],
        *,
        aggregated: bool = False,
        seed: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Returns the seeds' logits, float32 (float64 if `dtype` is), shape (num_seeds, num_classes).

        Args:
            x: Input nodes' features, of `dtype` or in sparse CSR float32, (num_src of the first block, num_features).
                If `aggregated`, the output of the input layer's `aggregator`, (num_dst of the first block,
                input_width).
            blocks: One per layer, input layer first; each one's destinations are the next one's sources. If
                `aggregated`, the input layer's block is not read and may be missing.
            aggregated: Whether `x` is aggregated already.
            seed: Seed of dropout in training; None draws a seed from torch's generator.
            dtype: Dtype of activations and of products' operands, float32 or bfloat16. float64 is slow and needs
                float64 weights and `x`.
        """
        if seed is None:
            seed = int(torch.randint(2**62, ())) if self.training else 0
        if aggregated:
            return self.rest(self.combined(x), blocks[len(blocks) - len(self.layers) + 1 :], seed, dtype)
        out = self.layers[0](blocks[0], x, None, derive(seed, "layer", 0))
        if self.shortcut(0) is not None:
            out = self.with_shortcut(0, out, blocks[0].destinations(x))
        return self.rest(out, blocks[1:], seed, dtype)

    def combined(self, x: Tensor) -> Tensor:
        """Returns the input layer's output for rows `x` from `aggregator`, shape (n_rows, out_channels)."""
        shortcut = self.shortcut(0)
        return self.layers[0].combine(x, shortcut.weight if isinstance(shortcut, nn.Linear) else None)

    def rest(self, x: Tensor, blocks: list[LayerBlock], seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Returns the seeds' logits, as `forward` does, from the input layer's output.

        Args:
            x: The input layer's output, shape (num_dst of its block, out_channels); may be overwritten.
            blocks: One per later layer.
            seed: See `forward`.
            dtype: See `forward`.
        """
        for i, block in zip(range(1, len(self.layers)), blocks, strict=True):
            # Sparse features are float32, and so is the input layer's output for them.
            x = self._hidden(i, block, self.normalized(i, x.to(dtype)), seed)
        return x.float() if x.dtype is torch.bfloat16 else x

    def _hidden(self, i: int, block: LayerBlock, x: Tensor, seed: int) -> Tensor:
        """Applies ReLU and dropout to `x`, then layer `i` and its residual connection."""
        dropout = Dropout.of(self.dropout if self.training else 0.0, seed, "hidden", i)
        if block.whole is not None:
            dropout = dropout.at(block.whole.places, block.whole.block.num_src)
        layer, drawn = self.layers[i], derive(seed, "layer", i)
        if not self.shortcuts:
            out: Tensor = layer(block, x, dropout, drawn)
            return out
        x = relu_dropout(x, dropout)
        return self.with_shortcut(i, layer(block, x, None, drawn), block.destinations(x))

    def normalized(self, i: int, x: Tensor) -> Tensor:
        """Returns the input of layer `i` before ReLU, from the previous layer's output `x`, which it may overwrite."""
        if not i or not self.norms:
            return x
        from a3gnn.models.layers.norm import normalized  # PyG's, whose import takes 65 MiB

        return normalized(x, self.norms[i - 1])

    def shortcut(self, i: int) -> nn.Module | None:
        """Returns the residual map of layer `i`, from 0; None if it has none."""
        place = i - len(self.convs) + len(self.shortcuts)
        return self.shortcuts[place] if self.shortcuts and place >= 0 else None

    def with_shortcut(self, i: int, out: Tensor, own: Tensor) -> Tensor:
        """Returns the output of layer `i` with its residual connection, if it has one.

        Args:
            i: The layer's number, from 0.
            out: The layer's output without the residual, shape (num_dst, out_channels).
            own: The destinations' rows of the layer's activated input, shape (num_dst, in_channels); of the input
                layer, of the features, dense or sparse CSR.
        """
        shortcut = self.shortcut(i)
        if shortcut is None:
            return out
        return out + (linear(own, shortcut.weight) if isinstance(shortcut, nn.Linear) else own)

    def cost(self, i: int, work: LayerShapes) -> float:
        """Returns the cost of layer `i`, its norm and its residual connection, in the units of `LayerShapes`."""
        layer = self.layers[i]
        cost = layer.cost(work)
        if i and self.norms:
            cost += work.normalize(layer.in_channels)
        if (shortcut := self.shortcut(i)) is not None:
            cost += work.add_own(layer.in_channels, layer.out_channels, mapped=isinstance(shortcut, nn.Linear))
        return cost


def build_model(task: Task, num_features: int, num_classes: int, *, sparse: bool = False) -> Model:
    """Returns the task's model; its initial weights depend only on the task's seed, not on torch's generator.

    Args:
        task: A task of a built-in model.
        num_features: Columns of the features.
        num_classes: Columns of the logits.
        sparse: Whether features are sparse. The input layer's weights are then column-major, because products with
            sparse rows read them so.
    """
    widths = [num_features, *[task.hidden_channels] * (task.num_layers - 1), num_classes]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(task.seed, "weights"))
        layers = [
            _layer(task, narrow, wide, last=i == task.num_layers - 1)
            for i, (narrow, wide) in enumerate(pairwise(widths))
        ]
        shortcuts = _shortcuts(task, layers)
    norms = [] if task.norm == "none" else [make_norm(task.norm, layer.out_channels) for layer in layers[:-1]]
    model = Model(layers, task.dropout, norms, shortcuts)
    if sparse:
        shortcut = model.shortcut(0)
        for weight in [*layers[0].input_weights, *(() if shortcut is None else shortcut.parameters())]:
            by_column(weight)
    return model


def _shortcuts(task: Task, layers: list[Layer]) -> list[nn.Module]:
    """Returns the residual maps of a task's layers (`Model`)."""
    if not task.residual:
        return []
    linear = task.residual == "linear"
    return [
        nn.Linear(layer.in_channels, layer.out_channels, bias=False)
        if linear or layer.in_channels != layer.out_channels
        else nn.Identity()
        for layer in layers[not linear :]
    ]


def _layer(task: Task, in_channels: int, out_channels: int, *, last: bool) -> Layer:
    """Returns one layer. Only GIN and attention import PyG's modules, which take 65 MiB."""
    match task.model:
        case "sage":
            return SAGELayer(in_channels, out_channels)
        case "gcn":
            return GCNLayer(in_channels, out_channels)
        case "gin":
            from a3gnn.models.layers.gin import GINLayer

            return GINLayer(in_channels, out_channels, norm="layer" if task.norm == "layer" else "batch")
        case "gat" | "gatv2" | "transformer":
            options = {"heads": task.heads, "concat": not last, "dropout": task.dropout, "edge_dim": task.edge_dim}
            return _attention(task.model)(in_channels, out_channels, **options)
    raise ConfigError(f"model must be a built-in one, got {task.model}; a3gnn.models.own builds users' models")


def _attention(model: str) -> Callable[..., Layer]:
    """Returns the layer class of an attention model."""
    match model:
        case "gat":
            from a3gnn.models.layers.gat import GATLayer

            return GATLayer
        case "gatv2":
            from a3gnn.models.layers.edge_attention import GATv2Layer

            return GATv2Layer
        case _:
            from a3gnn.models.layers.edge_attention import TransformerLayer

            return TransformerLayer

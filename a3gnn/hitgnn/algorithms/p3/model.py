"""`SplitModel`: a built-in model whose input layer's weights are split by column over ranks, as the features are.

Also contains the exchange of partial products between ranks, and the count of its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from a3gnn.errors import UsageError
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.layer import Layer
from a3gnn.models.model import Model
from a3gnn.seeding import derive


class Swapping(Protocol):
    """Ranks that exchange tensors; all of them make the same calls, in the same order."""

    @property
    def rank(self) -> int:
        """This rank's number, from 0."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    def swap(self, pieces: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Sends a piece to each rank, and returns the pieces from all ranks; see `a3gnn.ranks.peers`."""


@dataclass(slots=True)
class Moved:
    """Bytes to and from other ranks.

    Attributes:
        sent: Bytes to others.
        received: Bytes from others.
    """

    sent: int = 0
    received: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes in both directions."""
        return self.sent + self.received


@dataclass(slots=True)
class SplitTraffic:
    """The bytes that a rank has sent and received so far, without those it sends itself.

    Attributes:
        structures: Node ids and edges of the input layers.
        activations: Partial products, forward.
        gradients: Gradients of their sums, backward.
    """

    structures: Moved = field(default_factory=Moved)
    activations: Moved = field(default_factory=Moved)
    gradients: Moved = field(default_factory=Moved)


class ColumnPart(NamedTuple):
    """The input of the first layer for some rank's mini-batch.

    Attributes:
        block: The input layer's block.
        x: This rank's columns of the input nodes' features, dense, of the weights' dtype, shape (num_src, width).
    """

    block: LayerBlock
    x: Tensor


class SplitModel(nn.Module):
    """Computes the input layer of all ranks' mini-batches with its own columns, and the other layers of its own one.

    The input layer's maps are linear in the features, so the results of all ranks' columns sum to the whole. They are
    summed before the bias, attention and everything else that is not linear. (HitGNN's Listing 3 concatenates after the
    update, which is wrong for such features.) The rank of a mini-batch continues with the sum.

    Each rank has its own weights of the input layer's maps. Their gradients are complete, because they include every
    rank's mini-batch. All ranks have the other weights, whose gradients must be summed over ranks.

    Args:
        model: The whole model, equal on all ranks; its input layer is narrowed in place to this rank's columns.
        ranks: All ranks.
        columns: This rank's first column of the features, and the one past its last.

    Attributes:
        model: The narrowed model.
        columns: This rank's first column of the features, and the one past its last.
        traffic: Bytes sent and received so far, without those of `whole`.
    """

    def __init__(self, model: Model, ranks: Swapping, columns: tuple[int, int]) -> None:
        super().__init__()
        self._num_features = model.layers[0].in_channels
        self._names = _narrow(model.layers[0], *columns)
        self.model, self._ranks, self.columns, self.traffic = model, ranks, columns, SplitTraffic()
        self._told: list[tuple[int, int]] = []

    def forward(
        self, parts: Sequence[ColumnPart | None], blocks: Sequence[LayerBlock] = (), *, seed: int = 0
    ) -> Tensor:
        """Returns the logits of this rank's seeds, shape (num_seeds, num_classes); every rank calls it.

        A rank without a mini-batch gets shape (0, num_classes), and must still call `backward` on the logits' sum,
        because the others wait for it there.

        Args:
            parts: The part of each rank's mini-batch, in order; None for a rank without one in this iteration.
            blocks: This rank's blocks of the layers after the input layer.
            seed: Decides dropout in this rank's mini-batch during training.

        Raises:
            UsageError: There is not one part per rank, a part has other columns than this rank, or the ranks' columns
                do not cover all columns exactly once.
        """
        own = parts[self._ranks.rank] if len(parts) == self._ranks.size else None
        found = self.first_layer(parts, derive(seed, "layer", 0))
        if own is None:
            last = self.model.layers[-1]
            return found.sum() + found.new_zeros(0, last.out_channels)
        return self.model.rest(found, list(blocks), seed, found.dtype)

    def first_layer(self, parts: Sequence[ColumnPart | None], seed: int = 0) -> Tensor:
        """Returns the input layer's output for this rank's mini-batch, (num_dst, out_channels); see `forward`.

        A rank without a mini-batch gets an empty tensor, and must call `backward` on its sum.
        """
        self._check(parts)
        self._all_columns()
        first, own = self.model.layers[0], parts[self._ranks.rank]
        products = [[] if part is None else first.linear_part(part.block, part.x) for part in parts]
        empty = first.input_weights[0].new_empty(0)
        flat = [torch.cat([one.flatten() for one in every]) if every else empty for every in products]
        total = summed(self._ranks, flat, self.traffic)
        if own is None:
            return total
        mine = products[self._ranks.rank]
        pieces = torch.split(total, [one.numel() for one in mine])
        whole = [piece.view(one.shape) for piece, one in zip(pieces, mine, strict=True)]
        return first.complete(own.block, whole, seed)

    def _all_columns(self) -> list[tuple[int, int]]:
        """Returns every rank's columns, exchanged in the first call; every rank calls it."""
        if not self._told:
            told = self._ranks.swap([torch.tensor(self.columns)] * self._ranks.size, [2] * self._ranks.size)
            self._told = _checked([(int(one[0]), int(one[1])) for one in told], self._num_features)
        return self._told

    @property
    def split_weights(self) -> list[nn.Parameter]:
        """The weights that only this rank has, whose gradients are complete."""
        return [self.model.get_parameter(name) for name in self._names]

    @property
    def shared_weights(self) -> list[nn.Parameter]:
        """The weights that all ranks have, whose gradients must be summed."""
        split = {id(weight) for weight in self.split_weights}
        return [weight for weight in self.model.parameters() if id(weight) not in split]

    def whole(self, columns: Tensor) -> Tensor:
        """Returns a matrix with the columns of all ranks, such as weights or their moments; every rank calls it.

        Args:
            columns: This rank's columns, shape (n_rows, width); the dtype and n_rows are the same on all ranks.
        """
        rows, flat = len(columns), columns.detach().contiguous().flatten()
        sizes = [rows * (end - first) for first, end in self._all_columns()]
        found = self._ranks.swap([flat] * self._ranks.size, sizes)
        whole = columns.new_empty(rows, self._num_features, requires_grad=False)
        for (first, end), part in zip(self._all_columns(), found, strict=True):
            whole[:, first:end] = part.view(rows, end - first)
        return whole

    def whole_state(self) -> dict[str, Tensor]:
        """Returns the state dict of the whole model, on every rank; every rank calls it."""
        state = self.model.state_dict()
        return {name: self.whole(value) if name in self._names else value for name, value in state.items()}

    def load_whole_state(self, state: dict[str, Any]) -> None:
        """Loads this rank's part of a whole model's state dict."""
        first, end = self.columns
        own = {name: value[:, first:end] if name in self._names else value for name, value in state.items()}
        self.model.load_state_dict(own)

    def _check(self, parts: Sequence[ColumnPart | None]) -> None:
        if len(parts) != self._ranks.size:
            raise UsageError(
                f"there must be a part for each of {self._ranks.size} ranks, got {len(parts)}; give None for a rank "
                "without a mini-batch"
            )
        first, end = self.columns
        for part in parts:
            if part is not None and part.x.shape[1] != end - first:
                raise UsageError(
                    f"rank {self._ranks.rank} must have the features' columns {first} to {end}, {end - first} in all, "
                    f"got {part.x.shape[1]} columns; give it x[:, {first}:{end}]"
                )


def swap(ranks: Swapping, pieces: Sequence[Tensor], sizes: Sequence[int], moved: Moved) -> list[Tensor]:
    """Calls `ranks.swap`, and adds the bytes that leave and enter this rank to `moved`."""
    received = ranks.swap(pieces, sizes)
    for rank, (piece, other) in enumerate(zip(pieces, received, strict=True)):
        if rank != ranks.rank:
            moved.sent += piece.nbytes
            moved.received += other.nbytes
    return received


def summed(ranks: Swapping, partial: Sequence[Tensor], traffic: SplitTraffic) -> Tensor:
    """Returns the sum of all ranks' partial products of this rank's mini-batch, flat, added in the order of ranks.

    In the backward pass, the sum's gradient goes to all ranks, because it is the gradient of each partial product. So
    every rank must call `backward` on a value that depends on its sum, even if the sum is empty because the rank has no
    mini-batch.

    Args:
        ranks: All ranks; every one calls this.
        partial: This rank's contribution to each rank's mini-batch, flat, of one dtype; empty for a rank without one.
            Contributions to one mini-batch have the same size on all ranks.
        traffic: Counts the bytes.
    """
    total: Tensor = _Summed.apply(ranks, traffic, *partial)  # type: ignore[no-untyped-call]
    return total


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ranks: Swapping, traffic: SplitTraffic, *partial: Tensor) -> Tensor:
        ctx.ranks, ctx.traffic, ctx.sizes = ranks, traffic, [len(part) for part in partial]
        own = [ctx.sizes[ranks.rank]] * ranks.size
        first, *others = swap(ranks, partial, own, traffic.activations)
        total = first.clone()
        for other in others:
            total += other
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        pieces = [grad.contiguous()] * ctx.ranks.size
        return None, None, *swap(ctx.ranks, pieces, ctx.sizes, ctx.traffic.gradients)


def _checked(columns: list[tuple[int, int]], num_features: int) -> list[tuple[int, int]]:
    """Checks and returns all ranks' `columns`: each rank has one or more, and each of `num_features` occurs once."""
    bounds = [0, *(bound for one in sorted(columns) for bound in one), num_features]
    if bounds[::2] == bounds[1::2] and all(first < end for first, end in columns):
        return columns
    raise UsageError(
        f"{len(columns)} ranks must have each of {num_features} columns of the features once, and one at least, got "
        f"columns {', '.join(f'{first} to {end}' for first, end in columns)}; give rank i those from {num_features} * "
        f"i // {len(columns)} on"
    )


def _narrow(layer: Layer, low: int, high: int) -> list[str]:
    """Narrows `layer` to columns `low` to `high` of its input; returns the names of its maps' weights in a `Model`."""
    mapping = {id(weight) for weight in layer.input_weights}
    names = [name for name, weight in layer.named_parameters() if id(weight) in mapping]
    for name in names:
        weight = layer.get_parameter(name)
        weight.data = weight.data[:, low:high].clone(memory_format=torch.preserve_format)
    layer.in_channels = high - low
    return [f"convs.0.{name}" for name in names]

"""P3's exchange of mini-batch structures and partial sums (Gandhi and Iyer, 2021).

`PartialSums` is the exchange, and `SplitModel` a built-in model whose input layer's weights are split by column over
ranks, as the features are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from a3gnn.errors import UsageError
from a3gnn.features.store import FeatureStore
from a3gnn.hitgnn.algorithms.exchange import Exchange, Exchanged
from a3gnn.hitgnn.algorithms.stored import Stored
from a3gnn.models.adam import Optimizer
from a3gnn.models.batch_blocks import input_block
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.layers.layer import linear
from a3gnn.models.model import Model
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.ranks.group import TorchRanks
from a3gnn.ranks.peers import Ranks
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.seeding import derive
from a3gnn.training.built_in import BuiltIn


class PartialSums(Exchange):
    """Computes the input layer of all mini-batches on each rank, with the rank's columns of features; see `Exchange`.

    Each rank receives the input nodes and edges of all mini-batches, and reads its columns of their features from its
    own store. It has and trains only these columns of the input layer's weights, so no rank sums their gradients.

    Args:
        learner: Its model is narrowed in place.
        stored: The columns of this rank.
        features: Reads these columns.

    Attributes:
        split: The trained model.
    """

    def __init__(self, learner: BuiltIn, ranks: TorchRanks, stored: Stored, features: FeatureStore) -> None:
        self._whole = learner.fresh_model()
        self._whole.load_state_dict(learner.model.state_dict())
        self.split = SplitModel(learner.model, ranks, stored.columns)
        self._whole.register_load_state_dict_post_hook(  # type: ignore[no-untyped-call]
            lambda module, _: self.split.load_whole_state(module.state_dict())
        )
        self._ranks, self._features, self._rows = ranks, features, 0
        self._optimizer: SplitOptimizer | None = None

    @property
    def exchanged(self) -> Exchanged:
        """The traffic so far."""
        traffic = self.split.traffic
        return Exchanged(self._rows, traffic.activations.nbytes + traffic.gradients.nbytes, traffic.structures.nbytes)

    @property
    def own_weights(self) -> list[nn.Parameter]:
        """This rank's columns of the input layer's weights."""
        return self.split.split_weights

    @property
    def whole(self) -> Model:
        """The whole model as of the last `gather`; see `Exchange.whole`."""
        return self._whole

    def optimizer(self, inner: Optimizer) -> SplitOptimizer:
        """Wraps `inner`, which updates this rank's weights, with the whole model's state; see `Exchange.optimizer`."""
        self._optimizer = SplitOptimizer(inner, self.split)
        return self._optimizer

    @torch.no_grad()
    def gather(self) -> None:
        """Updates `whole` and the optimizer's state; every rank calls it."""
        state = self.split.whole_state()
        for name, value in self._whole.state_dict().items():
            value.copy_(state[name])
        if self._optimizer is not None:
            self._optimizer.gather()

    def logits(self, batch: MiniBatch, blocks: list[LayerBlock], seed: int) -> Tensor:
        """Returns the logits of the seeds of `batch`; see `Exchange.logits`."""
        own = InputStructure.of(batch.subgraph)
        structures = share_structures(self._ranks, own, self.split.traffic.structures)
        self._rows += sum(len(one.n_id) for one in structures if one is not None)
        parts = [None if one is None or one is own else self._part(one, batch.x) for one in structures]
        parts[self._ranks.rank] = ColumnPart(blocks[0], batch.x)
        logits: Tensor = self.split(parts, blocks[1:], seed=seed)
        return logits

    def _part(self, structure: InputStructure, like: Tensor) -> ColumnPart:
        """Returns the part of another rank's mini-batch, with the device and dtype of `like`."""
        block = structure.block(with_degrees=self.split.model.layers[0].needs_degrees, device=like.device)
        return ColumnPart(block, self._features.read(structure.n_id).x.to(like))


class SplitOptimizer:
    """Updates this rank's weights, and keeps all ranks' state as of the last `gather`.

    Args:
        inner: Adam over the weights of `split.model`, in their order.
    """

    def __init__(self, inner: Optimizer, split: SplitModel) -> None:
        self._inner, self._split = inner, split
        self._state = inner.state_dict()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameter groups of the inner optimizer."""
        return self._inner.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self._inner.param_groups = groups

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients."""
        self._inner.zero_grad(set_to_none)

    def step(self) -> None:
        """Updates every weight that has a gradient."""
        self._inner.step()

    def gather(self) -> None:
        """Gathers the current state for `state_dict`; every rank calls it."""
        self._state = self._mapped(self._inner.state_dict(), self._split.whole)

    def state_dict(self) -> dict[str, Any]:
        """Returns the whole model's state as of the last `gather` or load."""
        return self._state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads this rank's part of a whole model's state."""
        first, end = self._split.columns
        self._inner.load_state_dict(self._mapped(state_dict, lambda whole: whole[:, first:end]))
        self._state = state_dict

    def _mapped(self, state: dict[str, Any], mapping: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        """Returns `state` with `mapping` applied to the moments of weights that are split."""
        split = {id(weight) for weight in self._split.split_weights}
        numbers = [i for i, weight in enumerate(self._split.model.parameters()) if id(weight) in split]

        moments = {
            number: {
                name: mapping(value) if number in numbers and value.ndim == 2 else value
                for name, value in sorted(own.items())
            }
            for number, own in sorted(state["state"].items())
        }
        return {**state, "state": moments}


class InputStructure(NamedTuple):
    """A mini-batch's input nodes, and the edges of its input layer."""

    n_id: NDArray[np.int32]  # global ids of the input nodes, int32, shape (num_src,)
    indptr: NDArray[np.int32]  # int32, shape (num_dst + 1,); destinations are the first of the sources
    indices: NDArray[np.int32]  # in-neighbors as positions in `n_id`, int32, shape (num_edges,)

    @classmethod
    def of(cls, subgraph: Subgraph) -> Self:
        """Returns the structure of a whole mini-batch, or of the empty share of a rank without seeds.

        Raises:
            UsageError: It is a share of a mini-batch, whose degrees and dropout belong to the whole.
        """
        if subgraph.share is not None and subgraph.share.num_seeds:
            raise UsageError(
                "mini-batches must be whole if features are split by column, got a share of one; give each rank "
                "mini-batches of its own"
            )
        block = subgraph.block(0)
        return cls(subgraph.n_id, block.indptr, block.indices)

    def block(self, *, with_degrees: bool, device: torch.device | str = "cpu") -> LayerBlock:
        """Returns the input layer's block on `device`, optionally with the sampled in-degrees of its sources."""
        indptr, indices = (torch.from_numpy(array).to(device) for array in (self.indptr, self.indices))
        return input_block(indptr, indices, len(self.n_id), with_degrees=with_degrees)


def share_structures(ranks: Ranks, own: InputStructure | None, moved: Moved) -> list[InputStructure | None]:
    """Returns the structures of all ranks' mini-batches, in their order; every rank calls it.

    Args:
        ranks: All ranks.
        own: Structure of this rank's mini-batch; None if it has none.
        moved: Counts the bytes.
    """
    arrays = tuple(np.empty(0, dtype=np.int32) for _ in InputStructure._fields) if own is None else own
    lengths = torch.tensor([len(array) for array in arrays])
    told = swap(ranks, [lengths] * ranks.size, [len(lengths)] * ranks.size, moved)
    flat = torch.from_numpy(np.concatenate(arrays))
    found = swap(ranks, [flat] * ranks.size, [int(one.sum()) for one in told], moved)
    split = [_split(one.tolist(), content.numpy()) for one, content in zip(told, found, strict=True)]
    split[ranks.rank] = own
    return split


def _split(lengths: list[int], content: NDArray[np.int32]) -> InputStructure | None:
    if not any(lengths):
        return None
    bounds = np.cumsum([0, *lengths]).tolist()
    return InputStructure(*(content[low:high].copy() for low, high in pairwise(bounds)))


@dataclass(slots=True)
class Moved:
    """Bytes to and from other ranks."""

    sent: int = 0  # bytes to others
    received: int = 0  # bytes from others

    @property
    def nbytes(self) -> int:
        """Bytes in both directions."""
        return self.sent + self.received


@dataclass(slots=True)
class SplitTraffic:
    """The bytes that a rank has sent and received so far, without those it sends itself."""

    structures: Moved = field(default_factory=Moved)  # node ids and edges of the input layers
    activations: Moved = field(default_factory=Moved)  # partial products, forward
    gradients: Moved = field(default_factory=Moved)  # gradients of their sums, backward


class ColumnPart(NamedTuple):
    """The input of the first layer for some rank's mini-batch."""

    block: LayerBlock  # the input layer's block
    x: Tensor  # this rank's columns of the input nodes' features, dense, of the weights' dtype, shape (num_src, width)


class SplitModel(nn.Module):
    """Computes the input layer of all ranks' mini-batches with its own columns, and the other layers of its own one.

    The input layer's maps are linear in the features, so the results of all ranks' columns sum to the whole. They are
    summed before the bias, attention and everything else that is not linear. (HitGNN's Listing 3 concatenates after the
    update, which is wrong for such features.) The rank of a mini-batch continues with the sum.

    Each rank has its own weights of the input layer's maps. Their gradients are complete, because they include every
    rank's mini-batch. All ranks have the other weights, whose gradients must be summed over ranks.

    Args:
        model: The whole model, equal on all ranks; its input layer is narrowed in place to this rank's columns.
        columns: This rank's first column of the features, and the one past its last.

    Attributes:
        model: The narrowed model.
        columns: This rank's first column of the features, and the one past its last.
        traffic: Bytes sent and received so far, without those of `whole`.
    """

    def __init__(self, model: Model, ranks: Ranks, columns: tuple[int, int]) -> None:
        super().__init__()
        self._num_features = model.layers[0].in_channels
        self._names = _narrow(model, columns)
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
        products = [[] if part is None else self._linear_part(part) for part in parts]
        empty = first.input_weights[0].new_empty(0)
        flat = [torch.cat([one.flatten() for one in every]) if every else empty for every in products]
        total = summed(self._ranks, flat, self.traffic)
        if own is None:
            return total
        mine = products[self._ranks.rank]
        pieces = torch.split(total, [one.numel() for one in mine])
        whole = [piece.view(one.shape) for piece, one in zip(pieces, mine, strict=True)]
        if self.model.shortcut(0) is None:
            return first.complete(own.block, whole, seed)
        return first.complete(own.block, whole[:-1], seed) + whole[-1]

    def _linear_part(self, part: ColumnPart) -> list[Tensor]:
        """Returns the part of the input layer's output that is linear in its input: see `Layer.linear_part`.

        If the layer has a residual map, its output is the last one.
        """
        found, shortcut = self.model.layers[0].linear_part(part.block, part.x), self.model.shortcut(0)
        if not isinstance(shortcut, nn.Linear):
            return found
        return [*found, linear(part.block.destinations(part.x), shortcut.weight)]

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
                f"parts must have an entry for each of {self._ranks.size} ranks, got {len(parts)}; give None for a "
                "rank without a mini-batch"
            )
        first, end = self.columns
        for part in parts:
            if part is not None and part.x.shape[1] != end - first:
                raise UsageError(
                    f"rank {self._ranks.rank} must have columns {first} to {end} of the features, {end - first} in "
                    f"all, got {part.x.shape[1]} columns; give it x[:, {first}:{end}]"
                )


def swap(ranks: Ranks, pieces: Sequence[Tensor], sizes: Sequence[int], moved: Moved) -> list[Tensor]:
    """Calls `ranks.swap`, and adds the bytes that leave and enter this rank to `moved`."""
    received = ranks.swap(pieces, sizes)
    for rank, (piece, other) in enumerate(zip(pieces, received, strict=True)):
        if rank != ranks.rank:
            moved.sent += piece.nbytes
            moved.received += other.nbytes
    return received


def summed(ranks: Ranks, partial: Sequence[Tensor], traffic: SplitTraffic) -> Tensor:
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
    def forward(ctx: Any, ranks: Ranks, traffic: SplitTraffic, *partial: Tensor) -> Tensor:
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
        f"each of {num_features} columns of the features must be on one of {len(columns)} ranks, and each rank must "
        f"have at least one, got columns {', '.join(f'{first} to {end}' for first, end in columns)}; give rank i the "
        f"columns from {num_features} * i // {len(columns)} on"
    )


def _narrow(model: Model, columns: tuple[int, int]) -> list[str]:
    """Narrows the input layer to `columns` of its input, from and to; returns the names of its maps' weights."""
    layer, shortcut, (low, high) = model.layers[0], model.shortcut(0), columns
    mapping = {id(weight) for weight in [*layer.input_weights, *([] if shortcut is None else shortcut.parameters())]}
    names = [name for name, weight in model.named_parameters() if id(weight) in mapping]
    for name in names:
        weight = model.get_parameter(name)
        weight.data = weight.data[:, low:high].clone(memory_format=torch.preserve_format)
    layer.in_channels = high - low
    return names

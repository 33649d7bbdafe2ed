"""`PartialSums`: P3's exchange of mini-batch structures and partial sums, with its optimizer for split weights."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from a3gnn.errors import UsageError
from a3gnn.features.stores.store import FeatureStore
from a3gnn.hitgnn.algorithms.exchange import Exchange, Exchanged
from a3gnn.hitgnn.algorithms.p3.model import ColumnPart, Moved, SplitModel, Swapping, swap
from a3gnn.hitgnn.algorithms.stored import Stored
from a3gnn.models.adam import Optimizer
from a3gnn.models.batch_blocks import input_block
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.model import Model
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.ranks.group import TorchRanks
from a3gnn.sampling.subgraph import Subgraph
from a3gnn.training.built_in import BuiltIn


class PartialSums(Exchange):
    """Computes the input layer of all mini-batches on each rank, with the rank's columns of features; see `Exchange`.

    Each rank receives the input nodes and edges of all mini-batches, and reads its columns of their features from its
    own store. It has and trains only these columns of the input layer's weights, so no rank sums their gradients.

    Args:
        learner: Its model is narrowed in place.
        ranks: All ranks.
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
        split: The model.
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
    """A mini-batch's input nodes, and the edges of its input layer.

    Attributes:
        n_id: Global ids of the input nodes, int32, shape (num_src,).
        indptr: int32, shape (num_dst + 1,); destinations are the first of the sources.
        indices: In-neighbors as positions in `n_id`, int32, shape (num_edges,).
    """

    n_id: NDArray[np.int32]
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]

    @classmethod
    def of(cls, subgraph: Subgraph) -> Self:
        """Returns the structure of a whole mini-batch, or of the empty share of a rank without seeds.

        Raises:
            UsageError: It is a share of a mini-batch, whose degrees and dropout belong to the whole.
        """
        if subgraph.share is not None and subgraph.share.num_seeds:
            raise UsageError(
                "mini-batches must be whole where features are split by column, got a share of one; give each rank "
                "mini-batches of its own"
            )
        block = subgraph.block(0)
        return cls(subgraph.n_id, block.indptr, block.indices)

    def block(self, *, with_degrees: bool, device: torch.device | str = "cpu") -> LayerBlock:
        """Returns the input layer's block on `device`, optionally with the sampled in-degrees of its sources."""
        indptr, indices = (torch.from_numpy(array).to(device) for array in (self.indptr, self.indices))
        return input_block(indptr, indices, len(self.n_id), with_degrees=with_degrees)


def share_structures(ranks: Swapping, own: InputStructure | None, moved: Moved) -> list[InputStructure | None]:
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

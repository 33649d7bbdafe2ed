"""`PartialSums`: P3's exchange, as training by ranks calls it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from a3gnn.features.stores.store import FeatureStore
from a3gnn.hitgnn.algorithms.exchange import Exchange, Exchanged
from a3gnn.hitgnn.algorithms.p3.model import Part, SplitModel
from a3gnn.hitgnn.algorithms.p3.optimizer import SplitOptimizer
from a3gnn.hitgnn.algorithms.p3.structure import InputStructure, share_structures
from a3gnn.hitgnn.algorithms.stored import Stored
from a3gnn.models.adam import Optimizer
from a3gnn.models.layers.block import LayerBlock
from a3gnn.models.model import Model
from a3gnn.pipeline.batch import MiniBatch
from a3gnn.ranks.group import TorchRanks
from a3gnn.training.built_in import BuiltIn


class PartialSums(Exchange):
    """Has each rank compute the input layer of all mini-batches by its own columns of features; see `Exchange`.

    Each rank is told the input nodes and edges of all mini-batches, and reads its columns of their features from its
    own store. It keeps and trains these columns of the input layer's weights alone: no rank sums their gradients.

    Args:
        learner: Its model is narrowed in place.
        ranks: All ranks.
        stored: The columns that this one has.
        features: Reads them.

    Attributes:
        split: The model that is trained.
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
        """What was exchanged so far."""
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
        """Returns `inner`, of this rank's weights, with the state of the whole model's; see `Exchange.optimizer`."""
        self._optimizer = SplitOptimizer(inner, self.split)
        return self._optimizer

    @torch.no_grad()
    def gather(self) -> None:
        """Has `whole` and the optimiser's state be those of now; every rank calls it."""
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
        parts[self._ranks.rank] = Part(blocks[0], batch.x)
        logits: Tensor = self.split(parts, blocks[1:], seed=seed)
        return logits

    def _part(self, structure: InputStructure, like: Tensor) -> Part:
        """Returns the part of another rank's mini-batch, on the device and of the dtype of `like`."""
        block = structure.block(with_degrees=self.split.model.layers[0].needs_degrees, device=like.device)
        return Part(block, self._features.read(structure.n_id).x.to(like))

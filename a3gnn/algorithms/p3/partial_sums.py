"""`PartialSums`: P3's exchange, as training by ranks calls it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from a3gnn.algorithms.exchange import Exchanged
from a3gnn.algorithms.p3.model import Part, SplitModel
from a3gnn.algorithms.p3.structure import InputStructure, share_structures
from a3gnn.algorithms.stored import Stored
from a3gnn.features.stores.store import FeatureStore
from a3gnn.runtime.batch import MiniBatch
from a3gnn.training.built_in import BuiltIn
from a3gnn.training.layers.block import LayerBlock
from a3gnn.training.ranks.group import TorchRanks


class PartialSums:
    """Has each rank compute the input layer of all mini-batches by its own columns of features; see `Exchange`.

    Every rank keeps whole weights, so that any of them can be evaluated and saved. It computes with its own columns of
    the input layer's maps alone, and has a gradient of these: summed over ranks, gradients are those of the whole.

    Args:
        learner: Its model is computed.
        ranks: All ranks.
        stored: The columns that this one has.
        features: Reads them.
    """

    def __init__(self, learner: BuiltIn, ranks: TorchRanks, stored: Stored, features: FeatureStore) -> None:
        self._model, self._ranks, self._columns, self._features = learner.model, ranks, stored.columns, features
        self._split: SplitModel | None = None
        self._own: dict[str, nn.Parameter] = {}
        self._rows = 0

    @property
    def exchanged(self) -> Exchanged:
        """What was exchanged so far."""
        if self._split is None:
            return Exchanged()
        traffic = self._split.traffic
        of_sums = (traffic.activations, traffic.gradients)
        structures = traffic.structures.sent + traffic.structures.received
        return Exchanged(self._rows, sum(one.sent + one.received for one in of_sums), structures)

    def logits(self, batch: MiniBatch, blocks: list[LayerBlock], seed: int) -> Tensor:
        """Returns the logits of the seeds of `batch`; see `Exchange.logits`."""
        block, device = batch.subgraph.block(0), batch.x.device
        own = InputStructure(batch.subgraph.n_id, block.indptr, block.indices)
        with self._narrowed() as split:
            parts = []
            for rank, one in enumerate(share_structures(self._ranks, own, split.traffic.structures)):
                assert one is not None, "an idle rank has a stand-in"
                x = batch.x if rank == self._ranks.rank else self._features.read(one.n_id).x
                made = one.block(with_degrees=self._model.needs_degrees, device=device)
                parts.append(Part(made, x.to(device, split.split_weights[0].dtype)))
                self._rows += len(one.n_id)
            return split(parts, blocks[1:], seed=seed)  # type: ignore[no-any-return]

    def finish(self) -> None:
        """Puts the gradients of this rank's columns where they are in the whole weights, among zeros."""
        first, end = self._columns
        for name, own in self._own.items():
            whole = self._model.get_parameter(name)
            whole.grad = torch.zeros_like(whole)
            assert own.grad is not None, "all maps of the input are used"
            whole.grad[:, first:end] = own.grad

    @contextmanager
    def _narrowed(self) -> Iterator[SplitModel]:
        """Has the model compute with this rank's columns of the input layer's maps, as they are now, meanwhile."""
        first, split = self._model.layers[0], self._split
        width, (low, high) = first.in_channels, self._columns
        mapping = {id(weight) for weight in first.input_weights}
        whole = {name: weight for name, weight in self._model.named_parameters() if id(weight) in mapping}
        values = {name: weight.data for name, weight in whole.items()}
        try:
            if split is None:
                self._split = split = SplitModel(self._model, self._ranks, self._columns)
            for name, value in values.items():
                whole[name].data = value
                narrow = value[:, low:high].clone(memory_format=torch.preserve_format)
                self._own[name] = nn.Parameter(narrow)
                self._set(name, self._own[name])
            first.in_channels = high - low
            yield split
        finally:
            first.in_channels = width
            for name, weight in whole.items():
                weight.data = values[name]
                self._set(name, weight)

    def _set(self, name: str, weight: nn.Parameter) -> None:
        where, _, leaf = name.rpartition(".")
        setattr(self._model.get_submodule(where), leaf, weight)

"""`SeedPlan`: the seeds of each mini-batch of a `Loader`, by their places in `input_nodes`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from a3gnn.errors import UsageError
from a3gnn.loader.loader_rules import InputNodes
from a3gnn.pipeline.plan import PlannedBatch, epoch_plan


class SeedPlan:
    """Plans mini-batches by the places of their seeds, so that seeds may be repeated and in any order.

    Args:
        inputs: The seeds.
        batch_size: Seeds per mini-batch.
        seed: Determines the order.
        shuffle: Whether seeds are shuffled anew for every epoch.
        order: Yields each mini-batch's places among the seeds, like torch's `batch_sampler`, and restarts with each
            iteration. None uses the order of `Pipeline.plan`.
    """

    def __init__(
        self, inputs: InputNodes, batch_size: int, seed: int, *, shuffle: bool, order: Iterable[Any] | None
    ) -> None:
        self._inputs = inputs
        self._order = order
        self._epoch = (batch_size, seed, shuffle)

    @property
    def is_given(self) -> bool:
        """Whether the order was given."""
        return self._order is not None

    def places(self, epoch: int) -> list[NDArray[np.int64]]:
        """Returns the places of each mini-batch's seeds.

        Raises:
            UsageError: The caller's order contains an invalid mini-batch; see `checked`.
        """
        if self._order is not None:
            return [self.checked(batch) for batch in self._order]
        size, seed, shuffle = self._epoch
        places = np.arange(len(self._inputs.nodes), dtype=np.int32)
        return [batch.seeds.astype(np.int64) for batch in epoch_plan(places, size, seed, epoch, shuffle=shuffle)]

    def planned(self, places: Iterable[NDArray[np.int64]], first: int = 0) -> list[PlannedBatch]:
        """Returns the mini-batches of the seeds at `places`, numbered from `first`."""
        return [PlannedBatch(index, 0, self._inputs.nodes[batch]) for index, batch in enumerate(places, first)]

    def checked(self, index: Any) -> NDArray[np.int64]:
        """Returns `index`, a mini-batch's places among the seeds, as an array.

        Raises:
            UsageError: It isn't a list of integers, is empty, or is out of range.
        """
        count = len(self._inputs.nodes)
        places = index.cpu().numpy() if isinstance(index, torch.Tensor) else np.asarray(index)
        rule = f"a mini-batch must be a list of places in [0, {count}) among input_nodes, one at least"
        if places.ndim != 1 or not len(places) or not np.issubdtype(places.dtype, np.integer):
            raise UsageError(f"{rule}, got {places.dtype} of shape {places.shape}")
        if int(places.min()) < -count or int(places.max()) >= count:
            raise UsageError(f"{rule}, got {places.min()} to {places.max()}")
        return places.astype(np.int64) % count

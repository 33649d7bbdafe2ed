"""`ResidentPart`: the rows of the part that is being trained, in RAM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from a3gnn.features.caches.tier import Tier

AnyTier = TypeVar("AnyTier", bound=Tier[Any])


class ResidentPart(Generic[AnyTier]):
    """Keeps the rows of one part at a time in RAM, for training that goes part by part.

    Args:
        parts: Each node's part, int32, shape (num_nodes,); None keeps nothing.
        copied: Returns the tier of the given nodes' rows.

    Attributes:
        tier: The current part's rows; None before the first part, and without parts.
    """

    def __init__(self, parts: NDArray[np.int32] | None, copied: Callable[[NDArray[np.int32]], AnyTier]) -> None:
        self.tier: AnyTier | None = None
        self._parts = parts
        self._copied = copied
        self._part = -1

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and the map."""
        return self.tier.nbytes if self.tier else 0

    def enter(self, part: int) -> None:
        """Replaces the rows of the last part by those of `part`."""
        if self._parts is None or part == self._part:
            return
        # The old part is freed first: both at once would be the peak of memory that partitions are meant to lower.
        self.tier = None
        self.tier = self._copied(np.flatnonzero(self._parts == part).astype(np.int32))
        self._part = part

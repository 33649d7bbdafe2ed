"""Which entries are dropped, as a pure function of a key and an entry's place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from a3gnn.seeding import derive

_LEVELS = 1 << 32


@dataclass(frozen=True, slots=True)
class Dropout:
    """Drops entries at a rate and scales the others up; the same entries whenever and on however many threads.

    The same on every CPU; a GPU draws others from the same key.

    Attributes:
        threshold: The rate in units of 2**-32; 0 drops nothing.
        key: Decides which.
    """

    threshold: int
    key: int

    @classmethod
    def of(cls, probability: float, *names: str | int) -> Dropout:
        """Returns the dropout of `probability` for what `names` name, a seed first."""
        threshold = round(probability * _LEVELS)
        return cls(threshold, derive(0, *names) if threshold else 0)

    @property
    def scale(self) -> np.float32:
        """Factor of what is kept."""
        return np.float32(_LEVELS / (_LEVELS - self.threshold))

    @property
    def arguments(self) -> tuple[np.uint32, np.float32, np.uint32, np.uint32]:
        """(threshold, scale, low_key, high_key), as kernels take them."""
        return np.uint32(self.threshold), self.scale, np.uint32(self.key & 0xFFFFFFFF), np.uint32(self.key >> 32)

    def factors(self, like: Tensor) -> Tensor:
        """Returns 0 for what is dropped and `scale` for the rest, of dtype, shape and device of `like`."""
        generator = torch.Generator(like.device).manual_seed(self.key)
        kept = torch.empty_like(like).bernoulli_(1 - self.threshold / _LEVELS, generator=generator)
        return kept.mul_(float(self.scale))

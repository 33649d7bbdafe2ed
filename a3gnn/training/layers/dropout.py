"""Which entries are dropped, as a pure function of a key and an entry's place.

A share of a mini-batch (`a3gnn.sampling.share`) drops what the whole drops: its rows have their places in the whole.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from a3gnn.seeding import derive

_LEVELS = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class Dropout:
    """Drops entries at a rate and scales the others up; the same entries whenever and on however many threads.

    The same on every CPU; a GPU draws others from the same key.

    Attributes:
        threshold: The rate in units of 2**-32; 0 drops nothing.
        key: Decides which.
        places: Each row's place among those of the whole mini-batch, int64; None where they are all of one.
        num_rows: Rows of the whole.
    """

    threshold: int
    key: int
    places: Tensor | None = None
    num_rows: int = 0

    @classmethod
    def of(cls, probability: float, *names: str | int) -> Dropout:
        """Returns the dropout of `probability` for what `names` name, a seed first."""
        threshold = round(probability * _LEVELS)
        return cls(threshold, derive(0, *names) if threshold else 0)

    def at(self, places: Tensor, num_rows: int) -> Dropout:
        """Returns the dropout of rows that are at `places`, int64, among `num_rows`."""
        return dataclasses.replace(self, places=places, num_rows=num_rows) if self.threshold else self

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
        whole = like if self.places is None else like.new_empty(self.num_rows, *like.shape[1:])
        kept = torch.empty_like(whole).bernoulli_(1 - self.threshold / _LEVELS, generator=generator)
        if self.places is not None:
            kept = kept.index_select(0, self.places)
        return kept.mul_(float(self.scale))

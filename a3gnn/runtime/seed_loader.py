"""`SeedLoader`: what torch's `DataLoader` says of a loader whose items are the places of seeds."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from a3gnn.config import TrainConfig
from a3gnn.runtime.loader_rules import Asked


class SeedLoader(DataLoader[Any]):
    """A `DataLoader` whose dataset, sampler, sizes and workers are there to be asked; what it yields is a subclass's.

    Args:
        num_seeds: Items of `dataset`.
        asked: Its order and `drop_last` are used.
        config: Its `batch_size` and workers are used.
    """

    def __init__(self, num_seeds: int, asked: Asked, config: TrainConfig) -> None:
        places: Any = range(num_seeds)
        if asked.batch_sampler is not None:
            super().__init__(places, batch_sampler=asked.batch_sampler)
        else:
            size, shuffle = config.batch_size, asked.shuffle
            super().__init__(places, size, shuffle, sampler=asked.sampler, drop_last=asked.drop_last)
        # Not given to torch, which would count processes.
        self.num_workers = 0 if config.parallel_mode == "sequential" else config.num_workers
        del self.collate_fn  # torch's, which would hide the subclass's

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

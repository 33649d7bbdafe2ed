"""`Preparation`: settings for preparing mini-batches that never change their content."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from a3gnn._fields import from_fields
from a3gnn.config import ParallelMode, TrainConfig
from a3gnn.errors import UsageError


@dataclass(frozen=True, slots=True)
class Preparation:
    """How many threads prepare mini-batches, how far ahead, and how much they cache.

    Attributes:
        mode: See `TrainConfig.parallel_mode`.
        workers: Threads that prepare; 0 in sequential mode.
        depth: Mini-batches under way or waiting while one is trained; at least `workers`.
        cache_bytes: Upper limit of the feature cache.

    Raises:
        UsageError: The numbers contradict each other.
    """

    mode: ParallelMode
    workers: int
    depth: int
    cache_bytes: int

    def __post_init__(self) -> None:
        least = 0 if self.mode == "sequential" else 1
        if self.workers < least or self.depth < self.workers or (not least and self.depth) or self.cache_bytes < 0:
            raise UsageError(
                "workers and depth must be 1 <= workers <= depth, or 0 in sequential mode, and cache_bytes >= 0, "
                f"got {self.workers}, {self.depth} and {self.cache_bytes} in {self.mode}"
            )

    @classmethod
    def of(cls, config: TrainConfig) -> Self:
        """Returns the preparation that `config` requests."""
        workers = 0 if config.parallel_mode == "sequential" else config.num_workers
        return cls(config.parallel_mode, workers, workers, config.cache_bytes)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the preparation from the fields that `to_dict` returned."""
        return from_fields(cls, fields)


def has_free_cache(config: TrainConfig) -> bool:
    """Returns whether the cache's size has no effect on the result of training (no sampling bias towards the cache)."""
    return bool(config.cache_bytes) and config.learning_key() == config.replace(cache_bytes=0).learning_key()

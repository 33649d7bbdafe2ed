"""What a synchronous algorithm decides, so that a configuration can't."""

from __future__ import annotations

from typing import Any

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError

#: Knobs with the value that they must have, and the reason.
_FIXED: tuple[tuple[str, Any, str], ...] = (
    ("num_partitions", 1, "its parts keep the edges between them"),
    ("cache_bytes", 0, "it says itself which rows are in a device's memory"),
    ("seed_order", "random", "seeds are shuffled within each part"),
    ("input_aggregation", "sampled", "a table of whole in-neighbourhoods is no rank's features"),
)


def check_config(config: TrainConfig, algorithm: str) -> None:
    """Does nothing where `config` leaves to the algorithm what that decides.

    Raises:
        UsageError: It does not.
    """
    for name, value, reason in _FIXED:
        found = getattr(config, name)
        if found != value:
            raise UsageError(f"{name} must be {value} with algorithm {algorithm}, got {found}: {reason}")

"""Knobs that a synchronous algorithm fixes, so that a configuration must not set them otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, get_args

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.option_names import option

if TYPE_CHECKING:
    from a3gnn.hitgnn.algorithms.algorithm import Algorithm


AlgorithmName = Literal["distdgl", "pagraph", "p3"]
ALGORITHM_NAMES: tuple[AlgorithmName, ...] = get_args(AlgorithmName)


#: Knobs with their required value, and the reason.
_FIXED: tuple[tuple[str, Any, str], ...] = (
    ("num_partitions", 1, "its parts keep the edges between them"),
    ("cache_bytes", 0, "it says itself which rows are in a device's memory"),
    ("seed_order", "random", "seeds are shuffled within each part"),
    ("input_aggregation", "sampled", "a table of whole in-neighbourhoods is no rank's features"),
)


def check_config(config: TrainConfig, algorithm: Algorithm) -> None:
    """Checks that `config` sets no knob against the algorithm.

    Raises:
        UsageError: A knob has another value than the algorithm requires.
    """
    for name, value, reason in (*_FIXED, *_of(algorithm)):
        found = getattr(config, name)
        if found != value:
            raise UsageError(
                f"{name} must be {value} with algorithm {algorithm.name}, got {found}: {reason}; a tune with "
                f"{option('fix')} {name}={value} chooses such a configuration"
            )


def _of(algorithm: Algorithm) -> Iterator[tuple[str, Any, str]]:
    if algorithm.exchange is not None:
        yield "compute_dtype", "float32", "what ranks exchange is of the weights' type"
    if not algorithm.direct:
        yield "parallel_mode", "sequential", "ranks send each other rows in the order of mini-batches"

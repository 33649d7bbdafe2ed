"""Which knobs and values work over parts, and the reasons for the others."""

from __future__ import annotations

from a3gnn.config import DYNAMIC_POLICIES, TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.task import Task

#: Cache policies that rank rows without the whole adjacency.
POLICIES = ("degree", *DYNAMIC_POLICIES)
#: Knobs with a single allowed value over parts: the value, and the reason.
_FIXED = {
    "num_partitions": (1, "training part by part drops edges between parts, and needs all of them to find which"),
    "bias_rate": (1.0, "servers order each row by what one trainer caches, and serve many"),
    "sampling_device": ("cpu", "rows are sampled where they lie"),
    "feature_tier": ("ram", "servers say where rows lie; over parts the default stands for them"),
    "input_aggregation": ("sampled", "its table has a row per node of the whole graph"),
    "seed_order": ("random", "proximity walks over the whole graph"),
    "trainers": (1, "trainers of one process cut what was sampled, with features at hand"),
}


def check_over_parts(config: TrainConfig, task: Task | None = None) -> None:
    """Checks that `config` can be used over parts, and `task` too if a3gnn trains.

    Raises:
        ConfigError: A value is not available over parts; the message contains an alternative.
    """
    if task is not None and task.is_own:
        raise ConfigError(
            f"the model must be a built-in one over parts, got {task.model}: one of your own is evaluated on the whole "
            "graph; train it in a loop of your own, which Loader serves over parts"
        )
    config = config.canonical()
    for name, (value, why) in _FIXED.items():
        got = getattr(config, name)
        if got != value:
            raise ConfigError(
                f"{name} must be {value} over parts, got {got}: {why}; set it to {value}, or train on a machine that "
                "holds the graph"
            )
    if config.cache_bytes and config.cache_policy not in POLICIES:
        raise ConfigError(
            f"cache_policy must be one of {', '.join(POLICIES)} over parts, got {config.cache_policy}: others rank "
            "rows by the whole adjacency; take degree"
        )

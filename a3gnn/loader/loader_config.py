"""`loader_config`: reads a `Loader`'s configuration and fanouts from the forms that users pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from a3gnn.checks import whole_number
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.tuned_file import tuned_config

#: Knobs that only the trainer applies, and their replacement in a user's own training loop.
_OF_THE_TRAINER = {
    "compute_dtype": "call the model under torch.autocast",
    "input_aggregation": "sampled in-neighbours of the input layer's are in the mini-batches, as of the others'",
    "learning_rate_scale": "multiply the optimiser's learning rate by it, after a warm-up where it is above 1",
    "trainers": "a loop of your own is one trainer, on one device",
}


class HoldsConfig(Protocol):
    """An object with a configuration: a `TunedConfig`, or the result of `tune` or `recommend`."""

    @property
    def config(self) -> TrainConfig:
        """The configuration."""


#: Accepted forms of a configuration; a dict holds its fields, and a path names a tuned.json or its folder.
ConfigLike: TypeAlias = TrainConfig | HoldsConfig | Mapping[str, Any] | str | Path


def loader_config(
    config: ConfigLike | None, batch_size: int | None, num_workers: int | None
) -> tuple[TrainConfig, list[str]]:
    """Returns the configuration of a loader, and a warning for each knob that only the trainer applies.

    `batch_size` and `num_workers` override `config` unless they are None. In-neighbors are sampled for every layer.

    Raises:
        UsageError: A number is out of range.
        ConfigError: The configuration or its file is not valid.
    """
    config = _config(config)
    left = list(_left_to_the_loop(config))
    config = config.replace(input_aggregation="sampled", trainers=1)
    if batch_size is not None:
        config = config.replace(batch_size=whole_number("batch_size", batch_size, 1, "1,024 is the default"))
    if num_workers is None:
        return config, left
    if whole_number("num_workers", num_workers, 0, "0 loads when asked") == 0:
        return config.replace(parallel_mode="sequential"), left
    mode = "mode1" if config.parallel_mode == "sequential" else config.parallel_mode
    return config.replace(parallel_mode=mode, num_workers=int(num_workers)), left


def _left_to_the_loop(config: TrainConfig) -> Iterator[str]:
    default = TrainConfig()
    for name, remedy in _OF_THE_TRAINER.items():
        value = getattr(config, name)
        if value != getattr(default, name):
            yield f"{name} is applied by a3gnn's trainer alone, and config has {value}: {remedy}"


def fanouts_of(num_neighbors: Any) -> tuple[int, ...]:
    """Returns the fanouts, the seeds' hop first.

    Raises:
        UsageError: `num_neighbors` is not a list of integers >= 1 or -1.
    """
    if isinstance(num_neighbors, Mapping):
        raise UsageError(
            "num_neighbors must be a list, one fanout per hop, got one per type of edge; "
            "use PyG's NeighborLoader for heterogeneous graphs"
        )
    if not isinstance(num_neighbors, Sequence) or isinstance(num_neighbors, str) or not num_neighbors:
        raise UsageError(f"num_neighbors must be a list, one fanout per hop, got {num_neighbors!r}; such as [25, 10]")
    whole = all(isinstance(fanout, Integral) and not isinstance(fanout, bool) for fanout in num_neighbors)
    if not whole or any(fanout < 1 and fanout != -1 for fanout in num_neighbors):
        raise UsageError(f"num_neighbors must be integers >= 1, or -1 for all in-neighbours, got {num_neighbors!r}")
    return tuple(map(int, num_neighbors))


def _config(config: ConfigLike | None) -> TrainConfig:
    if config is None or isinstance(config, TrainConfig):
        return config or TrainConfig()
    if isinstance(config, Mapping):
        return TrainConfig.from_dict(config)
    held = None if isinstance(config, type) else getattr(config, "config", None)
    return held if isinstance(held, TrainConfig) else tuned_config(config)

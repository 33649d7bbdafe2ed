"""What is tuned (`TrainConfig`) and what is not (`Task`)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from a3gnn.errors import ConfigError, unknown_name

ParallelMode = Literal["sequential", "mode1", "mode2"]
Device = Literal["cpu", "cuda"]
FeatureTier = Literal["ram", "disk"]
ModelName = Literal["sage", "gcn", "gat", "gin"]

PARALLEL_MODES: tuple[ParallelMode, ...] = ("sequential", "mode1", "mode2")
DEVICES: tuple[Device, ...] = ("cpu", "cuda")
FEATURE_TIERS: tuple[FeatureTier, ...] = ("ram", "disk")
MODELS: tuple[ModelName, ...] = ("sage", "gcn", "gat", "gin")

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """One point of the design space (A3GNN, Table I); the defaults are what a PyG user has without tuning.

    Attributes:
        batch_size: Seeds a mini-batch.
        num_partitions: METIS parts that are trained one after the other; edges between parts are not seen.
        bias_rate: Weight of a cached neighbour against an uncached one, >= 1; 1 samples uniformly.
        sampling_device: Where neighbours are sampled: cpu or cuda.
        num_workers: Worker threads of mode 1 and mode 2.
        cache_bytes: Bytes for rows of the hottest nodes, in the fastest memory: the device's, or RAM without one.
        parallel_mode: sequential; mode1 (workers sample and gather); mode2 (workers only sample).
        feature_tier: Where uncached features live: ram or disk.
        schema_version: Version of these fields.

    Raises:
        ConfigError: A value breaks its law.
    """

    batch_size: int = 1024
    num_partitions: int = 1
    bias_rate: float = 1.0
    sampling_device: Device = "cpu"
    num_workers: int = 1
    cache_bytes: int = 0
    parallel_mode: ParallelMode = "sequential"
    feature_tier: FeatureTier = "ram"
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        _check_int("batch_size", self.batch_size, 1, "1,024 is the default")
        _check_int("num_partitions", self.num_partitions, 1, "1 trains on the whole graph")
        _check_int("num_workers", self.num_workers, 1, "sequential mode ignores it")
        _check_int("cache_bytes", self.cache_bytes, 0, "0 turns the cache off")
        if not (math.isfinite(self.bias_rate) and self.bias_rate >= 1):
            raise ConfigError(f"bias_rate must be finite and >= 1, got {self.bias_rate}; 1 samples uniformly")
        _check_choice("sampling_device", self.sampling_device, DEVICES)
        _check_choice("parallel_mode", self.parallel_mode, PARALLEL_MODES)
        _check_choice("feature_tier", self.feature_tier, FEATURE_TIERS)
        _check_version("TrainConfig", self.schema_version)

    def canonical(self) -> Self:
        """Returns the one configuration that stands for all that run identically to this one.

        Sequential mode has no workers, and without a cache there is nothing to bias towards.
        """
        return dataclasses.replace(
            self,
            num_workers=1 if self.parallel_mode == "sequential" else self.num_workers,
            bias_rate=1.0 if self.cache_bytes == 0 else float(self.bias_rate),
        )

    def learning_key(self) -> tuple[int, int, float, int, str]:
        """Returns what decides the mini-batches' content: equal keys train bit-identically on one task.

        Modes, workers and tiers change when and whence a batch comes, never what is in it.
        """
        same = self.canonical()
        cache = same.cache_bytes if same.bias_rate > 1 else 0
        return (same.batch_size, same.num_partitions, same.bias_rate, cache, same.sampling_device)

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with `changes`; unknown names are refused."""
        _check_names("TrainConfig", changes, {f.name for f in dataclasses.fields(self)})
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the configuration of `to_dict`; unknown fields and other schema versions are refused."""
        _check_names("TrainConfig", fields, {f.name for f in dataclasses.fields(cls)})
        return cls(**fields)

    def key(self) -> str:
        """Returns a short stable hash of the canonical configuration."""
        return _hash(self.canonical().to_dict())


@dataclass(frozen=True, slots=True)
class Task:
    """What is trained, which tuning does not change.

    Attributes:
        model: sage, gcn, gat or gin.
        hidden_channels: Width of the hidden layers.
        fanouts: In-neighbours sampled a node, seeds' hop first; its length is the number of layers. -1 takes all.
        dropout: Probability of dropping an activation between layers.
        learning_rate: Adam's step size.
        weight_decay: Adam's L2 penalty.
        heads: Attention heads (gat only).
        precision: fp32.
        seed: Decides initial weights, seed order, neighbours and dropout.
        schema_version: Version of these fields.
    """

    model: ModelName = "sage"
    hidden_channels: int = 256
    fanouts: tuple[int, ...] = (25, 10)
    dropout: float = 0.5
    learning_rate: float = 0.003
    weight_decay: float = 0.0
    heads: int = 4
    precision: Literal["fp32"] = "fp32"
    seed: int = 0
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        _check_choice("model", self.model, MODELS)
        _check_int("hidden_channels", self.hidden_channels, 1, "256 is the default")
        _check_int("heads", self.heads, 1, "4 is the default")
        if self.model == "gat" and self.hidden_channels % self.heads:
            raise ConfigError(
                f"hidden_channels must be a multiple of heads, got {self.hidden_channels} and {self.heads}"
            )
        object.__setattr__(self, "fanouts", tuple(self.fanouts))
        if not self.fanouts or any(
            isinstance(k, bool) or not isinstance(k, int) or (k < 1 and k != -1) for k in self.fanouts
        ):
            raise ConfigError(f"fanouts must be positive integers (or -1 for all), one a layer, got {self.fanouts}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout must be in [0, 1), got {self.dropout}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ConfigError(f"learning_rate must be positive, got {self.learning_rate}")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ConfigError(f"weight_decay must be >= 0, got {self.weight_decay}")
        _check_choice("precision", self.precision, ("fp32",))
        _check_int("seed", self.seed, 0, "any non-negative integer does")
        _check_version("Task", self.schema_version)

    @property
    def num_layers(self) -> int:
        """Layers of the model: one a hop."""
        return len(self.fanouts)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON types."""
        return dataclasses.asdict(self) | {"fanouts": list(self.fanouts)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the task of `to_dict`; unknown fields and other schema versions are refused."""
        _check_names("Task", fields, {f.name for f in dataclasses.fields(cls)})
        return cls(**{**fields, "fanouts": tuple(fields["fanouts"])} if "fanouts" in fields else fields)

    def key(self) -> str:
        """Returns a short stable hash of the task."""
        return _hash(self.to_dict())


def _check_int(name: str, value: Any, least: int, remedy: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be an integer >= {least}, got {value!r}; {remedy}")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(str(unknown_name(name, value, choices)))


def _check_version(name: str, version: Any) -> None:
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"{name}.schema_version must be {SCHEMA_VERSION}, got {version!r}; tune again with this version of a3gnn"
        )


def _check_names(kind: str, fields: Mapping[str, Any], known: set[str]) -> None:
    for name in fields:
        if name not in known:
            raise ConfigError(str(unknown_name(f"a field of {kind}", name, known)))


def _hash(fields: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(fields, sort_keys=True).encode(), digest_size=8).hexdigest()

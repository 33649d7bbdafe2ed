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
CachePolicy = Literal["degree", "access", "presample", "fifo", "lru", "lfu", "clock", "auto"]
SeedOrder = Literal["random", "proximity"]
Partitioner = Literal["metis", "random", "blocks"]
Resources = Literal["free", "auto"]
ModelName = Literal["sage", "gcn", "gat", "gin"]

PARALLEL_MODES: tuple[ParallelMode, ...] = ("sequential", "mode1", "mode2")
DEVICES: tuple[Device, ...] = ("cpu", "cuda")
FEATURE_TIERS: tuple[FeatureTier, ...] = ("ram", "disk")
STATIC_POLICIES: tuple[CachePolicy, ...] = ("degree", "access", "presample")
DYNAMIC_POLICIES: tuple[CachePolicy, ...] = ("fifo", "lru", "lfu", "clock")
CACHE_POLICIES: tuple[CachePolicy, ...] = (*STATIC_POLICIES, *DYNAMIC_POLICIES, "auto")
SEED_ORDERS: tuple[SeedOrder, ...] = ("random", "proximity")
PARTITIONERS: tuple[Partitioner, ...] = ("metis", "random", "blocks")
RESOURCES: tuple[Resources, ...] = ("free", "auto")
MODELS: tuple[ModelName, ...] = ("sage", "gcn", "gat", "gin")

SCHEMA_VERSION = 1
# Fields that came later than the first stored profiles: at their defaults they are left out of `TrainConfig.key`, so
# that keys which were stored before still name the same configuration.
_LATER_FIELDS = ("cache_policy", "seed_order", "partitioner", "resources")


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """One point of the design space (A3GNN, Table I; BGL, section 3); the defaults are what a PyG user has untuned.

    Attributes:
        batch_size: Seeds a mini-batch.
        num_partitions: Parts that are trained one after the other; edges between parts are not seen.
        bias_rate: Weight of a cached neighbour against an uncached one, >= 1; 1 samples uniformly.
        sampling_device: Where neighbours are sampled: cpu or cuda.
        num_workers: Worker threads of mode 1 and mode 2.
        cache_bytes: Bytes for rows of the hottest nodes, in the fastest memory: the device's, or RAM without one.
        parallel_mode: sequential; mode1 (workers sample and gather); mode2 (workers only sample).
        feature_tier: Where uncached features live: ram or disk.
        cache_policy: Which rows the cache holds. Static, chosen before training: degree, access (expected by the
            sampler's law), presample (counted). Dynamic, replaced while training: fifo, lru, lfu, clock. Or auto:
            whichever a short measured presample finds best. Only a static one can be sampled towards.
        seed_order: random, or proximity: seeds that lie close in the graph come in mini-batches that lie close.
        partitioner: metis, random, or blocks (BGL's, for graphs that METIS can't hold).
        resources: free (stages compete for the cores) or auto (each gets its share by a measured model).
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
    cache_policy: CachePolicy = "degree"
    seed_order: SeedOrder = "random"
    partitioner: Partitioner = "metis"
    resources: Resources = "free"
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
        _check_choice("cache_policy", self.cache_policy, CACHE_POLICIES)
        _check_choice("seed_order", self.seed_order, SEED_ORDERS)
        _check_choice("partitioner", self.partitioner, PARTITIONERS)
        _check_choice("resources", self.resources, RESOURCES)
        _check_version("TrainConfig", self.schema_version)

    def canonical(self) -> Self:
        """Returns the one configuration that stands for all that run identically to this one.

        Sequential mode has no workers and no stages that compete; without a cache there is nothing to bias towards, nor
        is there in one that changes while mini-batches are sampled; one part needs no partitioner.
        """
        sequential, cacheless = self.parallel_mode == "sequential", self.cache_bytes == 0
        biased = not cacheless and self.cache_policy in STATIC_POLICIES
        return dataclasses.replace(
            self,
            num_workers=1 if sequential else self.num_workers,
            bias_rate=float(self.bias_rate) if biased else 1.0,
            cache_policy="degree" if cacheless else self.cache_policy,
            partitioner="metis" if self.num_partitions == 1 else self.partitioner,
            resources="free" if sequential else self.resources,
        )

    def learning_key(self) -> tuple[tuple[str, Any], ...]:
        """Returns what decides the mini-batches' content as pairs: equal keys train bit-identically on one task.

        Modes, workers, tiers and resources change when and whence a batch comes, never what is in it.
        """
        same = self.canonical()
        key: dict[str, Any] = {
            "batch_size": same.batch_size,
            "num_partitions": same.num_partitions,
            "bias_rate": same.bias_rate,
            "cache_bytes": same.cache_bytes if same.bias_rate > 1 else 0,
            "sampling_device": same.sampling_device,
        }
        later: dict[str, str] = {"seed_order": same.seed_order, "partitioner": same.partitioner}
        later["cache_policy"] = same.cache_policy if same.bias_rate > 1 else "degree"
        return tuple((key | _changed(later)).items())

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
        fields = self.canonical().to_dict()
        return _hash({name: fields[name] for name in fields if name not in _LATER_FIELDS} | _changed(fields))


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


def _changed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of the later fields of `TrainConfig` among `fields` that are not at their defaults."""
    defaults = {field.name: field.default for field in dataclasses.fields(TrainConfig)}
    return {name: fields[name] for name in _LATER_FIELDS if name in fields and fields[name] != defaults[name]}


def _hash(fields: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(fields, sort_keys=True).encode(), digest_size=8).hexdigest()

"""The arguments of a `Loader`: reads the forms that users pass, and checks which can be combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from a3gnn.checks import whole_number
from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.edges import Edges
from a3gnn.graphs.schema import Relation, Schema
from a3gnn.loader.pyg_attributes import DataAttributes, GraphAttributes
from a3gnn.loader.pyg_source import Source
from a3gnn.loader.seeds import InputNodes
from a3gnn.pipeline.pyg_edges import SubgraphType
from a3gnn.sampling.sampler import Fanout
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.tuned_file import tuned_config


class HoldsConfig(Protocol):
    """An object with a configuration: a `TunedConfig`, or the result of `tune` or `recommend`."""

    @property
    def config(self) -> TrainConfig:
        """The configuration."""


#: Accepted forms of a configuration; a dict holds its fields, and a path names a tuned.json or its folder.
ConfigLike: TypeAlias = TrainConfig | HoldsConfig | Mapping[str, Any] | str | Path


class LoaderConfig(NamedTuple):
    """The configuration of a loader."""

    config: TrainConfig
    task: Task | None = None  # the task that it was tuned for; None if it is unknown


def loader_config(config: ConfigLike | None, batch_size: int | None, num_workers: int | None) -> LoaderConfig:
    """Returns the configuration of a loader.

    `batch_size` and `num_workers` override `config` unless they are None.

    Raises:
        UsageError: A number is out of range, or the configuration has several trainers.
        ConfigError: The configuration or its file is not valid.
    """
    config, task = _held(config)
    if config.trainers > 1:
        raise UsageError(
            f"trainers must be 1 in your own loop, which is one trainer, got {config.trainers}; train with a3gnn "
            "train, or tune with fix={'trainers': 1}"
        )
    if batch_size is not None:
        config = config.replace(batch_size=whole_number("batch_size", batch_size, 1, "1,024 is the default"))
    if num_workers is None:
        return LoaderConfig(config, task)
    if whole_number("num_workers", num_workers, 0, "0 loads each mini-batch on request") == 0:
        return LoaderConfig(config.replace(parallel_mode="sequential"), task)
    mode = "mode1" if config.parallel_mode == "sequential" else config.parallel_mode
    return LoaderConfig(config.replace(parallel_mode=mode, num_workers=int(num_workers)), task)


def fanouts_of(num_neighbors: Any, schema: Schema) -> tuple[Fanout, ...]:
    """Returns the fanouts of each hop, the seeds' first: a number, or one for each of the schema's relations.

    Raises:
        UsageError: `num_neighbors` is not a list of integers >= 1 or -1, nor a mapping from every relation to such a
            list; or the lists differ in length. Where there are types, 0 samples nothing.
    """
    if not isinstance(num_neighbors, Mapping):
        hops = _hops(num_neighbors, "num_neighbors", 1 if schema.is_untyped else 0)
        return tuple(fanout or (0,) * len(schema.relations) for fanout in hops)
    if schema.is_untyped:
        raise UsageError("num_neighbors must be a list where there are no types, got one list per type of edge")
    given = {relation_of(key, schema): value for key, value in num_neighbors.items()}
    missing = [relation for relation in schema.relations if relation not in given]
    if missing:
        raise UsageError(f"num_neighbors must have a list for every relation, {'__'.join(missing[0])} has none")
    lists = [_hops(given[one], f"num_neighbors of {'__'.join(one)}", 0, some=False) for one in schema.relations]
    if len({len(one) for one in lists}) > 1:
        raise UsageError(f"the number of hops must be the same across all relations, got {sorted(map(len, lists))}")
    return tuple(zip(*lists, strict=True))


def relation_of(key: Any, schema: Schema) -> Relation:
    """Returns the relation with PyG's `key`: a triple, a pair of types, or text such as a__to__b.

    Raises:
        UsageError: There is no such relation, or several.
    """
    parts = tuple(key.split("__")) if isinstance(key, str) else tuple(key)
    match = [one for one in schema.relations if parts in (tuple(one), (one.source, one.target), (one.name,))]
    if len(match) == 1:
        return match[0]
    known = ", ".join("__".join(one) for one in schema.relations)
    raise UsageError(f"a relation must be one of {known}, got {key!r}" + ("; give all three names" if match else ""))


def _hops(fanouts: Any, name: str, least: int, *, some: bool = True) -> tuple[int, ...]:
    if not isinstance(fanouts, Sequence) or isinstance(fanouts, str) or (some and not fanouts):
        raise UsageError(f"{name} must be a list, one fanout per hop, got {fanouts!r}; such as [25, 10]")
    whole = all(isinstance(fanout, Integral) and not isinstance(fanout, bool) for fanout in fanouts)
    if not whole or any(fanout < least and fanout != -1 for fanout in fanouts):
        raise UsageError(f"{name} must be integers >= {least}, or -1 for all in-neighbors, got {fanouts!r}")
    return tuple(map(int, fanouts))


def scaled(fanouts: Sequence[Fanout], config: TrainConfig) -> tuple[Fanout, ...]:
    """Returns the fanouts by the configuration's knobs, which override those of all relations alike."""
    knobs = (config.seed_fanout, *[config.deep_fanout] * len(fanouts))
    return tuple(fanout if knob is None else knob for fanout, knob in zip(fanouts, knobs, strict=False))


def _held(config: ConfigLike | None) -> LoaderConfig:
    """Returns the configuration in `config`, and the task that it was tuned for."""
    if config is None or isinstance(config, TrainConfig):
        return LoaderConfig(config or TrainConfig())
    if isinstance(config, LoaderConfig):
        return config
    if isinstance(config, Mapping):
        return LoaderConfig(TrainConfig.from_dict(config))
    held = None if isinstance(config, type) else getattr(config, "config", None)
    if not isinstance(held, TrainConfig):
        return LoaderConfig(*tuned_config(config))
    holder = config if hasattr(config, "setting") else getattr(config, "tuned", None)
    setting = getattr(holder, "setting", None)
    return LoaderConfig(held, held.task_of(setting.task) if isinstance(setting, Setting) else None)


class LoaderArguments(NamedTuple):
    """The arguments of a `Loader` that can conflict with others or with knobs; see `Loader` for each."""

    replace: bool
    disjoint: bool
    subgraph_type: SubgraphType
    weight_attr: str | None
    adjs: bool
    shuffle: bool
    drop_last: bool
    sampler: Any
    batch_sampler: Any
    share: tuple[int, int] | None = None


def check_together(asked: LoaderArguments, config: TrainConfig, batch_size: int | None) -> None:
    """Checks that the arguments conflict neither with each other nor with the configuration's knobs.

    Raises:
        UsageError: Two of them conflict.
    """
    if asked.share is not None:
        _check_share(asked)
    given = [name for name in ("sampler", "batch_sampler") if getattr(asked, name) is not None]
    if len(given) == 2 or (given and asked.shuffle):
        raise UsageError(f"{given[0]} must be left out with another order: give one of shuffle, sampler, batch_sampler")
    if asked.batch_sampler is not None and (batch_size is not None or asked.drop_last):
        raise UsageError("batch_sampler must be left out with batch_size or drop_last, because it decides both")
    if asked.adjs and asked.subgraph_type != "directional":
        raise UsageError(
            f"adjs needs subgraph_type='directional', got {asked.subgraph_type!r}: other edges belong to no layer"
        )
    if asked.disjoint and asked.subgraph_type == "induced":
        raise UsageError("disjoint needs subgraph_type directional or bidirectional, got 'induced', as in PyG")
    if config.num_partitions > 1 and (asked.drop_last or given):
        name = given[0] if given else "drop_last"
        raise UsageError(
            f"{name} needs num_partitions=1, got {config.num_partitions}: each partition has its own last mini-batch"
        )
    if config.seed_order != "random" and given:
        raise UsageError(
            f"{given[0]} needs seed_order 'random', got {config.seed_order!r}: both order the seeds; leave one out"
        )


def edges_of(source: Source, asked: LoaderArguments, config: TrainConfig, inputs: InputNodes) -> Edges | None:
    """Returns the edges to sample instead of the source's graph, or None if the graph is enough.

    Raises:
        UsageError: The configuration's knobs don't support the source or an argument about its edges.
    """
    _check_features(source, config)
    repeated = not inputs.are_distinct
    if repeated and (config.num_partitions > 1 or config.seed_order != "random"):
        raise UsageError(
            f"input_nodes must be distinct with partitions or a seed_order, got {len(inputs.nodes)} with repeats"
        )
    needs = {
        "node types": not source.schema.is_untyped,
        "times": source.edges.times is not None,
        "replace": asked.replace,
        "disjoint": asked.disjoint,
        "weight_attr": asked.weight_attr is not None,
        f"subgraph_type {asked.subgraph_type}": asked.subgraph_type == "induced",
        "input_nodes that are repeated": repeated,
        "sampler": asked.sampler is not None or asked.batch_sampler is not None,
    }
    given = source.attributes
    of_edges = given.of_edges if isinstance(given, DataAttributes | GraphAttributes) else []
    if config.sampling_device == "cpu":
        return source.edges if source.has_edge_ids or of_edges or any(needs.values()) else None
    needs["edges that occur more than once"] = len(source.edges.indices) > source.graph.num_edges
    needs[f"attributes of edges ({', '.join(of_edges)})"] = bool(of_edges)
    for name in (name for name, needed in needs.items() if needed):
        raise UsageError(
            f"sampling_device must be cpu for {name}, got {config.sampling_device}, which does not track edge ids"
        )
    return None


def check_typed(source: Source, asked: LoaderArguments, config: TrainConfig) -> None:
    """Checks that no argument or knob needs a graph without types and times if `source` has either.

    Raises:
        UsageError: One does.
    """
    if source.schema.is_untyped and source.edges.times is None:
        return
    values = {
        "adjs": (asked.adjs, False),
        "cache_policy": (config.cache_policy, "degree"),
        "seed_order": (config.seed_order, "random"),
        "num_partitions": (config.num_partitions, 1),
        "input_aggregation": (config.input_aggregation, "sampled"),
    }
    for name, (value, only) in values.items():
        if value != only:
            raise UsageError(f"{name} must be {only!r} for a graph with types or times, got {value!r}; leave it out")


def _check_share(asked: LoaderArguments) -> None:
    """Checks that all ranks cut the same mini-batches, and that a share loses no edges of its mini-batch."""
    whole = isinstance(asked.share, tuple) and [type(number) for number in asked.share] == [int, int]
    if not whole:
        raise UsageError(f"share must be (rank, ranks), two integers, or None, got {asked.share!r}")
    if asked.subgraph_type != "directional":
        raise UsageError(
            f"share needs subgraph_type='directional', got {asked.subgraph_type!r}, which would lose edges between "
            "nodes of different shares"
        )
    for name in ("sampler", "batch_sampler"):
        if getattr(asked, name) is not None:
            raise UsageError(
                f"share needs the same order in every process, got a {name}; use shuffle=True with the same seed in "
                "all processes"
            )


def _check_features(source: Source, config: TrainConfig) -> None:
    knobs = {"cache_bytes": 0, "feature_tier": "ram", "feature_dtype": "float32", "num_partitions": 1}
    for name, idle in knobs.items():
        if not source.reads_x and getattr(config, name) != idle:
            raise UsageError(
                f"{name} must be {idle} here, got {getattr(config, name)}: other values need a dense, finite, "
                "2-dimensional x of float32 or float16 in host memory"
            )

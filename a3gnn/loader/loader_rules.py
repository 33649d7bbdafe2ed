"""What of a `Loader`'s arguments goes together with what, and with which knobs."""

from __future__ import annotations

from typing import Any, NamedTuple

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.loader.input_nodes import InputNodes
from a3gnn.loader.pyg_attributes import DataAttributes
from a3gnn.loader.pyg_edges import SubgraphType
from a3gnn.loader.pyg_source import Source
from a3gnn.pipeline.pipeline import EdgeSampling


class Asked(NamedTuple):
    """What a `Loader` is asked for that other arguments or knobs may stand against; as its arguments of these names."""

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


def check_together(asked: Asked, config: TrainConfig, batch_size: int | None) -> None:
    """Checks that arguments ask for nothing that other ones, or the configuration's knobs, rule out.

    Raises:
        UsageError: They do.
    """
    if asked.share is not None:
        _check_share(asked)
    given = [name for name in ("sampler", "batch_sampler") if getattr(asked, name) is not None]
    if len(given) == 2 or (given and asked.shuffle):
        raise UsageError(f"{given[0]} must be left out with another order: give one of shuffle, sampler, batch_sampler")
    if asked.batch_sampler is not None and (batch_size is not None or asked.drop_last):
        raise UsageError("batch_sampler must be left out with batch_size or drop_last: it says what they would")
    if asked.adjs and asked.subgraph_type != "directional":
        raise UsageError(
            f"adjs needs subgraph_type='directional', got {asked.subgraph_type!r}: other edges belong to no layer"
        )
    if asked.disjoint and asked.subgraph_type == "induced":
        raise UsageError("disjoint needs subgraph_type directional or bidirectional, got 'induced', as in PyG")
    if config.num_partitions > 1 and (asked.drop_last or given):
        name = given[0] if given else "drop_last"
        raise UsageError(f"{name} needs num_partitions=1, got {config.num_partitions}: each part has a last one")
    if config.seed_order != "random" and given:
        raise UsageError(
            f"{given[0]} orders the seeds, got seed_order {config.seed_order!r}, which does as well; drop one"
        )


def _check_share(asked: Asked) -> None:
    """Checks that shares of mini-batches are what each rank would have of the whole, and of the same whole."""
    whole = isinstance(asked.share, tuple) and [type(number) for number in asked.share] == [int, int]
    if not whole:
        raise UsageError(f"share must be (rank, ranks), two integers, or None, got {asked.share!r}")
    if asked.subgraph_type != "directional":
        raise UsageError(
            f"share needs subgraph_type='directional', got {asked.subgraph_type!r}, whose edges between nodes of "
            "different shares would be lost"
        )
    for name in ("sampler", "batch_sampler"):
        if getattr(asked, name) is not None:
            raise UsageError(
                f"share needs an order that is the same in every process, got a {name}; use shuffle=True, whose order "
                "the seed decides, with one seed for all"
            )


def sampling_of(source: Source, asked: Asked, config: TrainConfig, inputs: InputNodes) -> EdgeSampling | None:
    """Returns what is to be sampled in place of the source's graph; None where that does.

    Raises:
        UsageError: Knobs of the configuration can't serve the source or what is asked of its edges.
    """
    _check_features(source, config)
    repeated = not inputs.are_distinct
    if repeated and (config.num_partitions > 1 or config.seed_order != "random"):
        raise UsageError(
            f"input_nodes must be distinct with partitions or a seed_order, got {len(inputs.nodes)} with repeats"
        )
    needs = {
        "replace": asked.replace,
        "disjoint": asked.disjoint,
        "weight_attr": asked.weight_attr is not None,
        f"subgraph_type {asked.subgraph_type}": asked.subgraph_type == "induced",
        "input_nodes that are repeated": repeated,
        "sampler": asked.sampler is not None or asked.batch_sampler is not None,
    }
    sampling = EdgeSampling(source.edges, asked.replace, asked.disjoint)
    if config.sampling_device == "cpu":
        return sampling if source.has_edge_ids or any(needs.values()) else None
    of_edges = source.attributes.of_edges if isinstance(source.attributes, DataAttributes) else []
    needs["edges that occur more than once"] = len(source.edges.indices) > source.graph.num_edges
    needs[f"attributes of edges ({', '.join(of_edges)})"] = bool(of_edges)
    for name in (name for name, needed in needs.items() if needed):
        raise UsageError(
            f"sampling_device must be cpu for {name}, got {config.sampling_device}, which knows no edges' ids"
        )
    return None


def _check_features(source: Source, config: TrainConfig) -> None:
    knobs = {"cache_bytes": 0, "feature_tier": "ram", "feature_dtype": "float32", "num_partitions": 1}
    for name, idle in knobs.items():
        if not source.reads_x and getattr(config, name) != idle:
            raise UsageError(
                f"{name} must be {idle} here, got {getattr(config, name)}: it needs x that is dense, finite float32 "
                "or float16 of two dimensions in the host's memory"
            )

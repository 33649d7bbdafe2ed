"""Knobs that can't be had over parts are refused by name, with the value and the remedy; the others are not."""

from typing import Any

import pytest

from a3gnn.config import KNOBS, TrainConfig
from a3gnn.errors import ConfigError
from a3gnn.parts.graph import POLICIES, PartedGraph, check_over_parts
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions

REFUSED: list[dict[str, Any]] = [
    {"num_partitions": 2},
    {"bias_rate": 2.0, "cache_bytes": 10_000},
    {"sampling_device": "cuda"},
    {"feature_tier": "disk"},
    {"input_aggregation": "full"},
    {"seed_order": "proximity"},
    {"cache_policy": "access", "cache_bytes": 10_000},
    {"trainers": 2},
]
TAKEN: list[dict[str, Any]] = [
    {"batch_size": 64},
    {"num_workers": 2, "parallel_mode": "mode1"},
    {"num_workers": 2, "parallel_mode": "mode2"},
    *({"cache_bytes": 10_000, "cache_policy": policy} for policy in POLICIES),
    {"cache_policy": "access"},  # without a cache it does nothing
    {"resources": "auto"},
    {"seed_fanout": 5, "deep_fanout": 3},
    {"compute_dtype": "bfloat16"},
    {"feature_dtype": "float16"},
    {"learning_rate_scale": 2.0},
    {"partitioner": "blocks"},
    {"prefetch_depth": 1},
    {"adapt": "on"},
]


@pytest.mark.parametrize("fields", REFUSED, ids=str)
def test_a_knob_that_needs_the_whole_graph_is_refused(parted: PartedGraph, fields: dict[str, Any]) -> None:
    name, value = next(iter(fields.items()))
    with pytest.raises(ConfigError, match=f"{name} must be .* over parts, got {value}, because .*; "):
        check_over_parts(TrainConfig(**fields))
    if name != "sampling_device":  # which needs a GPU first
        with pytest.raises(ConfigError, match=f"{name} must be"):
            Pipeline(parted, TrainConfig(**fields), (3, 3), PipelineOptions(seed=0))


@pytest.mark.parametrize("fields", TAKEN, ids=str)
def test_the_other_knobs_are_taken(fields: dict[str, Any]) -> None:
    check_over_parts(TrainConfig(**fields))


def test_every_knob_is_either() -> None:
    named = {name for fields in (*REFUSED, *TAKEN) for name in fields}
    assert named == {knob.name for knob in KNOBS}

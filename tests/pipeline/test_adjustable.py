"""`AdjustablePipeline`: mini-batches stay the same, bit for bit, whatever the cache's size becomes, and whenever."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.training.adapting.trainer import AdjustablePipeline
from tests.pipeline.batches import content

FANOUTS = (4, 3)
CACHE = 60_000
CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "workers": {"parallel_mode": "mode1", "num_workers": 2},
    "static cache": {"cache_bytes": CACHE},
    "cache by access": {"cache_bytes": CACHE, "cache_policy": "access", "parallel_mode": "mode2"},
    "dynamic cache": {"cache_bytes": CACHE, "cache_policy": "clock", "feature_tier": "disk"},
    "partitions": {"num_partitions": 3, "cache_bytes": CACHE},
    "biased": {"cache_bytes": CACHE, "bias_rate": 4.0},
}


def without_hits(batch: Any) -> tuple[Any, ...]:
    found = content(batch)
    return (*found[:2], *found[3:])


def opened(kind: type[Pipeline], graph: Graph, config: TrainConfig) -> Any:
    return kind(graph, config, FANOUTS, PipelineOptions(seed=3))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CONFIGS)
def test_any_sequence_of_sizes_gives_the_same_mini_batches(name, seed, small_graph):
    config = TrainConfig(batch_size=40, **CONFIGS[name])
    with opened(Pipeline, small_graph, config) as plain:
        expected = [without_hits(batch) for epoch in range(2) for batch in plain.epoch(epoch)]
    rng, seen = np.random.default_rng(seed), set()
    with opened(AdjustablePipeline, small_graph, config) as pipeline:
        assert pipeline.can_resize == ("cache" in name or name == "partitions")
        found = []
        for epoch in range(2):
            for batch in pipeline.epoch(epoch):
                seen.add(pipeline.active_bytes)
                found.append(without_hits(batch))
                if pipeline.can_resize and rng.random() < 0.4:
                    pipeline.cache_bytes = int(rng.integers(0, CACHE + 1))
    assert found == expected
    assert len(seen) >= (3 if pipeline.can_resize else 1)
    assert not [one for one in threading.enumerate() if one.name.startswith("a3gnn-worker")]


def test_mini_batches_under_way_are_given_before_the_cache_changes(small_graph):
    config = TrainConfig(batch_size=40, parallel_mode="mode1", num_workers=2, cache_bytes=CACHE)
    with opened(AdjustablePipeline, small_graph, config) as pipeline:
        active = []
        for batch in pipeline.epoch(0):
            if batch.index == 3:
                pipeline.cache_bytes = 0
            active.append(pipeline.active_bytes)
    changed = active.index(0)
    assert 4 <= changed <= 6
    assert set(active[changed:]) == {0}
    assert len(active) == pipeline.num_batches


def test_a_cache_that_shrinks_holds_less_and_serves_less(small_graph):
    config = TrainConfig(batch_size=40, cache_bytes=CACHE, feature_tier="disk")
    with opened(AdjustablePipeline, small_graph, config) as pipeline:
        before = sum(batch.hits for batch in pipeline.epoch(0))
        took = pipeline.store.cache_bytes
        pipeline.cache_bytes = CACHE // 3
        assert 0 < sum(batch.hits for batch in pipeline.epoch(0)) < before
        assert pipeline.store.cache_bytes <= CACHE // 3 < took <= CACHE
        pipeline.cache_bytes = 0
        assert not sum(batch.hits for batch in pipeline.epoch(0))
        assert not pipeline.store.cache_bytes
        pipeline.cache_bytes = CACHE
        assert sum(batch.hits for batch in pipeline.epoch(0)) == before


def test_a_cache_that_is_sampled_towards_keeps_its_volume(small_graph):
    config = TrainConfig(batch_size=40, cache_bytes=CACHE, bias_rate=4.0)
    with opened(AdjustablePipeline, small_graph, config) as pipeline:
        pipeline.cache_bytes = 0
        with pytest.raises(UsageError, match=f"cache_bytes must stay {CACHE}, got 0, because sampling prefers"):
            list(pipeline.epoch(0))


def test_stages_with_cores_of_their_own_cannot_change(small_graph):
    config = TrainConfig(batch_size=40, parallel_mode="mode1", resources="auto")
    with pytest.raises(UsageError, match="resources must be free with adapt, got 'auto'"):
        opened(AdjustablePipeline, small_graph, config)

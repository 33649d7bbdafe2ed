"""`AdjustablePipeline`: mini-batches stay the same, bit for bit, whatever their preparation becomes, and whenever."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.pipeline.adjustable import AdjustablePipeline
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions
from a3gnn.pipeline.preparation import Preparation
from tests.pipeline.batches import content
from tests.training.adapting.controllers import drawn

FANOUTS = (4, 3)
CACHE = 60_000
CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "workers": {"parallel_mode": "mode1", "num_workers": 2},
    "static cache": {"cache_bytes": CACHE},
    "presampled cache": {"cache_bytes": CACHE, "cache_policy": "presample", "parallel_mode": "mode2"},
    "dynamic cache": {"cache_bytes": CACHE, "cache_policy": "lru", "feature_tier": "disk"},
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
def test_any_sequence_of_preparations_gives_the_same_mini_batches(name, seed, small_graph):
    config = TrainConfig(batch_size=40, **CONFIGS[name])
    with opened(Pipeline, small_graph, config) as plain:
        expected = [without_hits(batch) for epoch in range(2) for batch in plain.epoch(epoch)]
    rng, seen = np.random.default_rng(seed), set()
    with opened(AdjustablePipeline, small_graph, config) as pipeline:
        most_bytes = CACHE if pipeline.can_resize else 0
        assert pipeline.can_resize == ("cache" in name or name == "partitions")
        found = []
        for epoch in range(2):
            for batch in pipeline.epoch(epoch):
                seen.add(pipeline.active)
                found.append(without_hits(batch))
                if rng.random() < 0.4:
                    wanted = drawn(rng, most_bytes)
                    kept = wanted if pipeline.can_resize else replace(wanted, cache_bytes=config.cache_bytes)
                    pipeline.preparation = kept
    assert found == expected
    assert len(seen) >= 3
    assert not [one for one in threading.enumerate() if one.name.startswith("a3gnn-worker")]


def test_mini_batches_under_way_are_given_before_another_preparation_begins(small_graph):
    config = TrainConfig(batch_size=40, parallel_mode="mode1", num_workers=2)
    with opened(AdjustablePipeline, small_graph, config) as pipeline:
        active = []
        for batch in pipeline.epoch(0):
            if batch.index == 3:
                pipeline.preparation = Preparation("sequential", 0, 0, 0)
            active.append(pipeline.active.mode)
    changed = active.index("sequential")
    assert 4 <= changed <= 6
    assert set(active[changed:]) == {"sequential"}
    assert len(active) == pipeline.num_batches


def test_a_cache_that_shrinks_holds_less_and_serves_less(small_graph):
    config = TrainConfig(batch_size=40, cache_bytes=CACHE, feature_tier="disk")
    with opened(AdjustablePipeline, small_graph, config) as pipeline:
        before = sum(batch.hits for batch in pipeline.epoch(0))
        took = pipeline.store.cache_bytes
        pipeline.preparation = replace(pipeline.preparation, cache_bytes=CACHE // 3)
        assert 0 < sum(batch.hits for batch in pipeline.epoch(0)) < before
        assert pipeline.store.cache_bytes <= CACHE // 3 < took <= CACHE
        pipeline.preparation = replace(pipeline.preparation, cache_bytes=0)
        assert not sum(batch.hits for batch in pipeline.epoch(0))
        assert not pipeline.store.cache_bytes
        pipeline.preparation = replace(pipeline.preparation, cache_bytes=CACHE)
        assert sum(batch.hits for batch in pipeline.epoch(0)) == before


def test_a_cache_that_is_sampled_towards_keeps_its_volume(small_graph):
    config = TrainConfig(batch_size=40, cache_bytes=CACHE, bias_rate=4.0)
    with opened(AdjustablePipeline, small_graph, config) as pipeline:
        pipeline.preparation = replace(pipeline.preparation, cache_bytes=0)
        with pytest.raises(UsageError, match=f"cache_bytes must stay {CACHE}, got 0, because sampling prefers"):
            list(pipeline.epoch(0))


def test_depth_says_how_far_workers_are_ahead(small_graph):
    config = TrainConfig(batch_size=40, parallel_mode="mode1", num_workers=1)
    with opened(AdjustablePipeline, small_graph, config) as pipeline:
        begun: list[int] = []
        complete = pipeline._stages.complete

        def noted(epoch: int, planned: Any) -> Any:
            begun.append(planned.index)
            return complete(epoch, planned)

        pipeline._stages.complete = noted
        pipeline.preparation = Preparation("mode1", 2, 4, 0)
        ahead = []
        for batch in pipeline.epoch(0):
            threading.Event().wait(0.02)  # workers have time to get as far ahead as they may
            ahead.append(max(begun) - batch.index)
    assert max(ahead) == 4


@pytest.mark.parametrize(
    "wrong", [("mode1", 0, 0, 0), ("mode1", 2, 1, 0), ("sequential", 0, 1, 0), ("mode2", 1, 1, -1)], ids=str
)
def test_numbers_of_a_preparation_must_fit_together(wrong):
    with pytest.raises(UsageError, match="1 <= workers <= depth"):
        Preparation(*wrong)


def test_stages_with_cores_of_their_own_cannot_change(small_graph):
    config = TrainConfig(batch_size=40, parallel_mode="mode1", resources="auto")
    with pytest.raises(UsageError, match="resources must be free with adapt, got 'auto'"):
        opened(AdjustablePipeline, small_graph, config)

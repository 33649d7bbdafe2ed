"""Che's approximation against caches that are replayed, reference by reference."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.features.slot_map import SlotMap
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.physics.volume import dynamic_hit_rate

NODES, SLOTS = np.array([200.0, 800.0, 3000.0]), 600
NEEDED = np.array([0.4, 0.1, 0.02])


def expected(graph, slots, samples=0.0, **knobs):
    """Returns the expected hit rate of a cache of `slots` rows under the references above."""
    columns = as_columns([TrainConfig(cache_bytes=1, **knobs)])
    rows = np.array([float(slots)])
    none = np.zeros(1)
    return dynamic_hit_rate(columns, graph, none, (NEEDED * NODES)[None], NODES[None], rows, none + samples)[0]


@pytest.mark.parametrize("slots", [SLOTS, 150])
@pytest.mark.parametrize("policy", ["fifo", "clock"])
def test_hit_rates_are_those_of_a_replay(graphs, policy, slots):
    random = np.random.default_rng(3)
    chance = np.repeat(NEEDED, NODES.astype(int))
    needed = random.random((400, len(chance))) < chance
    batches = [random.permutation(np.flatnonzero(row)).astype(np.int32) for row in needed]
    cache, hits = SlotMap(policy, slots, len(chance)), 0
    for ids in batches:
        found, found_hits = cache.look_up(ids)
        cache.admit(ids, found)
        hits += found_hits
    seen = hits / sum(map(len, batches))
    assert expected(graphs["dense"], slots, cache_policy=policy) == pytest.approx(seen, abs=0.04)


def swept(needed, per_sweep: int, lag: int, random) -> tuple[float, float]:
    """Returns the rows that sweeps hold, in the mean, and the share of rows that need no read."""
    passes = random.integers(0, per_sweep, needed.shape[1])  # when the sweep passes a node
    last, held = np.full(needed.shape[1], -len(needed)), np.zeros(needed.shape[1], dtype=bool)
    reads, kept, flight = 0, [], per_sweep + lag
    for now, row in enumerate(needed):
        held &= last > now - flight  # one is finished, and another added
        reads += (row & (last <= now - flight)).sum()
        last[row] = now
        held |= (passes == now % per_sweep) & (last > now - flight)
        kept.append(held.sum())
    return float(np.mean(kept)), float(1 - reads / needed.sum())


@pytest.mark.parametrize("per_sweep", [4, 20])
def test_sweeps_read_again_what_a_replay_reads_again(graphs, per_sweep):
    random = np.random.default_rng(3)
    chance = np.repeat(NEEDED, NODES.astype(int))
    held, seen = swept(random.random((1500, len(chance))) < chance, per_sweep, 2, random)
    found = expected(graphs["dense"], held, cache_policy="ahead", feature_tier="disk", parallel_mode="sequential")
    assert seen == pytest.approx(found, abs=0.05)
    assert found > 0.1


def test_samples_of_hyperbatches_take_the_room_of_rows(graphs):
    knobs = {"cache_policy": "ahead", "feature_tier": "disk", "parallel_mode": "sequential"}
    alone = expected(graphs["dense"], SLOTS, **knobs)
    assert 0 < expected(graphs["dense"], SLOTS, samples=20.0, **knobs) < alone


def test_hyperbatches_gain_nothing_from_rows_in_ram(graphs):
    assert expected(graphs["dense"], SLOTS, cache_policy="ahead", feature_tier="ram") <= 0


def test_small_components_let_proximity_keep_what_it_needs(graphs):
    islands = dataclasses.replace(graphs["dense"], largest_component=0.02)
    for graph, reach in ((graphs["dense"], 1.15), (islands, 6.5)):
        near = expected(graph, SLOTS // 4, cache_policy="fifo", seed_order="proximity", batch_size=128)
        assert near == pytest.approx(expected(graph, SLOTS // 4 * reach, cache_policy="fifo"), rel=0.1)

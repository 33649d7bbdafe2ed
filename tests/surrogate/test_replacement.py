"""Che's approximation against caches that are replayed, reference by reference."""

from __future__ import annotations

import numpy as np
import pytest

from a3gnn.config import TrainConfig
from a3gnn.features.policies.replay import replay
from a3gnn_surrogate.columns import as_columns
from a3gnn_surrogate.replacement import replaced_hit_rate

NODES, SLOTS = np.array([200.0, 800.0, 3000.0]), 600
NEEDED = np.array([0.4, 0.1, 0.02])


@pytest.mark.parametrize("policy", ["fifo", "lru"])
def test_hit_rates_are_those_of_a_replay(policy):
    random = np.random.default_rng(3)
    chance = np.repeat(NEEDED, NODES.astype(int))
    batches = [np.flatnonzero(random.random(len(chance)) < chance).astype(np.int32) for _ in range(400)]
    seen = replay(policy, batches, SLOTS, len(chance)).hit_rate
    columns = as_columns([TrainConfig(cache_bytes=1, cache_policy=policy)])
    met, nodes = (NEEDED * NODES)[None], NODES[None]
    told = replaced_hit_rate(columns, np.zeros(1), met, nodes, np.array([float(SLOTS)]))[0]
    assert told == pytest.approx(seen, abs=0.04)

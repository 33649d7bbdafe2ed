"""While one mini-batch is trained on, workers ask graph servers for the next."""

import time

import pytest

from a3gnn.config import ParallelMode, TrainConfig
from a3gnn.parts.graph import PartedGraph
from a3gnn.pipeline.pipeline import Pipeline, PipelineOptions

#: Three parts, two hops and the rows.
OF_A_BATCH = 9


@pytest.mark.parametrize(("mode", "ahead"), [("sequential", 0), ("mode1", OF_A_BATCH), ("mode2", 6)])
def test_the_next_mini_batch_is_asked_for_ahead(parted: PartedGraph, mode: ParallelMode, ahead: int) -> None:
    config = TrainConfig(batch_size=64, parallel_mode=mode, num_workers=1)
    with Pipeline(parted, config, (5, 5), PipelineOptions(seed=0)) as pipeline:
        before, batches = parted.client.traffic.requests, pipeline.epoch(0)
        next(batches)
        end = time.monotonic() + 60
        while parted.client.traffic.requests < before + OF_A_BATCH + ahead and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(0.02)  # for requests that must not be there
        assert parted.client.traffic.requests - before == OF_A_BATCH + ahead

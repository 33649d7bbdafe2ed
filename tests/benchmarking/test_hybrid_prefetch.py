"""What schedules of real trainers take, and what it costs to record it: that it is measured, not how much it is."""

from __future__ import annotations

from a3gnn.graphs.graph import Graph
from a3gnn.task import Task
from benchmarks.hybrid.prefetch import SCHEDULES, prefetch

TASK = Task(model="gcn", fanouts=(5, 3), hidden_channels=16)


def test_each_schedule_and_what_is_recorded_is_measured(small_graph: Graph):
    found = prefetch(small_graph, TASK, 256, "cpu:1,cpu:1", rounds=2)
    assert tuple(found) == SCHEDULES
    assert found[SCHEDULES[0]].ratio == (1.0, 1.0, 1.0)
    for one in found.values():
        assert one.batch_s > 0
        # Sampling once; loading, transfer, propagation, synchronisation and update of each trainer.
        assert one.spans == 1 + 2 * 5
        assert 0 < one.recording_s < one.batch_s

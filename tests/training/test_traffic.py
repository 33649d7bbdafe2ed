"""What ranks read and sent, summed over mini-batches and epochs, and kept by a checkpoint."""

from __future__ import annotations

import json

from a3gnn.measurement import StageSeconds
from a3gnn.training.progress import EpochResult, EpochTotals, Progress
from a3gnn.training.step import EpochWork, Step, Traffic, Traversed, by_rank

ONE = Traffic(batches=1, seeds=10, rows=100, hits=75, host_bytes=1600, gradient_bytes=80)
OTHER = Traffic(batches=1, moved=1, seeds=5, rows=50, hits=5, host_bytes=2880, gradient_bytes=80)
IDLE = Traffic(rows=1, host_bytes=64, gradient_bytes=80)


def step(index: int, *traffic: Traffic) -> Step:
    spent = StageSeconds(0.1, 0.1, 0.0, 0.2)
    return Step(0, index, 0.5, 10, 100, 75, 300, spent, Traversed(110, 300), traffic=traffic)


def test_beta_is_the_share_of_rows_that_the_rank_had():
    assert ONE.beta == 0.75
    assert Traffic().beta == 1.0
    assert Traffic.sum([ONE, OTHER]).beta == 80 / 150
    assert Traffic.from_dict(ONE.to_dict()) == ONE


def test_counts_are_summed_by_rank():
    some = [[one.to_dict() for one in row] for row in ((ONE, OTHER), (OTHER, IDLE))]
    assert by_rank(some) == [Traffic.sum([ONE, OTHER]).to_dict(), Traffic.sum([OTHER, IDLE]).to_dict()]
    assert by_rank([]) == []


def test_an_epoch_has_the_sums_of_its_mini_batches_and_a_checkpoint_keeps_them():
    progress = Progress()
    progress.under_way.add(step(0, ONE, OTHER), 0.4, joules=2.0)
    progress = Progress.from_dict(json.loads(json.dumps(progress.to_dict())))
    progress.under_way.add(step(1, OTHER, IDLE), 0.4, joules=2.0)
    result = progress.finish_epoch(0.5, 0.1, EpochWork(*progress.under_way.work))
    expected = [Traffic.sum([ONE, OTHER]).to_dict(), Traffic.sum([OTHER, IDLE]).to_dict()]
    assert result.traffic == expected
    written = json.loads(json.dumps(result.to_dict()))
    assert written["traffic"] == expected
    assert EpochResult.from_dict(written).to_dict() == result.to_dict() | {"traffic": tuple(expected)}


def test_without_an_algorithm_nothing_is_written_of_it():
    totals = EpochTotals()
    totals.add(step(0), 0.4, joules=2.0)
    result = Progress(under_way=totals).finish_epoch(0.5, 0.1, EpochWork(*totals.work))
    assert not {"traffic", "trainers"} & set(result.to_dict())

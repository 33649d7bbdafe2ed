"""What algorithms would reach: counts beside plain counting, seconds beside HitGNN's model of one mini-batch."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from a3gnn.graphs.graph import Graph
from a3gnn.hitgnn.algorithms.algorithm import Algorithm
from a3gnn.hitgnn.algorithms.built_in import ALGORITHMS, DISTDGL, P3, PAGRAPH
from a3gnn.hitgnn.algorithms.predict import (
    AlgorithmEstimate,
    Devices,
    DryRun,
    PredictedIteration,
    algorithm_lines,
    dry_run,
    predict_algorithms,
)
from a3gnn.hitgnn.algorithms.stored import Stored, by_partition
from a3gnn.hitgnn.platforms.explore import design_rates
from a3gnn.hitgnn.platforms.metadata import read_platform
from a3gnn.hitgnn.platforms.performance import Conditions, iteration_seconds
from a3gnn.hitgnn.platforms.workload import Workload
from a3gnn.sampling.sampler import Sampler
from a3gnn.task import Task

TASK = Task(model="sage", hidden_channels=16, fanouts=(5, 4))
GIVEN = Conditions(beta=0.5)


@pytest.fixture(scope="module")
def platform():
    return read_platform("u250")


@pytest.fixture(scope="module")
def rates(platform):
    return design_rates(platform, [(2, 512)])


def runs(graph: Graph, ranks: int) -> dict[str, DryRun]:
    return {name: dry_run(one, graph, TASK, 64, ranks) for name, one in ALGORITHMS.items()}


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_mini_batch_is_counted_once(small_graph: Graph, ranks: int) -> None:
    for run in runs(small_graph, ranks).values():
        assert len(run.iterations) == len(run.schedule)
        assert sum(one.counts.nodes[0] for one in run.batches) == len(small_graph.train_ids)
        idle = np.array([[one is None for one in row] for row in run.iterations])
        np.testing.assert_array_equal(idle, run.schedule.weights == 0)


def test_beta_is_the_share_of_rows_that_the_rank_stores(small_graph: Graph) -> None:
    parts = DISTDGL.parts(small_graph, 2, TASK.seed)
    sampler = Sampler(small_graph.edges, TASK.fanouts, seed=TASK.seed)
    run = dry_run(DISTDGL, small_graph, TASK, 10_000, 2)  # one mini-batch per part, of all its train nodes
    assert len(run.schedule) == 1
    for rank, one in enumerate(run.iterations[0]):
        assert one is not None
        seeds = small_graph.train_ids[parts[small_graph.train_ids] == rank]
        assert one.counts.nodes[0] == len(seeds)
        again = sampler.sample(np.sort(seeds), epoch=0, batch=0)
        share = float((parts[again.n_id] == rank).mean())
        assert one.hits / one.counts.input_nodes == pytest.approx(share, abs=0.05)  # another draw of neighbors
    assert 0.5 < run.beta < 1


def test_ranks_store_as_much_whatever_the_algorithm(small_graph: Graph) -> None:
    found = runs(small_graph, 2)
    half = small_graph.features.nbytes / 2
    assert all(run.stored_bytes == pytest.approx(half, rel=0.05) for run in found.values())
    assert found["p3"].widths == (16, 16)
    assert found["p3"].beta == 1.0


def test_some_iterations_stand_for_all(small_graph: Graph) -> None:
    few, every = (dry_run(PAGRAPH, small_graph, TASK, 16, 2, most=most) for most in (8, None))
    assert (len(few.iterations), len(every.iterations)) == (8, len(every.schedule))
    assert few.beta == pytest.approx(every.beta, abs=0.03)


def test_one_device_takes_what_the_model_says_of_each_mini_batch(small_graph: Graph, platform, rates) -> None:
    run = dry_run(DISTDGL, small_graph, TASK, 64, 1)
    (one,) = predict_algorithms([DISTDGL], [1], small_graph, TASK, 64, Devices(platform, rates, GIVEN), most=None)
    like = Workload.of(small_graph.characteristics(), TASK, 64)
    expected = 0.0
    for batch in run.batches:
        nodes, edges = batch.counts.nodes, batch.counts.edges
        work = dataclasses.replace(like, vertices=nodes[::-1], edges=(sum(edges), edges[0]))
        expected += float(
            iteration_seconds(work, rates[0], platform.with_devices(1), dataclasses.replace(GIVEN, beta=1.0))[0]
        )
    assert one.epoch_s == pytest.approx(expected, rel=1e-12)
    assert (one.beta, one.moved, one.moved_bytes) == (1.0, 0.0, 0.0)
    assert one.nvtps * one.epoch_s == pytest.approx(sum(sum(batch.counts.nodes) for batch in run.batches))


def test_the_slowest_device_decides_and_lacking_rows_cost(small_graph: Graph, platform, rates) -> None:
    there, run = platform.with_devices(2), dry_run(DISTDGL, small_graph, TASK, 64, 2)
    like = Workload.of(small_graph.characteristics(), TASK, 64)
    row = run.iterations[0]
    assert row[0] is not None
    both = PredictedIteration.of(row, run.widths, like).seconds(there, rates, GIVEN)
    each = [
        PredictedIteration.of(
            [one if rank == place else None for rank, one in enumerate(row)], run.widths, like
        ).seconds(there, rates, GIVEN)
        for place in range(2)
    ]
    assert both == max(each)
    lacking = [dataclasses.replace(row[0], hits=0), row[1]]
    poor = PredictedIteration.of(lacking, run.widths, like)
    assert poor.seconds(there, rates, GIVEN) > both
    assert poor.seconds(there, rates, dataclasses.replace(GIVEN, direct=False)) > poor.seconds(there, rates, GIVEN)
    assert poor.moved_bytes(dataclasses.replace(GIVEN, direct=False)) == 2 * poor.moved_bytes(GIVEN)
    assert row[1] is not None
    misses = row[0].counts.input_nodes + row[1].counts.input_nodes - row[1].hits
    assert poor.moved_bytes(GIVEN) == 4 * small_graph.num_features * misses


def test_p3_moves_partial_sums_and_computes_the_input_layer_of_all(small_graph: Graph, platform, rates) -> None:
    there, run = platform.with_devices(2), dry_run(P3, small_graph, TASK, 64, 2)
    like = Workload.of(small_graph.characteristics(), TASK, 64)
    row = run.iterations[0]
    wide = [one.counts.nodes[1] for one in row if one is not None]
    iteration = PredictedIteration.of(row, run.widths, like)
    assert iteration.moved_bytes(GIVEN) == 2 * 4 * TASK.hidden_channels * sum(wide)  # forward and backward
    still = PredictedIteration.of([row[0], None], run.widths, like)
    assert iteration.seconds(there, rates, GIVEN) > still.seconds(there, rates, GIVEN)


def test_the_schedule_shares_out_a_part_at_the_price_of_rows_that_lack(small_graph: Graph, platform, rates) -> None:
    """All train nodes in one part: without the schedule one device would train every mini-batch."""

    def first(graph: Graph, ranks: int, seed: int) -> NDArray[np.int32]:
        return np.zeros(graph.num_nodes, dtype=np.int32)

    def whole(graph: Graph, parts: NDArray[np.int32], rank: int, ranks: int) -> Stored:
        return Stored.rows(graph, np.arange(graph.num_nodes))

    def estimates(lopsided: Algorithm) -> list[AlgorithmEstimate]:
        both = lopsided, dataclasses.replace(lopsided, balanced=False)
        return predict_algorithms(both, [2], small_graph, TASK, 64, Devices(platform, rates, GIVEN))

    found, alone = estimates(Algorithm("lopsided", first, by_partition))
    batches = math.ceil(len(small_graph.train_ids) / 64)
    assert (found.iterations, alone.iterations) == (math.ceil(batches / 2), batches)
    assert found.moved == pytest.approx((batches // 2) / batches)
    assert alone.moved == 0.0
    assert found.beta < alone.beta == 1.0  # what is moved finds nothing where it goes
    assert found.moved_bytes > alone.moved_bytes == 0.0
    found, alone = estimates(Algorithm("lopsided", first, whole))
    assert (found.iterations, alone.iterations) == (math.ceil(batches / 2), batches)
    assert found.beta == alone.beta == 1.0
    assert found.epoch_s < 0.7 * alone.epoch_s  # halves, but for the larger of two mini-batches


def test_lines_show_all_algorithms(small_graph: Graph, platform, rates) -> None:
    given = (small_graph, TASK, 64, Devices(platform, rates, GIVEN))
    found = predict_algorithms([DISTDGL], [1], *given) + predict_algorithms(ALGORITHMS.values(), [2, 4], *given)
    lines = list(algorithm_lines(found))
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[3:-1]] == ["one", *["distdgl", "pagraph", "p3"] * 2]

"""The calculation for many machines, on cases that are computed by hand; and the shares that it stands on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from a3gnn.graphs.graph import Graph
from a3gnn.sampling.sampler import NeighbourSampler
from a3gnn.sampling.subgraph import Subgraph
from benchmarks.many_machines import (
    LAYERS,
    MEASURED,
    Link,
    Ranks,
    Row,
    Servers,
    Trials,
    all_reduce_s,
    joined_batches,
    limits,
    rows,
    same_batches,
    served,
    studies,
    table,
)
from benchmarks.shares import largest_share, share

#: A kilobyte per second, and a tenth of a second until a message arrives.
LINK = Link(1000.0, 0.1)
TRIALS = Trials(begin_s=5.0, trials=12, trial_s=8.0, overhead_s=1.0, driver_s=1.0, driver_cores=2, graph_bytes=2000.0)
RANKS = Ranks(batches=100, sample_s=0.2, gather_s=0.3, train_s=0.5, gradient_bytes=100.0, shares={"2": 0.6, "8": 0.25})
SERVERS = Servers(batches=100, local_s=0.4, served_s=0.6, server_s=0.1, rounds=3, answer_bytes=400.0)
MEASUREMENTS = {"trials": TRIALS._asdict(), "ranks": RANKS._asdict(), "servers": SERVERS._asdict()}


def test_a_link_of_ten_gigabit_carries_a_gigabyte_and_a_quarter() -> None:
    assert Link.of_gbit(10).bytes_per_s == 1.25e9


@pytest.mark.parametrize(("machines", "driver"), [(1, 12), (20, 12), (21, 18), (40, 132)])
def test_studies_wait_for_their_driver_where_it_has_more_to_do_than_it_can(machines: int, driver: float) -> None:
    assert studies(TRIALS, machines, LINK) == {
        "trials": 96,
        "beginning": 5,
        "getting trials there and back": 12,
        "the driver": driver,
        "copying the graph": 2 * machines,
    }


def test_a_ring_sends_nothing_alone_and_twice_the_bytes_among_many() -> None:
    assert all_reduce_s(1000, 1, LINK) == 0
    assert all_reduce_s(1000, 2, LINK) == pytest.approx(1 + 0.2)
    assert all_reduce_s(1000, 1000, Link(1000, 0)) == pytest.approx(2, rel=2e-3)


def test_ranks_that_share_a_mini_batch_each_sample_it_whole() -> None:
    assert same_batches(RANKS, 1, LINK) == pytest.approx(
        {"sampling": 20, "gathering and training": 80, "the all-reduce": 0}
    )
    assert same_batches(RANKS, 2, LINK) == pytest.approx(
        {"sampling": 20, "gathering and training": 48, "the all-reduce": 100 * (0.1 + 0.2)}
    )


def test_a_share_that_was_not_measured_is_not_guessed() -> None:
    with pytest.raises(KeyError):
        same_batches(RANKS, 64, LINK)


def test_ranks_with_joined_mini_batches_take_fewer_steps_and_sample_as_much() -> None:
    assert joined_batches(RANKS, 8, LINK) == pytest.approx(
        {"sampling": 20, "gathering and training": 10, "the all-reduce": 12.5 * all_reduce_s(100, 8, LINK)}
    )


def test_no_more_mini_batches_are_joined_than_an_epoch_has() -> None:
    assert joined_batches(RANKS, 512, LINK) == joined_batches(RANKS, 100, LINK)
    assert joined_batches(RANKS, 100, LINK)["gathering and training"] == pytest.approx(0.8)


def test_a_machine_asks_itself_without_a_link() -> None:
    assert served(SERVERS, 1, LINK) == pytest.approx(
        {"training and serving": 60, "waiting for messages": 0, "the link": 0}
    )
    assert served(SERVERS, 4, LINK) == pytest.approx(
        {"training and serving": 60, "waiting for messages": 100 * 0.6, "the link": 100 * 0.75 * 0.4}
    )


def test_the_table_has_a_row_per_layer_link_and_count() -> None:
    found = list(rows(MEASUREMENTS, [1, 2, 8], [10, 100]))
    assert len(found) == 4 * 2 * 3
    assert found[0] == Row("trials: a study per machine", 1, 10, pytest.approx(125), pytest.approx(0.864), "trials")
    alone = {row.layer: row.efficiency for row in found if row.machines == 1}
    assert alone == pytest.approx(
        {
            "trials: a study per machine": 108 / 125,  # to begin, and to get there and back
            "ranks: same mini-batch": 1,
            "ranks: joined mini-batches": 1,
            "graph servers: a training each": 0.4 / 0.6,
        }
    )
    assert all(row.efficiency < 1 for row in found if row.machines > 1)
    head, _, first, *_ = table(found).splitlines()
    assert head == "| layer | machines | 10 Gbit/s | 100 Gbit/s | most of it |"
    assert first == "| trials: a study per machine | 1 | 125 s, 86% | 125 s, 86% | trials |"
    assert len(table(found).splitlines()) == 2 + 4 * 3


def test_a_faster_link_is_never_slower() -> None:
    slow, fast = (list(rows(MEASUREMENTS, [2, 8], [gbit])) for gbit in (1e-8, 100))
    assert all(one.seconds > other.seconds for one, other in zip(slow, fast, strict=True))
    assert {row.bound for row in slow} == {"copying the graph", "the all-reduce", "the link"}


def test_the_bounds_are_those_of_the_formulas() -> None:
    trials, ranks, servers, link = limits(MEASUREMENTS, [0.008])
    assert "keeps 20 of them busy" in trials
    assert "at most 5.0 times" in ranks
    assert "keeps up with 4.0 trainers" in servers
    assert "at 0.008 Gbit/s the link alone takes 0.40 ms" in link


def test_ranks_come_near_their_bound_with_a_link_without_end() -> None:
    alone = sum(same_batches(RANKS, 1, LINK).values())
    many = same_batches(RANKS._replace(shares={"1000000": 1e-6}), 1_000_000, Link(1e30, 0.0))
    assert alone / sum(many.values()) == pytest.approx(5.0, rel=1e-3)


def test_what_was_not_measured_is_left_out_and_named(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    file.write_text(json.dumps(MEASUREMENTS | {"servers": SERVERS._asdict() | {"server_s": None}}))
    command = [sys.executable, "-m", "benchmarks.many_machines", "--measured", str(file), "--machines", "2"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=MEASURED.parents[2]).stdout
    assert "| ranks: same mini-batch | 2 |" in said
    assert "| graph servers: a training each |" not in said
    assert "servers: not calculated, for these are not measured: server_s" in said


def test_the_constants_that_ship_have_the_names_that_are_read() -> None:
    shipped = json.loads(MEASURED.read_text(encoding="utf-8"))
    assert [set(shipped[name]) for name in LAYERS] == [set(kind._fields) for kind in (Trials, Ranks, Servers)]


def test_shares_of_a_mini_batch_that_was_drawn_by_hand() -> None:
    # Seeds 0 and 1; 0 <- 2; 1 <- 2, 3; then 2 <- 4, 3 <- 0.
    subgraph = Subgraph(
        n_id=np.arange(5, dtype=np.int32),
        indptr=np.array([0, 1, 3, 4, 5], dtype=np.int32),
        indices=np.array([2, 2, 3, 4, 0], dtype=np.int32),
        hop_sizes=(2, 4, 5),
    )
    assert share(subgraph, 0, 2) == 1.0
    assert share(subgraph, 0, 1) == 3 / 5  # 0, 2, 4
    assert share(subgraph, 1, 2) == 5 / 5  # 1, 2, 3, 4, 0
    assert largest_share(subgraph, 2) == 1.0
    assert share(subgraph, 1, 1) == 0.0


def test_the_largest_share_is_at_least_even_and_falls_with_more_ranks(small_graph: Graph) -> None:
    sampler = NeighbourSampler(small_graph.indptr, small_graph.indices, (5, 3), seed=0)
    subgraph = sampler.sample(small_graph.train_ids[:64].astype(np.int32), 0, 0)
    found = [largest_share(subgraph, ranks) for ranks in (1, 2, 8, 64)]
    assert found[0] == 1.0
    assert found == sorted(found, reverse=True)
    assert all(one >= 1 / ranks for one, ranks in zip(found, (1, 2, 8, 64), strict=True))

"""The calculation for many machines, on cases that are computed by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.many_machines import (
    MEASURED,
    Link,
    Ranks,
    Row,
    Servers,
    Trials,
    ahead,
    all_reduce_s,
    graph_servers,
    joined_batches,
    many_studies,
    one_study,
    rows,
    same_batch,
    table,
)

#: A kilobyte per second, and a tenth of a second until a message arrives.
LINK = Link(1000.0, 0.1)
TRIALS = Trials(trials=12, per_round=4, trial_s=9.0, overhead_s=1.0, driver_s=0.5, graph_bytes=2000.0)
RANKS = Ranks(steps=100, sample_s=0.2, gather_s=0.3, train_s=0.5, gradient_bytes=100.0, shares={2: 0.6, 8: 0.25})
SERVERS = Servers(steps=100, sample_s=0.2, train_s=0.5, rounds=3, request_s=0.01, serve_s=0.05, answer_bytes=400.0)


def test_a_link_of_ten_gigabit_carries_a_gigabyte_and_a_quarter() -> None:
    assert Link.of_gbit(10).bytes_per_s == 1.25e9


@pytest.mark.parametrize(
    ("machines", "trials", "copies"), [(1, 120, 0), (2, 60, 2), (3, 60, 4), (4, 30, 6), (9, 30, 16)]
)
def test_a_study_is_spread_over_as_many_machines_as_a_round_has_trials(
    machines: int, trials: float, copies: float
) -> None:
    found = one_study(TRIALS, machines, LINK)
    assert found == {"copying the graph": copies, "trials": trials, "the driver": 6}


@pytest.mark.parametrize(("machines", "beyond"), [(1, 0), (21, 0), (22, 6), (42, 126)])
def test_many_studies_are_bound_by_the_driver_where_it_is_asked_more_than_it_can_do(
    machines: int, beyond: float
) -> None:
    found = many_studies(TRIALS, machines, LINK)
    assert found["trials"] == 126
    assert found["the driver"] == beyond


def test_a_ring_sends_nothing_alone_and_twice_the_bytes_among_many() -> None:
    assert all_reduce_s(1000, 1, LINK) == 0
    assert all_reduce_s(1000, 2, LINK) == pytest.approx(1 + 0.2)
    assert all_reduce_s(1000, 1000, Link(1000, 0)) == pytest.approx(2, rel=2e-3)


def test_ranks_that_share_a_mini_batch_each_sample_it_whole() -> None:
    assert same_batch(RANKS, 1, LINK) == {
        "sampling": pytest.approx(20),
        "gathering and training": pytest.approx(80),
        "the all-reduce": 0,
    }
    two = same_batch(RANKS, 2, LINK)
    assert two["sampling"] == pytest.approx(20)
    assert two["gathering and training"] == pytest.approx(48)
    assert two["the all-reduce"] == pytest.approx(100 * (0.1 + 0.2))


def test_a_share_that_was_not_measured_is_not_guessed() -> None:
    with pytest.raises(KeyError):
        same_batch(RANKS, 64, LINK)


def test_ranks_with_joined_mini_batches_take_fewer_steps_and_sample_as_much() -> None:
    alone, eight = joined_batches(RANKS, 1, LINK), joined_batches(RANKS, 8, LINK)
    assert eight["sampling"] == pytest.approx(alone["sampling"])
    assert eight["gathering and training"] == pytest.approx(alone["gathering and training"] / 8)
    assert eight["the all-reduce"] == pytest.approx(12.5 * all_reduce_s(100, 8, LINK))


def test_a_machine_asks_itself_without_a_link() -> None:
    assert graph_servers(SERVERS, 1, LINK) == {
        "sampling": pytest.approx(20),
        "waiting for answers": pytest.approx(3),
        "serving": pytest.approx(5),
        "the link": 0,
        "training": pytest.approx(50),
    }
    four = graph_servers(SERVERS, 4, LINK)
    assert four["the link"] == pytest.approx(25 * 0.75 * 0.4)
    assert four["waiting for answers"] == pytest.approx(25 * 3 * 0.21)


def test_loading_ahead_costs_what_exceeds_training() -> None:
    assert ahead({"sampling": 3.0, "serving": 1.0, "training": 5.0}) == {"training": 5.0, "loading beyond it": 0.0}
    assert ahead({"sampling": 3.0, "serving": 4.0, "training": 5.0}) == {"training": 5.0, "loading beyond it": 2.0}


def measured(**layers: object) -> dict[str, object]:
    return {
        "trials": TRIALS._asdict(),
        "ranks": RANKS._asdict() | {"shares": {"2": 0.6, "8": 0.25}},
        "servers": SERVERS._asdict(),
    } | layers


def test_the_table_has_a_row_per_layer_link_and_count_and_one_machine_is_fully_efficient() -> None:
    found = list(rows(measured(), [1, 2, 8], [10, 100]))
    assert len(found) == 6 * 2 * 3
    assert [row.efficiency for row in found if row.machines == 1] == pytest.approx([1.0] * 12)
    assert all(row.efficiency <= 1 + 1e-12 for row in found if row.machines > 1)
    assert found[0] == Row("Ray, one study", 1, 10, 126.0, 1.0, "trials")
    lines = table(found[:1]).splitlines()
    assert lines[-1] == "| Ray, one study | 1 | 10 | 126 | 100% | trials |"


def test_a_faster_link_is_never_slower() -> None:
    slow, fast = (list(rows(measured(), [2, 8], [gbit])) for gbit in (0.01, 100))
    assert all(one.seconds >= other.seconds for one, other in zip(slow, fast, strict=True))
    assert any(one.seconds > other.seconds for one, other in zip(slow, fast, strict=True))


def test_what_was_not_measured_is_left_out_and_named(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    file.write_text(json.dumps(measured(servers=SERVERS._asdict() | {"serve_s": None})))
    command = [sys.executable, "-m", "benchmarks.many_machines", "--measured", str(file), "--machines", "2"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=MEASURED.parents[2]).stdout
    assert "| ranks, same mini-batch | 2 |" in said
    assert "graph servers" not in said
    assert "servers: not calculated, for these are not measured: serve_s" in said


def test_the_constants_that_ship_have_the_names_that_are_read() -> None:
    shipped = json.loads(MEASURED.read_text(encoding="utf-8"))
    assert {name: set(shipped[name]) for name in ("trials", "ranks", "servers")} == {
        "trials": set(Trials._fields),
        "ranks": set(Ranks._fields),
        "servers": set(Servers._fields),
    }

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.errors import UsageError
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.profiling.store.provenance import describe_machine
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.tuning.tell.intro import place
from a3gnn.units import (
    count,
    format_duration,
    format_size,
    parse_budget,
    parse_duration,
    parse_size,
    short_duration,
)


@pytest.mark.parametrize(
    ("text", "size"), [("4GiB", 4 * 2**30), ("512MB", 512 * 10**6), ("1.5 KiB", 1536), ("77", 77), ("2b", 2)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("power", range(1, 5))
def test_a_letter_alone_is_a_power_of_1024_and_one_with_a_b_of_1000(power: int) -> None:
    letter = "KMGT"[power - 1]
    for text in (f"4{letter}", f"4{letter.lower()}", f"4 {letter}iB", f"4{letter.lower()}ib"):
        assert parse_size(text) == parse_size(text, needs_unit=True) == 4 * 1024**power
    for text in (f"4{letter}B", f"4{letter.lower()}b"):
        assert parse_size(text, needs_unit=True) == 4 * 1000**power


@pytest.mark.parametrize("text", ["4", "4294967296", " 1.5 "])
def test_a_bare_number_is_refused_where_a_unit_is_needed(text: str) -> None:
    with pytest.raises(UsageError, match=r"^a size is a number with a unit .*; write 512MiB or 4GiB, for example$"):
        parse_size(text, needs_unit=True)
    assert parse_size(text) == round(float(text))


@pytest.mark.parametrize("text", ["99999999999TiB", "9223372036854775808", "8388608TiB", "9" * 400, "9" * 400 + "T"])
def test_sizes_beyond_any_machine_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^a size must be below 8,388,608 TiB, got .*"):
        parse_size(text)


@pytest.mark.parametrize("text", ["99999999999d", "9" * 400 + "s"])
def test_durations_beyond_any_life_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^a duration must be at most 36,500d, got .*"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["9" * 30, "9" * 5000])
def test_budgets_of_more_trials_than_can_be_counted_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a budget is a duration such as 10min or a positive number of trials"):
        parse_budget(text)


@pytest.mark.parametrize("text", ["", "GiB", "4 gigs", "-1MB", "0", "1e9", "4GiB 2MB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^a size .*, got .*; write 512MiB or 4GiB, for example$"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10min", 600), ("1h30m", 5400), ("0.5 h", 1800), ("2 min 5 s", 125)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "min", "10 fortnights", "0s", "10min x", "-5s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^a duration .*, got .*; write 90s, 10min or 1h30m, for example$"):
        parse_duration(text)


@given(st.integers(1, 2**50))
def test_a_formatted_size_is_near_what_it_says(size: int) -> None:
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.006)


def test_durations_for_people() -> None:
    assert [format_duration(s) for s in (0.44, 12, 60, 200, 3900)] == [
        "0.4 s",
        "12 s",
        "1 min",
        "3 min 20 s",
        "1 h 5 min",
    ]


def test_a_count_has_its_noun_in_the_right_number() -> None:
    assert [count(n, "core") for n in (0, 1, 2, 1000)] == ["0 cores", "1 core", "2 cores", "1,000 cores"]
    assert [count(n, "mini-batch", "mini-batches") for n in (1, 2)] == ["1 mini-batch", "2 mini-batches"]


def test_one_core_is_no_cores(hardware: Hardware) -> None:
    one = dataclasses.replace(hardware, num_cores=1)
    graph = Graph.load("synthetic:nodes=300").characteristics()
    for line in (describe_machine(one), *place(Setting(Task(), graph, one))):
        assert "1 cores" not in line
    assert ", 1 core, " in describe_machine(one)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "1s"), (90.0, "90s"), (91.0, "2min"), (660.5, "12min"), (6060.0, "110min"), (18001.0, "6h")],
)
def test_a_duration_as_an_option_is_rounded_up(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text


@given(st.floats(0.01, 1e6))
def test_a_duration_as_an_option_is_one_and_not_shorter(seconds: float) -> None:
    assert parse_budget(short_duration(seconds)) >= seconds

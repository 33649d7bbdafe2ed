import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.errors import UsageError
from a3gnn.units import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size"), [("4GiB", 4 * 2**30), ("512MB", 512 * 10**6), ("1.5 KiB", 1536), ("77", 77), ("2b", 2)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


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

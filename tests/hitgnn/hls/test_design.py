import pytest

from a3gnn.errors import UsageError
from a3gnn.hitgnn.hls.generate import Design


@pytest.mark.parametrize(
    ("multipliers", "array"),
    [(1, (1, 1)), (8, (8, 1)), (16, (16, 1)), (256, (16, 16)), (512, (16, 32)), (2048, (16, 128))],
)
def test_multipliers_are_an_array(multipliers: int, array: tuple[int, int]) -> None:
    design = Design(4, multipliers)
    assert (design.rows, design.columns) == array


def test_each_unit_keeps_as_many_words() -> None:
    assert Design(8, 16, result_bytes=64 * 30).result_words == 24


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"units": 6}, "units must be a power of two, got 6; the nearest are 4 and 8"),
        ({"multipliers": 1000}, "multipliers must be a power of two, got 1000; the nearest are 512 and 1024"),
        ({"units": 0}, "units must be an integer >= 1, got 0"),
        ({"result_bytes": 64}, "result_bytes must have 64 B for each of 4 units, got 64 B; the default is 4.00 MiB"),
    ],
)
def test_what_is_no_design_is_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Design(**{"units": 4, "multipliers": 16} | fields)

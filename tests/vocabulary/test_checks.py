import re
from pathlib import Path

import numpy as np
import pytest

from a3gnn.checks import checked_limit, flag, path_or_none, size_or_none, whole_number
from a3gnn.errors import ConfigError, UsageError


def test_what_is_taken_comes_back_as_pythons_own() -> None:
    assert [type(whole_number("n", value, 0)) for value in (3, np.int16(3), np.uint64(3))] == [int] * 3
    assert [type(flag("f", value)) for value in (True, np.False_)] == [bool] * 2
    assert [size_or_none("s", value) for value in (None, 5, np.int64(5), "1KiB")] == [None, 5, 5, 1024]
    assert [path_or_none("p", value) for value in (None, "a", Path("b"))] == [None, "a", Path("b")]


@pytest.mark.parametrize("value", [True, 1.0, "1", None, -1, [1], float("nan")])
def test_other_numbers_are_refused(value: object) -> None:
    with pytest.raises(UsageError, match=re.escape(f"n must be an integer >= 0, got {value!r}; say so")):
        whole_number("n", value, 0, "say so")


def test_what_goes_to_json_must_be_pythons_own() -> None:
    assert whole_number("n", 3, 0, kind=int, error=ConfigError) == 3
    with pytest.raises(ConfigError, match="n must be an integer >= 0, got"):
        whole_number("n", np.int64(3), 0, kind=int, error=ConfigError)


@pytest.mark.parametrize("value", [0, 1, None, "yes"])
def test_other_flags_are_refused(value: object) -> None:
    with pytest.raises(UsageError, match=re.escape(f"f must be True or False, got {value!r}")):
        flag("f", value)


@pytest.mark.parametrize("value", [0, -5, 1.5, True, "much", "0MiB"])
def test_other_sizes_are_refused(value: object) -> None:
    with pytest.raises(UsageError, match=r"^s(:| must be)"):
        size_or_none("s", value)


def test_sizes_beyond_any_machine_are_refused() -> None:
    assert size_or_none("s", 2**63 - 1) == 2**63 - 1
    with pytest.raises(UsageError, match=re.escape(f"s must be below 2**63 bytes, got {2**63}")):
        size_or_none("s", 2**63)


@pytest.mark.parametrize(
    ("value", "given", "remedy"),
    [
        *((value, f"{value} B", "write the limit with its unit") for value in (4, 512, 2**20 - 1, np.int64(4096))),
        *((value, repr(value), "write the limit with its unit") for value in ("4", "65536", "4096", " 4096 ")),
        *((value, repr(value), "allow more") for value in ("4kB", "1B", "900KiB", "900 k ")),
    ],
)
def test_a_limit_that_is_too_small_is_quoted_and_told_to_have_a_unit_where_it_lacks_one(
    value: int | str, given: str, remedy: str
) -> None:
    said = f"s must be at least 1.00 MiB, got {given}, because a process takes about 200 MiB before it trains; "
    with pytest.raises(UsageError, match=f"^{re.escape(said + remedy)}, such as 4GiB$"):
        checked_limit("s", value)


def test_a_limit_that_may_be_kept_is_bytes() -> None:
    assert [checked_limit("s", value) for value in (None, 2**20, "4G", "4GB")] == [None, 2**20, 2**32, 4 * 10**9]


def test_other_paths_are_refused() -> None:
    with pytest.raises(UsageError, match="p must be a path, got 3"):
        path_or_none("p", 3)

"""Broken limits in words."""

from __future__ import annotations

import pytest

from a3gnn.limits import Breach

MiB = 2**20


@pytest.mark.parametrize(
    ("breach", "text", "short"),
    [
        (
            Breach("host_bytes", 300 * MiB, 312 * MiB),
            "host memory 12.0 MiB over the limit of 300 MiB",
            "host memory +12.0 MiB",
        ),
        (
            Breach("least_accuracy", 0.88, 0.872),
            "accuracy 0.8 points under the least allowed, 88.00%",
            "accuracy -0.8 points",
        ),
        (
            Breach("least_accuracy", 0.88, 0.0),
            "accuracy unknown within the time, but 88.00% is the least allowed",
            "accuracy unknown",
        ),
    ],
)
def test_a_breach_says_by_how_much_or_that_nothing_is_known(breach: Breach, text: str, short: str) -> None:
    assert (breach.describe(), breach.short()) == (text, short)

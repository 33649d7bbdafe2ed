"""The shuffling error, by hand."""

import numpy as np
import pytest

from a3gnn.pipeline.proximity import shuffling_error


@pytest.mark.parametrize(
    ("labels", "batch_size", "expected"),
    [
        ([0, 0, 1, 1], 2, 1 / 2),  # all of one class, where half are of each
        ([0, 1, 0, 1], 2, 0),
        ([0, 0, 0, 1], 2, 1 / 4),  # (1, 0) and (1/2, 1/2) beside (3/4, 1/4)
        ([0, 1, 2, 0, 1], 2, (3 / 10 + 3 / 10 + 3 / 5) / 3),  # (2, 2, 1)/5; the last mini-batch is one seed
        ([0, 1, 1], 8, 0),
        ([], 4, 0),
    ],
)
def test_it_is_exact(labels: list[int], batch_size: int, expected: float) -> None:
    assert shuffling_error(np.array(labels, dtype=np.int32), batch_size, 3) == pytest.approx(expected)


def test_a_part_is_compared_with_itself() -> None:
    labels = np.array([0, 0, 0, 1, 2, 1, 2], dtype=np.int32)
    assert shuffling_error(labels, 2, 3, [0, 3, 7]) == 0
    assert shuffling_error(labels, 2, 3) > 0
    assert shuffling_error(labels[[0, 1, 2, 3, 5, 4, 6]], 2, 3, [0, 3, 7]) == pytest.approx((0 + 0 + 1 / 2 + 1 / 2) / 4)

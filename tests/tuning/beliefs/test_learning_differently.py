from collections.abc import Iterator

import pytest

from a3gnn.config import TrainConfig
from a3gnn.tuning.beliefs.expectations import learning_differently

ALIKE = [TrainConfig(parallel_mode="mode1", num_workers=workers) for workers in (1, 2, 3)]
SMALL, LARGE = TrainConfig(batch_size=128), TrainConfig(batch_size=4096)


@pytest.mark.parametrize(
    ("items", "count", "expected"),
    [
        ([*ALIKE, SMALL, LARGE], 3, [ALIKE[0], SMALL, LARGE]),
        ([SMALL, *ALIKE], 3, [SMALL, ALIKE[0], ALIKE[1]]),
        (ALIKE, 2, ALIKE[:2]),
        ([SMALL], 3, [SMALL]),
        ([], 3, []),
    ],
)
def test_those_that_learn_the_same_come_after_the_others(items: list, count: int, expected: list) -> None:
    assert learning_differently(items, lambda config: config, count) == expected


def test_no_more_is_read_than_needed() -> None:
    def wanted() -> Iterator[TrainConfig]:
        yield from (ALIKE[0], ALIKE[1], SMALL)
        pytest.fail("it read on")

    assert learning_differently(wanted(), lambda config: config, 2) == [ALIKE[0], SMALL]

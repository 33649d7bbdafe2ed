import numpy as np
import pytest

from a3gnn.config import DYNAMIC_POLICIES
from a3gnn.errors import UsageError
from a3gnn.features.auto import replay

HALVES = [np.arange(start, start + 50, dtype=np.int32) for start in (0, 50, 0, 50)]


@pytest.mark.parametrize("policy", DYNAMIC_POLICIES)
def test_a_cache_of_all_rows_misses_each_once(policy: str) -> None:
    done = replay(policy, HALVES, 100, 100)
    assert (done.hit_rate, done.admitted) == (0.5, 25.0)
    assert replay(policy, HALVES, 100, 100, warm_up_batches=2)[::2] == (1.0, 0.0)
    assert done.overhead_ms > 0


@pytest.mark.parametrize("policy", DYNAMIC_POLICIES)
def test_no_slot_no_hit(policy: str) -> None:
    assert replay(policy, HALVES, 0, 100)[::2] == (0.0, 0.0)


def test_half_the_rows_serve_a_loop_only_where_they_stay() -> None:
    hit_rates = {policy: replay(policy, HALVES, 50, 100).hit_rate for policy in ("fifo", "lru")}
    hit_rates["degree"] = replay("degree", HALVES, 50, 100, np.arange(100, dtype=np.int32)).hit_rate
    assert hit_rates == {"fifo": 0.0, "lru": 0.0, "degree": 0.5}


def test_a_static_policy_keeps_its_hottest_nodes() -> None:
    hot = np.array([7, 3, 9], dtype=np.int32)
    batches = [np.array(ids, dtype=np.int32) for ids in ([7, 3], [9, 1])]
    assert replay("presample", batches, 2, 10, hot)[::2] == (0.5, 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("degree", HALVES, 5, 100), "hot must be given for a static policy"),
        (("fifo", HALVES, 5, 100, HALVES[0]), "hot must be given for a static policy"),
        (("lru", HALVES, -1, 100), "num_slots must be >= 0, got -1"),
        (("lru", [], 5, 100), "needs more than 0 mini-batches"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replay(*arguments)

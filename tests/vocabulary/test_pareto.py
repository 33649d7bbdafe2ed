import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from a3gnn.pareto import non_dominated, spread

fronts = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.integers(0, 6).map(lambda i: i / 4)
)


def dominated_by_hand(costs: np.ndarray, i: int) -> bool:
    better = [(other <= costs[i]).all() and (other < costs[i]).any() for other in costs]
    return any(better) or any((costs[j] == costs[i]).all() for j in range(i))


@given(fronts)
def test_non_dominated_is_the_definition(costs: np.ndarray) -> None:
    keep = non_dominated(costs)
    assert keep.tolist() == [not dominated_by_hand(costs, i) for i in range(len(costs))]


def test_spread_takes_the_ends_and_the_middle() -> None:
    line = np.stack([np.arange(11.0), 10 - np.arange(11.0)], axis=1)
    assert {0, 10} < set(spread(line, 3).tolist())
    assert spread(line, 20).tolist() == list(range(11))

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.knobs import ALWAYS, NEVER, Where, where

ROWS = st.lists(st.tuples(st.sampled_from((0, 1, 5)), st.sampled_from(("degree", "lru", "fifo"))), min_size=1)
SIMPLE = [where(size=0), where(policy=("lru", "fifo")), where(size=(0, 5), policy="lru"), ~where(size=1)]
CONDITIONS = st.sampled_from([*SIMPLE, *(one | other for one in SIMPLE for other in SIMPLE), ~(SIMPLE[0] | SIMPLE[3])])


@given(rows=ROWS, condition=CONDITIONS, negated=st.booleans())
def test_a_condition_holds_of_columns_where_it_holds_of_each_row(rows: list, condition: Where, negated: bool) -> None:
    condition = ~condition if negated else condition
    columns = {"size": np.array([size for size, _ in rows]), "policy": np.array([policy for _, policy in rows])}
    each = [condition.holds({"size": size, "policy": policy}) for size, policy in rows]
    assert condition.holds(columns).tolist() == each
    assert (~condition).holds(columns).tolist() == [not one for one in each]


def test_any_of_the_cases_is_enough() -> None:
    either = where(size=0, policy=("lru", "fifo"))
    assert either.holds({"size": 0, "policy": "degree"})
    assert either.holds({"size": 9, "policy": "fifo"})
    assert not either.holds({"size": 9, "policy": "degree"})


def test_either_of_two_conditions_is_enough() -> None:
    either = where(policy="lru") | ~where(size=(0, 1))
    assert [either.holds({"policy": "lru", "size": 1}), either.holds({"policy": "fifo", "size": 5})] == [True, True]
    assert not either.holds({"policy": "fifo", "size": 1})
    assert (~either).holds({"policy": "fifo", "size": 1})
    assert (where(device="cpu") | either).names == {"device", "policy", "size"}
    assert NEVER.names == frozenset()


def test_without_cases_it_never_or_always_holds() -> None:
    assert NEVER.holds({}) is False
    assert ALWAYS.holds({}) is True
    assert ~ALWAYS == NEVER == where()

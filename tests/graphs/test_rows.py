"""Rows of CSR arrays, in pieces and by ids."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a3gnn.graphs.arrays import row_slots, row_spans

degrees = st.lists(st.integers(0, 9), max_size=20)


@given(degrees, st.integers(1, 30), st.integers(1, 8))
def test_spans_are_all_rows_in_order_and_as_long_as_may_be(counts: list[int], most: int, most_rows: int) -> None:
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    spans = list(row_spans(indptr, most, most_rows))
    assert [row for first, last in spans for row in range(first, last)] == list(range(len(counts)))
    for first, last in spans:
        assert last - first == 1 or (sum(counts[first:last]) <= most and last - first <= most_rows)
        is_full = last - first == most_rows or last == len(counts) or sum(counts[first : last + 1]) > most
        assert is_full


@pytest.mark.parametrize("ids", [[], [0, 3], [1, 2, 4]])
def test_slots_are_those_of_the_rows(ids: list[int]) -> None:
    indptr = np.array([0, 2, 2, 5, 6, 9], dtype=np.int64)
    own, slots = row_slots(indptr, np.array(ids, dtype=np.int32))
    rows = [list(range(indptr[row], indptr[row + 1])) for row in ids]
    assert [slots[own[i] : own[i + 1]].tolist() for i in range(len(ids))] == rows
    assert len(own) == len(ids) + 1

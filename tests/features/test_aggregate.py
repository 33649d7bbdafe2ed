"""The fused pass against the plain definition, in float64, on any tiers and however it is shared out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.errors import UsageError
from a3gnn.features.cache import StaticCache
from a3gnn.features.host_store import DenseHostStore, SparseHostStore
from a3gnn.features.row_table import AGGREGATORS, RowTable, aggregate, gather, input_width
from a3gnn.features.stored_rows import DenseRows, SparseRows, rows_of
from a3gnn.graphs.features import SparseFeatures
from a3gnn.sampling.subgraph import Block
from a3gnn.threads import pool


def random_block(num_src: int, num_dst: int, seed: int) -> Block:
    draw = np.random.default_rng(seed)
    degrees = draw.integers(0, 12, size=num_dst)
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    return Block(indptr, draw.integers(0, num_src, size=indptr[-1]).astype(np.int32), num_src, num_dst)


def expected(aggregator: str, x: np.ndarray, block: Block) -> np.ndarray:
    x = x.astype(np.float64)
    adjacency = np.zeros((block.num_dst, block.num_src))
    rows = np.repeat(np.arange(block.num_dst), np.diff(block.indptr))
    np.add.at(adjacency, (rows, block.indices), 1.0)
    own = x[: block.num_dst]
    if aggregator == "mean":
        return np.hstack([adjacency @ x / np.maximum(np.diff(block.indptr), 1)[:, None], own])
    if aggregator == "sum":
        return adjacency @ x + own
    adjacency[np.arange(block.num_dst), np.arange(block.num_dst)] = 0
    degree = np.ones(block.num_src)
    degree[: block.num_dst] += adjacency.sum(axis=1)
    normalized = adjacency / np.sqrt(np.outer(degree[: block.num_dst], degree))
    return normalized @ x + own / degree[: block.num_dst, None]


@settings(max_examples=60, deadline=None)
@given(
    aggregator=st.sampled_from(AGGREGATORS),
    dtype=st.sampled_from([np.float32, np.float16]),
    width=st.integers(1, 70),
    sizes=st.tuples(st.integers(1, 60), st.integers(0, 60)),
    seed=st.integers(0, 999),
)
def test_the_pass_gives_what_the_definition_says(aggregator, dtype, width, sizes, seed) -> None:
    num_dst, more = sizes
    block = random_block(num_dst + more, num_dst, seed)
    x = np.random.default_rng(seed).standard_normal((block.num_src, width)).astype(dtype)
    out = np.full((num_dst, input_width(aggregator, width)), np.nan, dtype=np.float32)
    aggregate(aggregator, RowTable.of(x), block.indptr, block.indices, out)
    assert np.allclose(out, expected(aggregator, x, block), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_threads_change_no_bit(aggregator: str) -> None:
    block = random_block(9000, 7000, 3)
    table = RowTable.of(np.random.default_rng(0).standard_normal((9000, 64)).astype(np.float32))
    outs = []
    for threads in (1, 2, 7):
        outs.append(np.empty((7000, input_width(aggregator, 64)), dtype=np.float32))
        with pool.limited(threads):
            aggregate(aggregator, table, block.indptr, block.indices, outs[-1])
    assert np.array_equal(outs[0], outs[1])
    assert np.array_equal(outs[0], outs[2])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_gather_copies_halves_exactly(dtype: type) -> None:
    x = np.array([[0.0, -0.0, 6e-8, 65504, -1.5, 1 / 3]] * 3, dtype=dtype)
    out = np.empty((3, 8), dtype=np.float32)
    gather(RowTable.of(x), out, 2)
    assert np.array_equal(out[:, 2:], x.astype(np.float32))
    assert np.array_equal(np.signbit(out[:, 2:]), np.signbit(x))


def test_rows_come_from_whichever_tier_has_them() -> None:
    x = np.random.default_rng(1).standard_normal((300, 9)).astype(np.float32)
    parts = (np.arange(300) % 2).astype(np.int32)
    rows = DenseRows(x)
    cache = StaticCache(rows, np.arange(0, 300, 7, dtype=np.int32), 300)
    store = DenseHostStore(rows, 300, 9, cache=cache, parts=parts)
    store.enter_part(1)
    ids = np.random.default_rng(2).permutation(300)[:200].astype(np.int32)
    block = random_block(200, 50, 4)
    for aggregator in AGGREGATORS:
        rows = store.read_aggregated(ids, block, aggregator)
        assert rows.hits == np.count_nonzero(ids % 7 == 0)
        assert np.allclose(rows.x.numpy(), expected(aggregator, x[ids], block), rtol=1e-5, atol=1e-5)


def test_sparse_rows_are_refused() -> None:
    sparse = SparseFeatures(np.ones(2, np.float32), np.zeros(2, np.int32), np.arange(3, dtype=np.int64), (2, 1))
    store = SparseHostStore(rows_of(sparse), 2, 1)
    assert isinstance(rows_of(sparse), SparseRows)
    assert not store.can_aggregate
    with pytest.raises(UsageError, match="needs dense features"):
        store.read_aggregated(np.zeros(1, dtype=np.int32), random_block(1, 1, 0), "mean")


def test_rows_apart_from_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="contiguous matrix"):
        RowTable.of(np.zeros((4, 6), dtype=np.float32)[:, ::2])

"""Rows written as bfloat16: those that are written as float32, rounded once to the nearest, ties to even."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from a3gnn.features.cache import DynamicCache, StaticCache
from a3gnn.features.device_store import DeviceCachedStore
from a3gnn.features.host_store import DenseHostStore
from a3gnn.features.row_table import AGGREGATORS, RowTable, gather, input_width
from a3gnn.features.stored_rows import DenseRows
from a3gnn.features.tensors import as_array
from tests.features.test_aggregate import random_block


def test_every_upper_half_is_rounded_as_torch_does() -> None:
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        x = (upper | np.uint32(lower)).view(np.float32).reshape(256, 256)
        out = torch.empty(256, 256, dtype=torch.bfloat16)
        gather(RowTable.of(x), as_array(out))
        expected = torch.from_numpy(x).bfloat16()
        assert torch.equal(out.isnan(), expected.isnan())
        assert torch.equal(out.nan_to_num(nan=1.0).view(torch.int16), expected.nan_to_num(nan=1.0).view(torch.int16))


@settings(max_examples=40, deadline=None)
@given(
    aggregator=st.sampled_from([None, *AGGREGATORS]),
    dtype=st.sampled_from([np.float32, np.float16]),
    width=st.integers(1, 70),
    tier=st.sampled_from(["base", "static", "dynamic", "part", "device"]),
    seed=st.integers(0, 999),
)
def test_a_read_gives_what_float32_gives_rounded(aggregator, dtype, width, tier, seed) -> None:
    draw = np.random.default_rng(seed)
    array = draw.standard_normal((200, width)).astype(dtype)
    rows, some = DenseRows(array), np.arange(0, 200, 3, dtype=np.int32)
    cache = {"static": StaticCache(rows, some, 200), "dynamic": DynamicCache.that_fits(rows, 40_000, 200, "clock")}
    parts = (np.arange(200) % 2).astype(np.int32) if tier == "part" else None
    store = DenseHostStore(rows, 200, width, cache=cache.get(tier), parts=parts)
    store.enter_part(1)
    if tier == "device":
        aggregator, store = None, DeviceCachedStore.dynamic(store, rows, 20_000, ["cpu"], "fifo") or store
    for _ in range(2):  # the second time a dynamic cache holds rows
        ids, block = draw.permutation(200)[:120].astype(np.int32), random_block(120, 40, seed)
        shape = (120, width) if aggregator is None else (40, input_width(aggregator, width))
        out = torch.empty(shape, dtype=torch.bfloat16)
        if aggregator is None:
            found, expected = store.read(ids, out).x, torch.from_numpy(array[ids]).float()
        else:
            found = store.read_aggregated(ids, block, aggregator, out).x
            expected = store.read_aggregated(ids, block, aggregator).x
        assert found is out
        assert expected.dtype == torch.float32
        assert torch.equal(found, expected.bfloat16())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_other_numbers_are_refused(dtype: torch.dtype) -> None:
    store = DenseHostStore(DenseRows(np.zeros((4, 2), dtype=np.float32)), 4, 2)
    with pytest.raises(Exception, match="contiguous float32 or bfloat16"):
        store.read(np.zeros(1, dtype=np.int32), torch.empty((1, 2), dtype=dtype))

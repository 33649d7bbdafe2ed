"""Numba intrinsics for kernels over rows given by address: pointers, prefetching, float16."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from a3gnn.sampling.prefetch import emit_prefetch


@intrinsic
def pointer(_context: Any, address: Any) -> Any:
    """Returns `address`, int64, as an untyped pointer for `numba.carray`."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    assert isinstance(address, types.Integer)
    return types.voidptr(address), codegen


@intrinsic
def prefetch_at(_context: Any, address: Any) -> Any:
    """Prefetches the cache line at `address`, int64."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        emit_prefetch(builder, builder.inttoptr(arguments[0], cgutils.voidptr_t))
        return context.get_dummy_value()

    return types.void(address), codegen


@intrinsic
def widened(_context: Any, value: Any) -> Any:
    """Returns `value`, float32 or the bits of a float16 as uint16, as float32: numba has no float16 on the CPU."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        if value == types.float32:
            return arguments[0]
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    assert value in {types.float32, types.uint16}
    return types.float32(value), codegen

"""Prefetching for kernels whose next reads are known and far apart."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


def emit_prefetch(builder: Any, address: Any) -> None:
    """Emits a prefetch of `address`, an untyped pointer."""
    i32 = ir.IntType(32)
    function = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32])
    callee = cgutils.get_or_insert_function(builder.module, function, "llvm.prefetch.p0")
    read, keep, data = i32(0), i32(3), i32(1)
    builder.call(callee, [address, read, keep, data])


@intrinsic
def prefetch(_context: Any, array: Any, index: Any) -> Any:
    """Prefetches the cache line of `array[index]` (one dimension, contiguous)."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(array)(context, builder, arguments[0])
        emit_prefetch(builder, builder.bitcast(builder.gep(view.data, [arguments[1]]), cgutils.voidptr_t))
        return context.get_dummy_value()

    return types.void(array, index), codegen

"""Numba intrinsics for kernels over rows: pointers, prefetching, and 16-bit numbers, which numba lacks.

Kernels see the bits of float16 as uint16 and of bfloat16 as int16.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_WORD = ir.IntType(32)


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
    """Returns `value`, the bits of float16 or bfloat16, as float32; float32 and float64 unchanged."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        if isinstance(value, types.Float):
            return arguments[0]
        if value == types.uint16:
            return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())
        bits = builder.shl(builder.zext(arguments[0], _WORD), _WORD(16))
        return builder.bitcast(bits, ir.FloatType())

    assert value in {types.float32, types.float64, types.uint16, types.int16}
    return (value if value == types.float64 else types.float32)(value), codegen


@intrinsic
def narrowed(_context: Any, value: Any, like: Any) -> Any:
    """Returns `value` as an entry of the array `like`: of its own type, or float32 as bfloat16, rounded to even."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        if like.dtype == value:
            return arguments[0]
        bits = builder.bitcast(arguments[0], _WORD)
        upper = builder.lshr(bits, _WORD(16))
        half = builder.add(builder.and_(upper, _WORD(1)), _WORD(0x7FFF))
        rounded = builder.lshr(builder.add(bits, half), _WORD(16))
        # Rounding could turn a NaN into infinity.
        is_nan = builder.fcmp_unordered("uno", arguments[0], arguments[0])
        return builder.trunc(builder.select(is_nan, builder.or_(upper, _WORD(0x40)), rounded), ir.IntType(16))

    assert like.dtype == value or (value, like.dtype) == (types.float32, types.int16)
    return like.dtype(value, like), codegen

"""Scalar building blocks that LLVM vectorises: bfloat16 conversion and an exponential.

bfloat16 lives in uint16 arrays here (numba has no such type). The three intrinsics are plain bit operations, so a
loop over them becomes vector code on any instruction set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, njit, types

FASTMATH = {"reassoc", "contract", "nsz", "arcp"}  # not "nnan"/"ninf": rows may hold infinities
JIT: dict[str, Any] = {"cache": True, "nogil": True, "fastmath": FASTMATH, "error_model": "numpy"}

intrinsic: Any = extending.intrinsic  # its stub describes the undecorated function

_I32 = ir.IntType(32)
_F32 = ir.FloatType()


@intrinsic
def widen(typingctx: Any, value: Any) -> Any:
    """float32 of an array element: float32 itself, or bfloat16 bits in a uint16."""
    if value == types.float32:
        return types.float32(types.float32), lambda context, builder, signature, args: args[0]
    if value != types.uint16:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.shl(builder.zext(args[0], _I32), ir.Constant(_I32, 16))
        return builder.bitcast(bits, _F32)

    return types.float32(types.uint16), codegen


@intrinsic
def narrow(typingctx: Any, value: Any, like: Any) -> Any:
    """Element for an array whose elements are like ``like`` (float32, or uint16 for bfloat16 rounded to even)."""
    if value != types.float32:
        return None
    if like == types.float32:
        return types.float32(types.float32, types.float32), lambda context, builder, signature, args: args[0]
    if like != types.uint16:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], _I32)
        odd = builder.and_(builder.lshr(bits, ir.Constant(_I32, 16)), ir.Constant(_I32, 1))
        rounded = builder.add(bits, builder.add(odd, ir.Constant(_I32, 0x7FFF)))
        # Rounding could carry a NaN's bits into an infinity: keep it a quiet NaN.
        is_nan = builder.fcmp_unordered("uno", args[0], args[0])
        rounded = builder.select(is_nan, builder.or_(bits, ir.Constant(_I32, 0x400000)), rounded)
        return builder.trunc(builder.lshr(rounded, ir.Constant(_I32, 16)), ir.IntType(16))

    return types.uint16(types.float32, types.uint16), codegen


@intrinsic
def _power_of_two(typingctx: Any, exponent: Any) -> Any:
    """2 ** exponent (int32 in [-126, 127]) by writing the exponent bits."""
    if exponent != types.int32:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.shl(builder.add(args[0], ir.Constant(_I32, 127)), ir.Constant(_I32, 23))
        return builder.bitcast(bits, _F32)

    return types.float32(types.int32), codegen


@njit(inline="always", **JIT)
def exp(x: Any) -> Any:
    """e ** x for float32, within 2 ulp; x is clamped to [-87, 88].

    Range reduction and polynomial of Cephes' expf (Moshier). The C library's expf is a scalar call that keeps the
    loops around it scalar: 1.1 million of them a step (batch 16, context 256) cost more than the attention's sums.
    """
    x = min(max(x, np.float32(-87.0)), np.float32(88.0))
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    return (p * r * r + r + np.float32(1.0)) * _power_of_two(np.int32(n))


__all__ = ["FASTMATH", "JIT", "exp", "narrow", "widen"]

"""Sixteen float32 at once, as a numba type.

numba indexes arrays with numbers that may be negative, and the checks keep LLVM from vectorising many loops; it also
stops at 256 bits on most processors. `Floats` says what is meant: values of this type are loaded from and stored to
addresses (int64), and any processor gets code for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

from structgen.kernels.cpu.bits import intrinsic

LANES = 16
I8, I16, I32, I64, F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
INTS = ir.VectorType(I32, LANES)
FLOATS = ir.VectorType(F32, LANES)


class Floats(types.Type):
    """16 float32."""

    def __init__(self) -> None:
        super().__init__(name="Floats16")


floats = Floats()


@register_model(Floats)
class _FloatsModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, FLOATS)


def constant(kind: Any, value: Any, lanes: int = LANES) -> Any:
    """A vector of equal elements."""
    return ir.Constant(ir.VectorType(kind, lanes), [value] * lanes)


def number(value: int) -> Any:
    return ir.Constant(I64, value)


def load_from(builder: Any, address: Any, kind: Any, align: int) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=align)


def store_to(builder: Any, value: Any, address: Any, align: int) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=align)


def splat_of(builder: Any, value: Any) -> Any:
    """A vector of one run-time value."""
    kind = ir.VectorType(value.type, LANES)
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    return builder.shuffle_vector(single, ir.Constant(kind, ir.Undefined), constant(I32, 0))


def call_llvm(builder: Any, name: str, result: Any, *args: Any) -> Any:
    """Call an LLVM intrinsic by its full name."""
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def prefetch(builder: Any, address: Any) -> None:
    """Fetch the cache line of an address for reading; any address will do."""
    pointer = builder.inttoptr(address, I8.as_pointer())
    read, everywhere, data = (ir.Constant(I32, value) for value in (0, 3, 1))
    call_llvm(builder, "llvm.prefetch.p0", ir.VoidType(), pointer, read, everywhere, data)


def fma_of(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return call_llvm(builder, "llvm.fma.v16f32", FLOATS, a, b, c)


def bf16_of(builder: Any, address: Any) -> Any:
    """16 bfloat16 as float32."""
    stored = load_from(builder, address, ir.VectorType(I16, LANES), 2)
    return builder.bitcast(builder.shl(builder.zext(stored, INTS), constant(I32, 16)), FLOATS)


def _define(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: ``codegen(builder, *values) -> value`` becomes a function of those numba types."""

    def make(emit: Callable[..., Any]) -> Any:
        def typer(typingctx: Any, *given: Any) -> Any:
            def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                value = emit(builder, *values)
                return context.get_dummy_value() if value is None else value

            return result(*arguments), codegen

        # numba reads the number of arguments off the function's signature.
        names = ", ".join(f"a{i}" for i in range(len(arguments)))
        scope: dict[str, Any] = {"typer": typer}
        exec(f"def {emit.__name__}(typingctx, {names}): return typer(typingctx, {names})", scope)
        function = scope[emit.__name__]
        function.__doc__ = emit.__doc__
        function.__module__ = __name__
        return intrinsic(function)

    return make


@_define(floats, types.int64)
def load(builder: Any, address: Any) -> Any:
    """16 float32 at an address."""
    return load_from(builder, address, FLOATS, 4)


@_define(types.void, types.int64, floats)
def store(builder: Any, address: Any, value: Any) -> None:
    store_to(builder, value, address, 4)


@_define(floats, types.float32)
def splat(builder: Any, value: Any) -> Any:
    return splat_of(builder, value)


@_define(floats, floats, floats)
def add(builder: Any, a: Any, b: Any) -> Any:
    return builder.fadd(a, b)


@_define(floats, floats, floats)
def sub(builder: Any, a: Any, b: Any) -> Any:
    return builder.fsub(a, b)


@_define(floats, floats, floats)
def mul(builder: Any, a: Any, b: Any) -> Any:
    return builder.fmul(a, b)


@_define(floats, floats, floats)
def div(builder: Any, a: Any, b: Any) -> Any:
    return builder.fdiv(a, b)


@_define(floats, floats, floats, floats)
def fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once."""
    return fma_of(builder, a, b, c)


def _largest(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


@_define(floats, floats, floats)
def larger(builder: Any, a: Any, b: Any) -> Any:
    """The larger of each pair; b where one is NaN."""
    return _largest(builder, a, b)


@_define(floats, floats)
def size(builder: Any, a: Any) -> Any:
    """Absolute values."""
    return call_llvm(builder, "llvm.fabs.v16f32", FLOATS, a)


def _fold(builder: Any, value: Any, join: Callable[[Any, Any, Any], Any]) -> Any:
    """One element from 16: halves are joined with halves, so that the order is the same on all processors."""
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        kind = ir.VectorType(I32, lanes)
        low = builder.shuffle_vector(value, value, ir.Constant(kind, list(range(lanes))))
        high = builder.shuffle_vector(value, value, ir.Constant(kind, list(range(lanes, 2 * lanes))))
        value = join(builder, low, high)
    return builder.extract_element(value, ir.Constant(I32, 0))


@_define(types.float32, floats)
def total(builder: Any, a: Any) -> Any:
    """Sum of the 16."""
    return _fold(builder, a, lambda builder, low, high: builder.fadd(low, high))


@_define(types.float32, floats)
def largest(builder: Any, a: Any) -> Any:
    """Largest of the 16."""
    return _fold(builder, a, _largest)


def _all(value: float) -> Any:
    return constant(F32, value)


def _exp(builder: Any, x: Any) -> Any:
    x = _largest(builder, x, _all(-87.0))
    x = builder.select(builder.fcmp_ordered("<", x, _all(88.0)), x, _all(88.0))
    n = call_llvm(builder, "llvm.floor.v16f32", FLOATS, fma_of(builder, x, _all(1.44269504), _all(0.5)))
    r = fma_of(builder, n, _all(-0.693359375), x)
    r = fma_of(builder, n, _all(2.12194440e-4), r)
    p = _all(1.9875691500e-4)
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = fma_of(builder, p, r, _all(factor))
    value = builder.fadd(fma_of(builder, builder.fmul(p, r), r, r), _all(1.0))
    power = builder.shl(builder.add(builder.fptosi(n, INTS), constant(I32, 127)), constant(I32, 23))
    return builder.fmul(value, builder.bitcast(power, FLOATS))


@_define(floats, floats)
def exp(builder: Any, x: Any) -> Any:
    """e ** x within 2 ulp, x clamped to [-87, 88]: Cephes' expf (Moshier), as `bits.exp`."""
    return _exp(builder, x)


@_define(floats, floats)
def exp_or_0(builder: Any, x: Any) -> Any:
    """e ** x, and 0 for -inf."""
    shown = builder.fcmp_ordered(">", x, constant(F32, -3.0e38))
    return builder.select(shown, _exp(builder, x), constant(F32, 0.0))


@_define(floats, floats, types.float32)
def remainder(builder: Any, a: Any, factor: Any) -> Any:
    """What rounding to even leaves of a times ``factor``: between -0.5 and 0.5."""
    scaled = builder.fmul(a, splat_of(builder, factor))
    return builder.fsub(scaled, call_llvm(builder, "llvm.rint.v16f32", FLOATS, scaled))


@_define(types.int32, types.int64, floats, floats, types.float32)
def store_bytes(builder: Any, address: Any, low: Any, high: Any, factor: Any) -> Any:
    """Store 32 int8: low and high times ``factor``, rounded to even; returns their sum."""
    by = splat_of(builder, factor)
    whole = [
        builder.fptosi(call_llvm(builder, "llvm.rint.v16f32", FLOATS, builder.fmul(half, by)), INTS)
        for half in (low, high)
    ]
    for i, half in enumerate(whole):
        narrow = builder.trunc(half, ir.VectorType(I8, LANES))
        store_to(builder, narrow, builder.add(address, ir.Constant(I64, 16 * i)), 1)
    return _fold(builder, builder.add(*whole), lambda builder, a, b: builder.add(a, b))


@_define(floats, floats, types.int64, types.int64, types.int64)
def keep(builder: Any, a: Any, first: Any, low: Any, high: Any) -> Any:
    """a where its place is in [low, high), else -inf; element i has place first + i."""
    index = builder.add(splat_of(builder, first), ir.Constant(ir.VectorType(I64, LANES), list(range(LANES))))
    below = builder.icmp_signed("<", index, splat_of(builder, high))
    inside = builder.and_(builder.icmp_signed(">=", index, splat_of(builder, low)), below)
    return builder.select(inside, a, constant(F32, float("-inf")))


@_define(types.void, types.int64, types.int64, floats)
def store_bf16(builder: Any, address: Any, stride: Any, value: Any) -> None:
    """Store as bfloat16, rounded to even, ``stride`` bytes from one to the next."""
    bits = builder.bitcast(value, INTS)
    odd = builder.and_(builder.lshr(bits, constant(I32, 16)), constant(I32, 1))
    rounded = builder.add(bits, builder.add(odd, constant(I32, 0x7FFF)))
    is_nan = builder.fcmp_unordered("uno", value, value)
    rounded = builder.select(is_nan, builder.or_(bits, constant(I32, 0x400000)), rounded)
    short = builder.trunc(builder.lshr(rounded, constant(I32, 16)), ir.VectorType(I16, LANES))
    for i in range(LANES):
        place = builder.add(address, builder.mul(stride, ir.Constant(I64, i)))
        store_to(builder, builder.extract_element(short, ir.Constant(I32, i)), place, 2)

"""Register tiles: the two inner loops in which the step spends its time, emitted as LLVM vector code.

A tile's rows (tokens, or queries) are a compile-time count, so that sums stay in registers; whatever the count, a row's
sums are made in one order, so its results do not depend on what else is in the batch.

Memory is passed as addresses (int64): an array costs seven words a call. Which instructions multiply bytes is chosen by
the *type* of the first argument, since numba's disk cache tells functions apart by their argument types:

=============  ==================================================================
uint8          `PORTABLE`: plain vector arithmetic, on any processor
uint16         `AVX2`: vpmaddubsw and vpmaddwd, 256 bits
uint32         `VNNI`: vpdpbusd of AVX512-VNNI, 512 bits
=============  ==================================================================

Its value is the number of tokens whose sums fit into the registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils

from structgen.kernels.cpu.bits import intrinsic
from structgen.kernels.cpu.step.vector import (
    F32,
    FLOATS,
    I8,
    I16,
    I32,
    INTS,
    bf16_of,
    call_llvm,
    constant,
    fma_of,
    load_from,
    number,
    prefetch,
    splat_of,
    store_to,
)

Isa = Any
PORTABLE: Isa = np.uint8(2)
AVX2: Isa = np.uint16(2)
VNNI: Isa = np.uint32(4)

ROWS = 32  # weight rows of a tile
GROUP = 32  # inputs that share one activation scale
BLOCK = 64  # weights of a row that share one scale
BLOCK_BYTES = ROWS * BLOCK + 2 * ROWS  # of a tile's weights and scales

def find_isa() -> Isa:
    """The fastest way to multiply bytes that this processor has."""
    features = binding.get_host_cpu_features()
    if features.get("avx512vnni") and features.get("avx512vl"):
        return VNNI
    return AVX2 if features.get("avx2") else PORTABLE


# -- products of bytes: sums int32 [16] += weights uint8 [16][4] . activations int8 [4] --------------------------------
# Weights are stored plus 128. VNNI takes them so, and the sums start at -128 * (sum of the activations); the others
# take the 128 off. All three give the same integers.


def _dot_vnni(builder: Any, sums: Any, weights: Any, activations: Any) -> Any:
    return call_llvm(
        builder, "llvm.x86.avx512.vpdpbusd.512", INTS, sums, *_vnni_operands(builder, weights, activations)
    )


def _vnni_operands(builder: Any, weights: Any, activations: Any) -> tuple[Any, Any]:
    if binding.llvm_version_info[0] >= 22:  # the intrinsic's operands were dwords before
        kind = ir.VectorType(I8, 64)
        return builder.bitcast(weights, kind), builder.bitcast(activations, kind)
    return weights, activations


def _dot_avx2(builder: Any, sums: Any, weights: Any, activations: Any) -> Any:
    """|w| * (sign of w * a): the 16-bit sums of two products stay below 2 * 127 * 127, so they cannot saturate."""
    bytes_, shorts, ints = ir.VectorType(I8, 32), ir.VectorType(I16, 16), ir.VectorType(I32, 8)
    halves = []
    for half in range(2):
        lanes = ir.Constant(ir.VectorType(I32, 8), [8 * half + i for i in range(8)])
        pick = [builder.shuffle_vector(x, x, lanes) for x in (sums, weights, activations)]
        signed = builder.bitcast(builder.xor(pick[1], constant(I32, 0x80808080, 8)), bytes_)
        size = call_llvm(builder, "llvm.abs.v32i8", bytes_, signed, ir.Constant(ir.IntType(1), 0))
        turned = call_llvm(builder, "llvm.x86.avx2.psign.b", bytes_, builder.bitcast(pick[2], bytes_), signed)
        pairs = call_llvm(builder, "llvm.x86.avx2.pmadd.ub.sw", shorts, size, turned)
        quads = call_llvm(builder, "llvm.x86.avx2.pmadd.wd", ints, pairs, constant(I16, 1, 16))
        halves.append(builder.add(pick[0], quads))
    lanes = ir.Constant(ir.VectorType(I32, 16), list(range(16)))
    return builder.shuffle_vector(halves[0], halves[1], lanes)


def _dot_portable(builder: Any, sums: Any, weights: Any, activations: Any) -> Any:
    """Byte i of each lane: shifted to the top and back, so that its sign spreads."""
    weights = builder.xor(weights, constant(I32, 0x80808080))
    for i in range(4):
        lifted = [builder.shl(x, constant(I32, 24 - 8 * i)) for x in (weights, activations)]
        w, a = (builder.ashr(x, constant(I32, 24)) for x in lifted)
        sums = builder.add(sums, builder.mul(w, a))
    return sums


_DOTS: dict[Any, Callable[..., Any]] = {
    types.uint8: _dot_portable,
    types.uint16: _dot_avx2,
    types.uint32: _dot_vnni,
}


def _linear_tile(tokens: int, rows_of_one: int = 1) -> Any:
    """A tile over ``tokens`` rows of inputs; ``rows_of_one`` at a time are one token's, and their sums are added."""

    @intrinsic
    def tile(
        typingctx: Any,
        isa: Any,
        weights: Any,
        ahead: Any,
        blocks: Any,
        inputs: Any,
        input_scales: Any,
        input_sums: Any,
        out: Any,
        out_stride: Any,
    ) -> Any:
        """out f32 [tokens / rows_of_one, 32] = inputs [tokens, K] . weights [32, K]^T, K = 64 * blocks.

        Args:
            weights: `BLOCK_BYTES` a block, 64-byte aligned: uint8 [16][2][16][4] plus 128, bfloat16 [32] scales.
            ahead: what to fetch into the cache meanwhile: 512 bytes of each block from here on.
            inputs: int8 [tokens, K].
            input_scales, input_sums: f32 and int32 [tokens, K / 32]; sums are times -128.
            out_stride: elements from token to token.
        """

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _, w, ahead, blocks, x, xs, xn, out, stride = args
            dot = _DOTS[signature.args[0]]
            has_sums = signature.args[0] == types.uint32
            size = builder.mul(blocks, number(BLOCK))
            places = builder.mul(blocks, number(2 * 4))  # bytes of a token's scales
            sums = [[cgutils.alloca_once_value(builder, constant(F32, 0.0)) for _ in range(2)] for _ in range(tokens)]
            with cgutils.for_range(builder, blocks) as loop:
                behind = builder.mul(loop.index, number(BLOCK_BYTES))
                block = builder.add(w, behind)
                for line in range(8):
                    prefetch(builder, builder.add(builder.add(ahead, behind), number(64 * line)))
                at_input = builder.add(x, builder.mul(loop.index, number(BLOCK)))
                place = builder.mul(loop.index, number(2 * 4))
                rows = [builder.add(at_input, builder.mul(size, number(m))) for m in range(tokens)]
                marks = [builder.add(place, builder.mul(places, number(m))) for m in range(tokens)]
                parts: list[list[Any]] = [[None, None] for _ in range(tokens)]
                for group in range(BLOCK // GROUP):
                    _add_group(builder, dot, has_sums, block, rows, (xs, xn), marks, parts, group)
                for half in range(2):
                    scale = bf16_of(builder, builder.add(block, number(ROWS * BLOCK + 32 * half)))
                    for m in range(tokens):
                        total = fma_of(builder, parts[m][half], scale, builder.load(sums[m][half]))
                        builder.store(total, sums[m][half])
            for m in range(tokens // rows_of_one):
                for half in range(2):
                    first, *others = (builder.load(sums[m * rows_of_one + i][half]) for i in range(rows_of_one))
                    value = builder.fadd(first, others[0]) if others else first
                    place = builder.add(builder.mul(stride, number(m)), number(16 * half))
                    store_to(builder, value, builder.add(out, builder.mul(place, number(4))), 4)
            return context.get_dummy_value()

        return types.void(isa, *(types.int64,) * 8), codegen

    return tile


def _add_group(
    builder: Any, dot: Any, has_sums: bool, block: Any, rows: Any, scales: Any, marks: Any, parts: Any, group: int
) -> None:
    """parts [tokens][2] += the products of one group of inputs, times its scale."""
    scales_at, sums_at = (
        [builder.add(builder.add(base, mark), number(4 * group)) for mark in marks] for base in scales
    )
    zero = constant(I32, 0)
    starts = [splat_of(builder, load_from(builder, at, I32, 4)) if has_sums else zero for at in sums_at]
    whole = [[start, start] for start in starts]
    for quad in range(GROUP // 4):
        at = builder.add(block, number(ROWS * GROUP * group + 128 * quad))
        low = load_from(builder, at, INTS, 64)
        high = load_from(builder, builder.add(at, number(64)), INTS, 64)
        for m, row in enumerate(rows):
            four = load_from(builder, builder.add(row, number(GROUP * group + 4 * quad)), I32, 4)
            a = splat_of(builder, four)
            whole[m] = [dot(builder, whole[m][0], low, a), dot(builder, whole[m][1], high, a)]
    for m, at in enumerate(scales_at):
        scale = splat_of(builder, load_from(builder, at, F32, 4))
        for half in range(2):
            value = builder.sitofp(whole[m][half], FLOATS)
            before = parts[m][half]
            fresh = builder.fmul(value, scale) if before is None else fma_of(builder, value, scale, before)
            parts[m][half] = fresh


def _mix_tile(rows: int, columns: int) -> Any:
    @intrinsic
    def tile(
        typingctx: Any,
        factors: Any,
        factor_stride: Any,
        count: Any,
        first: Any,
        second: Any,
        third: Any,
        fourth: Any,
        vector_stride: Any,
        out: Any,
        out_stride: Any,
    ) -> Any:
        """out f32 [rows, columns * 16] += sum over j < count of factors f32 [rows, j] * vectors bf16 [j, columns * 16].

        ``first`` to ``fourth`` are where the vectors of each column begin; strides are elements from row to row.
        Scores: factors are queries, a column the keys of 16 positions by dimension; outputs: factors are
        probabilities, a column 16 dimensions of the values by position.
        """

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            a, a_stride, count, *four, b_stride, out, out_stride = args
            columns_at = four[:columns]
            places = [
                [
                    builder.add(builder.add(out, builder.mul(out_stride, number(4 * m))), number(64 * n))
                    for n in range(columns)
                ]
                for m in range(rows)
            ]
            starts = [builder.add(a, builder.mul(a_stride, number(4 * m))) for m in range(rows)]
            sums = [
                [cgutils.alloca_once_value(builder, load_from(builder, place, FLOATS, 4)) for place in row]
                for row in places
            ]
            step = builder.mul(b_stride, number(2))
            with cgutils.for_range(builder, count) as loop:
                ahead = builder.mul(loop.index, step)
                vectors = [bf16_of(builder, builder.add(column, ahead)) for column in columns_at]
                offset = builder.mul(loop.index, number(4))
                for m in range(rows):
                    factor = splat_of(builder, load_from(builder, builder.add(starts[m], offset), F32, 4))
                    for n in range(columns):
                        builder.store(fma_of(builder, factor, vectors[n], builder.load(sums[m][n])), sums[m][n])
            for m in range(rows):
                for n in range(columns):
                    store_to(builder, builder.load(sums[m][n]), places[m][n], 4)
            return context.get_dummy_value()

        return types.void(*(types.int64,) * 10), codegen

    return tile


linear_1, linear_2, linear_4 = _linear_tile(1), _linear_tile(2), _linear_tile(4)
fine_1, fine_2 = _linear_tile(2, 2), _linear_tile(4, 2)
mix_1, mix_3, mix_4, mix_6 = _mix_tile(1, 4), _mix_tile(3, 4), _mix_tile(4, 4), _mix_tile(6, 4)
narrow_1, narrow_4 = _mix_tile(1, 1), _mix_tile(4, 1)

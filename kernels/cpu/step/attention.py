"""Attention of the step, over a paged bfloat16 cache: keys by dimension, values by position, 16 positions a block.

A few consecutive tokens of a sequence and all query heads of one KV head go together, so that a block is read once for
them. Softmax is taken over chunks of positions (Milakov & Gimelshein 2018, arXiv:1805.02867) whose bounds are multiples
of `CHUNK`: a token's sums are made in the same order in whatever company it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from structgen.kernels.cpu.bits import JIT, exp
from structgen.kernels.cpu.step import vector
from structgen.kernels.cpu.step.tiles import mix_1, mix_3, mix_4, mix_6, narrow_1, narrow_4

BLOCK = 16
CHUNK = 128
TOKENS = 4  # of a tile


def scratch_size(group: int, head_dim: int) -> int:
    """float32 that a thread needs: queries, outputs, scores, maxima, sums of the rows of a tile."""
    return TOKENS * group * (2 * head_dim + CHUNK + 2)


@njit(**JIT)
def _mix(
    rows: Any, factors: Any, factor_stride: Any, count: Any, v0: Any, v1: Any, v2: Any, v3: Any, vector_stride: Any,
    out: Any, stride: Any,
) -> None:  # fmt: skip
    """`mix_1` of any number of rows."""
    r = np.int64(0)
    while r < rows:
        at, to = factors + 4 * r * factor_stride, out + 4 * r * stride
        if rows - r >= 6:
            mix_6(at, factor_stride, count, v0, v1, v2, v3, vector_stride, to, stride)
            r += 6
        elif rows - r >= 4:
            mix_4(at, factor_stride, count, v0, v1, v2, v3, vector_stride, to, stride)
            r += 4
        elif rows - r == 3:
            mix_3(at, factor_stride, count, v0, v1, v2, v3, vector_stride, to, stride)
            r += 3
        else:
            mix_1(at, factor_stride, count, v0, v1, v2, v3, vector_stride, to, stride)
            r += 1


@njit(**JIT)
def _narrow(
    rows: Any, factors: Any, factor_stride: Any, count: Any, vectors: Any, vector_stride: Any, out: Any, stride: Any
) -> None:
    """`_mix` of one column."""
    r = np.int64(0)
    while r < rows:
        at, to = factors + 4 * r * factor_stride, out + 4 * r * stride
        if rows - r >= 4:
            narrow_4(at, factor_stride, count, vectors, vectors, vectors, vectors, vector_stride, to, stride)
            r += 4
        else:
            narrow_1(at, factor_stride, count, vectors, vectors, vectors, vectors, vector_stride, to, stride)
            r += 1


@njit(**JIT)
def _softmax_row(scores: Any, out: Any, dim: Any, largest: Any, sums: Any, low: Any, high: Any, cap: Any) -> Any:
    """Scores (in place) to weights, those outside [low, high) to 0; the row's output and sum so far are scaled to fit.

    scores, out: addresses; returns the new (largest score, sum of weights).
    """
    minus = np.float32(-np.inf)
    top = vector.splat(largest)
    for j in range(0, CHUNK, 16):
        at = scores + 4 * j
        if cap > 0:  # tanh(x) = 1 - 2 / (e^2x + 1)
            turned = vector.exp(vector.mul(vector.load(at), vector.splat(np.float32(2) / cap)))
            twice = vector.splat(np.float32(2) * cap)
            part = vector.div(twice, vector.add(turned, vector.splat(np.float32(1))))
            vector.store(at, vector.sub(vector.splat(cap), part))
        kept = vector.keep(vector.load(at), j, low, high)
        vector.store(at, kept)
        top = vector.larger(top, kept)
    new = vector.largest(top)
    shift = vector.splat(new if new > minus else np.float32(0))
    parts = vector.splat(np.float32(0))
    for j in range(0, CHUNK, 16):
        weight = vector.exp_or_0(vector.sub(vector.load(scores + 4 * j), shift))
        vector.store(scores + 4 * j, weight)
        parts = vector.add(parts, weight)
    if new == largest:
        return new, sums + vector.total(parts)
    factor = exp(largest - new) if largest > minus else np.float32(0)
    for d in range(0, dim, 16):
        vector.store(out + 4 * d, vector.mul(vector.load(out + 4 * d), vector.splat(factor)))
    return new, sums * factor + vector.total(parts)


@njit(**JIT)
def _block(table: Any, sequence: Any, begin: Any, b: Any, blocks: Any, per_block: Any) -> Any:
    """Number of the b-th block of 16 from position ``begin`` on; the last one's for those behind it."""
    number = begin // BLOCK + min(b, blocks - 1)
    return np.int64(table[sequence, number // per_block]) * per_block + number % per_block


@njit(**JIT)
def _attend(
    qkv: Any,
    out: Any,
    keys: Any,
    values: Any,
    base: Any,
    table: Any,
    sequence: Any,
    per_block: Any,
    first: Any,
    count: Any,
    position: Any,
    kv_head: Any,
    kv_heads: Any,
    group: Any,
    dim: Any,
    scale: Any,
    window: Any,
    cap: Any,
    scratch: Any,
    c: Any,
) -> None:
    """Tokens first .. first + count - 1, the first at ``position``, for the query heads of one KV head."""
    rows = count * group
    start_of = scratch.shape[1] * c
    queries = scratch.ctypes.data + 4 * start_of
    outs = queries + 4 * rows * dim
    scores = outs + 4 * rows * dim
    state = 2 * rows * dim + rows * CHUNK
    size = dim * BLOCK
    zeros = vector.splat(np.float32(0))
    for r in range(rows):
        t, head = first + r // group, kv_head * group + r % group
        at = qkv.ctypes.data + 4 * (t * qkv.shape[1] + head * dim)
        for d in range(0, dim, 16):
            vector.store(queries + 4 * (r * dim + d), vector.mul(vector.load(at + 4 * d), vector.splat(scale)))
            vector.store(outs + 4 * (r * dim + d), zeros)
        scratch[c, state + r] = np.float32(-np.inf)
        scratch[c, state + rows + r] = np.float32(0)
    last = position + count - 1
    start = max(position - window + 1, 0) if window > 0 else 0
    for chunk in range(start // CHUNK, last // CHUNK + 1):
        begin = chunk * CHUNK
        blocks = min(CHUNK // BLOCK, (last - begin) // BLOCK + 1)
        for i in range(0, rows * CHUNK, 16):
            vector.store(scores + 4 * i, zeros)
        heads = keys.ctypes.data + 2 * (base + kv_head * size)
        for b in range(0, blocks, 4):  # what is behind the last block is read again, and not kept
            v0 = heads + 2 * _block(table, sequence, begin, b, blocks, per_block) * kv_heads * size
            v1 = heads + 2 * _block(table, sequence, begin, b + 1, blocks, per_block) * kv_heads * size
            v2 = heads + 2 * _block(table, sequence, begin, b + 2, blocks, per_block) * kv_heads * size
            v3 = heads + 2 * _block(table, sequence, begin, b + 3, blocks, per_block) * kv_heads * size
            _mix(rows, queries, dim, dim, v0, v1, v2, v3, BLOCK, scores + 4 * b * BLOCK, CHUNK)
        for r in range(rows):
            own = position + r // group
            low = min(max(own - window + 1 - begin, 0), CHUNK) if window > 0 else np.int64(0)
            high = max(min(own + 1 - begin, CHUNK), 0)
            scratch[c, state + r], scratch[c, state + rows + r] = _softmax_row(
                scores + 4 * r * CHUNK, outs + 4 * r * dim, dim, scratch[c, state + r], scratch[c, state + rows + r],
                low, high, cap,
            )  # fmt: skip
        heads = values.ctypes.data + 2 * (base + kv_head * size)
        for b in range(blocks):
            at = heads + 2 * _block(table, sequence, begin, b, blocks, per_block) * kv_heads * size
            weights = scores + 4 * b * BLOCK
            d = np.int64(0)
            while d < dim:
                column = at + 2 * d
                if dim - d >= 64:
                    _mix(
                        rows, weights, CHUNK, BLOCK, column, column + 32, column + 64, column + 96, dim, outs + 4 * d,
                        dim,
                    )  # fmt: skip
                    d += 64
                else:
                    _narrow(rows, weights, CHUNK, BLOCK, column, dim, outs + 4 * d, dim)
                    d += 16
    for r in range(rows):
        t, head = first + r // group, kv_head * group + r % group
        to = out.ctypes.data + 4 * (t * out.shape[1] + head * dim)
        inverse = vector.splat(np.float32(1) / scratch[c, state + rows + r])
        for d in range(0, dim, 16):
            vector.store(to + 4 * d, vector.mul(vector.load(outs + 4 * (r * dim + d)), inverse))


@njit(parallel=True, **JIT)
def attend(
    qkv: Any,
    out: Any,
    keys: Any,
    values: Any,
    base: Any,
    table: Any,
    per_block: Any,
    items: Any,
    num_items: Any,
    kv_heads: Any,
    group: Any,
    dim: Any,
    scale: Any,
    window: Any,
    cap: Any,
    scratch: Any,
) -> None:
    """All sequences of the step.

    Args:
        qkv: f32 [T, (heads + 2 kv_heads) * dim], rotated; out: f32 [T, heads * dim].
        keys, values: uint16 (bfloat16), from ``base`` on [blocks, kv_heads, dim, 16] and [blocks, kv_heads, 16, dim].
        table: int32 [S, max_blocks]; a block of the table is ``per_block`` blocks of 16.
        items: int32 [num_items, 4]: sequence, first token, tokens, position of the first.
        window: 0 for none; cap: 0 for none.
        scratch: f32 [threads, `scratch_size`].
    """
    threads = scratch.shape[0]
    work = num_items * kv_heads
    for i in prange(threads):
        c = np.int64(i)
        for w in range(c, work, threads):
            item, kv_head = w // kv_heads, w % kv_heads
            sequence, first = np.int64(items[item, 0]), np.int64(items[item, 1])
            count, position = np.int64(items[item, 2]), np.int64(items[item, 3])
            _attend(
                qkv, out, keys, values, base, table, sequence, per_block, first, count, position, kv_head, kv_heads,
                group, dim, scale, window, cap, scratch, c,
            )  # fmt: skip


@njit(**JIT)
def rotate_and_store(
    qkv: Any,
    t: Any,
    position: Any,
    slot: Any,
    cos_sin: Any,
    angles: Any,
    keys: Any,
    values: Any,
    base: Any,
    heads: Any,
    kv_heads: Any,
    dim: Any,
    half: Any,
) -> None:
    """Rotate queries and keys of token ``t`` by row ``angles + position`` of cos_sin, and store its keys and values.

    Dimension d turns with d + half. A slot of -1 is none.
    """
    row = qkv.ctypes.data + 4 * t * qkv.shape[1]
    cosines = cos_sin.ctypes.data + 4 * (angles + position) * cos_sin.shape[1]
    if half % 16 == 0:
        for h in range(heads + kv_heads):
            for d in range(0, half, 16):
                at = row + 4 * (h * dim + d)
                cos, sin = vector.load(cosines + 4 * d), vector.load(cosines + 4 * (half + d))
                low, high = vector.load(at), vector.load(at + 4 * half)
                vector.store(at, vector.sub(vector.mul(low, cos), vector.mul(high, sin)))
                vector.store(at + 4 * half, vector.add(vector.mul(high, cos), vector.mul(low, sin)))
    else:
        for h in range(heads + kv_heads):
            for d in range(half):
                cosine, sine = cos_sin[angles + position, d], cos_sin[angles + position, half + d]
                first, second = qkv[t, h * dim + d], qkv[t, h * dim + half + d]
                qkv[t, h * dim + d] = first * cosine - second * sine
                qkv[t, h * dim + half + d] = second * cosine + first * sine
    if slot < 0:
        return
    for h in range(kv_heads):
        at = 2 * (base + (slot // BLOCK * kv_heads + h) * dim * BLOCK)
        lane = slot % BLOCK
        key, value = row + 4 * (heads + h) * dim, row + 4 * (heads + kv_heads + h) * dim
        for d in range(0, dim, 16):
            vector.store_bf16(keys.ctypes.data + at + 2 * (d * BLOCK + lane), 2 * BLOCK, vector.load(key + 4 * d))
            vector.store_bf16(values.ctypes.data + at + 2 * (lane * dim + d), 2, vector.load(value + 4 * d))

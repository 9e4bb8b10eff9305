"""The forward pass of an int8 decoder as one call, for any mix of decoded tokens, drafts and prefill chunks.

Weights are int8 with a scale for 64 of a row; the inputs of every product are int8 with a scale for each 32 values,
quantised per token; those of attention and of the head, which matter most, have as many bits again for what rounding
leaves (benchmarks/int8_accuracy.py). Sums are int32 within a group and float32 across; the residual stream is float32,
the KV cache bfloat16. All of a token's sums are made in one order, so its results are bit for bit those it would have
alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from structgen.kernels.cpu.bits import JIT, exp, widen
from structgen.kernels.cpu.step import vector
from structgen.kernels.cpu.step.attention import TOKENS, attend, rotate_and_store
from structgen.kernels.cpu.step.packing import unpack_row
from structgen.kernels.cpu.step.tiles import BLOCK, BLOCK_BYTES, fine_1, fine_2, linear_1, linear_2, linear_4

SERIAL = 4  # tokens up to which work of a token each is not worth a parallel region


class Shape(NamedTuple):
    """Sizes; those with "padded" in their description are multiples of 64, with zeros behind the real ones."""

    hidden: int  # real
    width: int  # hidden, padded
    inner: int  # feed-forward, padded
    heads: int
    kv_heads: int
    head_dim: int  # a multiple of 16, with zeros behind the real ones
    real_dim: int
    mixed: int  # heads * head_dim, padded
    vocab: int  # padded
    is_tied: bool
    is_gelu: bool
    has_row_norm: bool  # of all queries and keys of a token together, not of each head
    per_block: int  # blocks of 16 positions that a block of the engine is


class Factors(NamedTuple):
    """All float32."""

    eps: float
    embedding: float
    attention: float
    attention_cap: float  # 0: none
    residual: float
    logits: float
    logits_cap: float  # 0: none


class Layer(NamedTuple):
    """Columns of the table of layers: offsets in the weights (bytes) or the parameters (floats); -1: there is none."""

    qkv: int
    qkv_bias: int
    out: int
    out_bias: int
    gate_up: int
    gate_up_bias: int
    down: int
    down_bias: int
    before_attention: int
    after_attention: int
    before_mlp: int
    after_mlp: int
    q_norm: int
    k_norm: int
    window: int  # 0: none
    angles: int  # first row of its table of angles


COLUMN = Layer(*range(len(Layer._fields)))


class Inputs(NamedTuple):
    """What a product reads: quantised rows. int8 [T, K], f32 [T, K / 32], int32 [T, K / 32] (times -128)."""

    values: Any
    scales: Any
    sums: Any


# -- products ---------------------------------------------------------------------------------------------------------


@njit(**JIT)
def _tile_rows(
    isa: Any, weight: Any, blocks: Any, x: Any, xs: Any, xn: Any, out: Any, stride: Any, tokens: Any
) -> None:
    """32 weight rows for all tokens; all but the numbers are addresses."""
    t = np.int64(0)
    size, groups = blocks * BLOCK, blocks * 2
    while t < tokens:
        a, s, n, to = x + t * size, xs + 4 * t * groups, xn + 4 * t * groups, out + 4 * t * stride
        left = tokens - t
        # The next 32 rows are fetched while the tokens behind the first four go over these: a quarter each.
        ahead = weight + blocks * BLOCK_BYTES + 128 * t if t < 16 else weight
        if left >= 4 and isa >= 4:
            linear_4(isa, weight, ahead, blocks, a, s, n, to, stride)
            t += 4
        elif left >= 2:
            linear_2(isa, weight, ahead, blocks, a, s, n, to, stride)
            t += 2
        else:
            linear_1(isa, weight, ahead, blocks, a, s, n, to, stride)
            t += 1


@njit(**JIT)
def _fine_rows(
    isa: Any, weight: Any, blocks: Any, x: Any, xs: Any, xn: Any, out: Any, stride: Any, tokens: Any
) -> None:
    """`_tile_rows` of inputs with two rows a token."""
    t = np.int64(0)
    size, groups = blocks * BLOCK, blocks * 2
    while t < tokens:
        a, s, n, to = x + 2 * t * size, xs + 8 * t * groups, xn + 8 * t * groups, out + 4 * t * stride
        ahead = weight + blocks * BLOCK_BYTES + 256 * t if t < 8 else weight
        if tokens - t >= 2 and isa >= 4:
            fine_2(isa, weight, ahead, blocks, a, s, n, to, stride)
            t += 2
        else:
            fine_1(isa, weight, ahead, blocks, a, s, n, to, stride)
            t += 1


@njit(**JIT)
def _add_bias(bias: Any, out: Any, stride: Any, tokens: Any) -> None:
    """To 32 columns; all but ``tokens`` are addresses and bytes."""
    for t in range(tokens):
        for n in range(0, 128, 64):
            at = out + t * stride + n
            vector.store(at, vector.add(vector.load(at), vector.load(bias + n)))


@njit(**JIT)
def _activate(gate_up: Any, is_gelu: Any, out: Any) -> None:
    """out [16] = act(gate) * up, of 16 gates and 16 ups; gelu in its tanh form, as `fused.gelu_mul`."""
    gate, up, one = vector.load(gate_up), vector.load(gate_up + 64), vector.splat(np.float32(1))
    bent = vector.sub(vector.splat(np.float32(0)), gate)
    if is_gelu:
        square = vector.mul(vector.mul(gate, gate), vector.splat(np.float32(0.044715)))
        bent = vector.mul(vector.fma(square, gate, gate), vector.splat(np.float32(-1.5957691216057308)))
    vector.store(out, vector.mul(vector.div(gate, vector.add(one, vector.exp(bent))), up))


@njit(parallel=True, **JIT)
def _linear(
    isa: Any,
    weights: Any,
    at: Any,
    params: Any,
    bias: Any,
    rows: Any,
    size: Any,
    x: Any,
    tokens: Any,
    out: Any,
    is_fine: Any,
) -> None:
    """out f32 [T, rows] = x . W^T + b; rows and size are padded; fine: x has two rows a token (`_quantise_fine`)."""
    for i in prange(rows // 32):
        row = np.int64(i) * 32
        weight = weights.ctypes.data + at + row // 32 * (size // BLOCK) * BLOCK_BYTES
        a, s, n, to = x.values.ctypes.data, x.scales.ctypes.data, x.sums.ctypes.data, out.ctypes.data + 4 * row
        if is_fine:
            _fine_rows(isa, weight, size // BLOCK, a, s, n, to, out.shape[1], tokens)
        else:
            _tile_rows(isa, weight, size // BLOCK, a, s, n, to, out.shape[1], tokens)
        if bias >= 0:
            _add_bias(params.ctypes.data + 4 * (bias + row), out.ctypes.data + 4 * row, 4 * out.shape[1], tokens)


@njit(parallel=True, **JIT)
def _gated(
    isa: Any,
    weights: Any,
    at: Any,
    params: Any,
    bias: Any,
    inner: Any,
    size: Any,
    x: Any,
    tokens: Any,
    both: Any,
    out: Any,
    is_gelu: Any,
) -> None:
    """out f32 [T, inner] = act(x . G^T) * (x . U^T); a tile is 16 rows of the gate, then the 16 of up."""
    for i in prange(inner // 16):
        row = np.int64(i) * 32
        _tile_rows(
            isa,
            weights.ctypes.data + at + row // 32 * (size // BLOCK) * BLOCK_BYTES,
            size // BLOCK,
            x.values.ctypes.data,
            x.scales.ctypes.data,
            x.sums.ctypes.data,
            both.ctypes.data + 4 * row,
            both.shape[1],
            tokens,
        )
        at_both, stride = both.ctypes.data + 4 * row, 4 * both.shape[1]
        if bias >= 0:
            _add_bias(params.ctypes.data + 4 * (bias + row), at_both, stride, tokens)
        for t in range(tokens):
            _activate(at_both + t * stride, is_gelu, out.ctypes.data + 4 * (t * inner + row // 2))


# -- work of one token ------------------------------------------------------------------------------------------------


@njit(**JIT)
def _quantise(x: Any, t: Any, size: Any, to: Any) -> None:
    """x: address of f32 [size] -> row t of ``to``."""
    values = to.values.ctypes.data + t * size
    groups = size // 32
    for g in range(groups):
        low, high = vector.load(x + 128 * g), vector.load(x + 128 * g + 64)
        largest = vector.largest(vector.larger(vector.size(low), vector.size(high)))
        inverse = np.float32(127) / largest if largest > 0 else np.float32(0)
        sums = vector.store_bytes(values + 32 * g, low, high, inverse)
        to.scales[t * groups + g] = largest * np.float32(1 / 127)
        to.sums[t * groups + g] = -128 * sums


@njit(**JIT)
def _quantise_fine(x: Any, t: Any, size: Any, to: Any) -> None:
    """As `_quantise`, into rows 2 t and 2 t + 1: the second holds what rounding left of the first, 254 times finer."""
    values = to.values.ctypes.data + 2 * t * size
    groups = size // 32
    for g in range(groups):
        low, high = vector.load(x + 128 * g), vector.load(x + 128 * g + 64)
        largest = vector.largest(vector.larger(vector.size(low), vector.size(high)))
        inverse = np.float32(127) / largest if largest > 0 else np.float32(0)
        scale = largest * np.float32(1 / 127)
        first, second = 2 * t * groups + g, (2 * t + 1) * groups + g
        to.scales[first] = scale
        to.sums[first] = -128 * vector.store_bytes(values + 32 * g, low, high, inverse)
        low, high = vector.remainder(low, inverse), vector.remainder(high, inverse)
        to.scales[second] = scale * np.float32(1 / 254)
        to.sums[second] = -128 * vector.store_bytes(values + size + 32 * g, low, high, np.float32(254))


@njit(**JIT)
def _inverse_root(x: Any, size: Any, real: Any, eps: Any) -> Any:
    """1 / root mean square of f32 [size] at address x."""
    sums = vector.splat(np.float32(0))
    for k in range(0, size, 16):
        value = vector.load(x + 4 * k)
        sums = vector.fma(value, value, sums)
    return np.float32(1) / np.sqrt(vector.total(sums) / np.float32(real) + eps)


@njit(**JIT)
def _scale(x: Any, size: Any, factor: Any, weight: Any, out: Any) -> None:
    """out = x * factor * weight; all but ``factor`` are addresses."""
    by = vector.splat(factor)
    for k in range(0, 4 * size, 64):
        vector.store(out + k, vector.mul(vector.mul(vector.load(x + k), by), vector.load(weight + k)))


@njit(**JIT)
def _absorb(x: Any, residual: Any, shape: Any, factors: Any, params: Any, norm: Any) -> None:
    """Add what a layer gave, normed if it has a norm behind it. x, residual: addresses of a token's row."""
    if norm >= 0:
        factor = _inverse_root(x, shape.width, shape.hidden, factors.eps)
        _scale(x, shape.width, factor, params.ctypes.data + 4 * norm, x)
    by = vector.splat(factors.residual)
    for k in range(0, 4 * shape.width, 64):
        vector.store(residual + k, vector.fma(vector.load(x + k), by, vector.load(residual + k)))


@njit(**JIT)
def _enter(
    x: Any, residual: Any, t: Any, shape: Any, factors: Any, params: Any, after: Any, before: Any, spare: Any, to: Any,
    is_fine: Any,
) -> None:  # fmt: skip
    """Take in a layer's output, and read the next one's input; see `_enter_all`."""
    at = 4 * t * shape.width
    source = residual.ctypes.data + at
    if after > -2:
        _absorb(x.ctypes.data + at, source, shape, factors, params, after)
    if before >= 0:
        factor = _inverse_root(source, shape.width, shape.hidden, factors.eps)
        _scale(source, shape.width, factor, params.ctypes.data + 4 * before, spare.ctypes.data + at)
        source = spare.ctypes.data + at
    if is_fine:
        _quantise_fine(source, t, shape.width, to)
    else:
        _quantise(source, t, shape.width, to)


@njit(**JIT)
def _norm_heads(qkv: Any, t: Any, shape: Any, factors: Any, params: Any, q_norm: Any, k_norm: Any) -> None:
    dim, heads, kv_heads = shape.head_dim, shape.heads, shape.kv_heads
    row = qkv.ctypes.data + 4 * t * qkv.shape[1]
    if shape.has_row_norm:
        for begin, count, norm in ((0, heads, q_norm), (heads * dim, kv_heads, k_norm)):
            at = row + 4 * begin
            factor = _inverse_root(at, count * dim, count * shape.real_dim, factors.eps)
            _scale(at, count * dim, factor, params.ctypes.data + 4 * norm, at)
        return
    for h in range(heads + kv_heads):
        at, norm = row + 4 * h * dim, q_norm if h < heads else k_norm
        factor = _inverse_root(at, dim, shape.real_dim, factors.eps)
        _scale(at, dim, factor, params.ctypes.data + 4 * norm, at)


# -- the same for all tokens ------------------------------------------------------------------------------------------


@njit(parallel=True, **JIT)
def _enter_all(
    x: Any, residual: Any, tokens: Any, shape: Any, factors: Any, params: Any, after: Any, before: Any, spare: Any,
    to: Any, is_fine: Any,
) -> None:  # fmt: skip
    """Take in a layer's output (``after``: its norm; -2: there is none yet), and read the next one's input."""
    if tokens <= SERIAL:
        for t in range(tokens):
            _enter(x, residual, t, shape, factors, params, after, before, spare, to, is_fine)
        return
    for i in prange(tokens):
        _enter(x, residual, np.int64(i), shape, factors, params, after, before, spare, to, is_fine)


@njit(parallel=True, **JIT)
def _quantise_all(x: Any, tokens: Any, size: Any, to: Any) -> None:
    if tokens <= SERIAL:
        for t in range(tokens):
            _quantise(x.ctypes.data + 4 * t * size, t, size, to)
        return
    for i in prange(tokens):
        t = np.int64(i)
        _quantise(x.ctypes.data + 4 * t * size, t, size, to)


@njit(**JIT)
def _place(
    qkv: Any, t: Any, shape: Any, factors: Any, params: Any, q_norm: Any, k_norm: Any, position: Any, slot: Any,
    cos_sin: Any, angles: Any, keys: Any, values: Any, base: Any,
) -> None:  # fmt: skip
    if q_norm >= 0:
        _norm_heads(qkv, t, shape, factors, params, q_norm, k_norm)
    rotate_and_store(
        qkv, t, position, slot, cos_sin, angles, keys, values, base, shape.heads, shape.kv_heads, shape.head_dim,
        shape.real_dim // 2,
    )  # fmt: skip


@njit(parallel=True, **JIT)
def _place_all(
    qkv: Any, tokens: Any, shape: Any, factors: Any, params: Any, q_norm: Any, k_norm: Any, positions: Any, slots: Any,
    cos_sin: Any, angles: Any, keys: Any, values: Any, base: Any,
) -> None:  # fmt: skip
    """Norms and rotation of queries and keys; keys and values to the cache."""
    if tokens <= SERIAL:
        for t in range(tokens):
            _place(
                qkv, t, shape, factors, params, q_norm, k_norm, positions[t], slots[t], cos_sin, angles, keys, values,
                base,
            )  # fmt: skip
        return
    for i in prange(tokens):
        t = np.int64(i)
        _place(
            qkv, t, shape, factors, params, q_norm, k_norm, positions[t], slots[t], cos_sin, angles, keys, values, base
        )


@njit(**JIT)
def _list_items(query_starts: Any, context_lens: Any, items: Any) -> Any:
    """Tiles of consecutive tokens of a sequence; returns their number."""
    count = 0
    for s in range(context_lens.shape[0]):
        begin, end = query_starts[s], query_starts[s + 1]
        for first in range(begin, end, TOKENS):
            items[count, 0] = s
            items[count, 1] = first
            items[count, 2] = min(TOKENS, end - first)
            items[count, 3] = context_lens[s] - (end - first)
            count += 1
    return count


@njit(**JIT)
def embed(
    shape: Any, factors: Any, weights: Any, head: Any, embedding: Any, ids: Any, out: Any
) -> None:
    """out f32 [T, width]: from the head's rows where they are tied, else from ``embedding`` uint16 (bfloat16)."""
    factor = np.float32(factors.embedding)
    for t in range(ids.shape[0]):
        row = ids[t]
        if shape.is_tied:
            unpack_row(weights, head, row, shape.width, out, t, factor)
        else:
            for k in range(shape.hidden):
                out[t, k] = widen(embedding[row, k]) * factor
            for k in range(shape.hidden, shape.width):
                out[t, k] = np.float32(0)


@njit(**JIT)
def run_layers(
    isa: Any,
    shape: Any,
    factors: Any,
    layers: Any,
    weights: Any,
    params: Any,
    cos_sin: Any,
    keys: Any,
    values: Any,
    layer_size: Any,
    positions: Any,
    slots: Any,
    query_starts: Any,
    context_lens: Any,
    table: Any,
    residual: Any,
    x: Any,
    spare: Any,
    wide: Any,
    mixed: Any,
    inner: Any,
    inputs: Any,
    items: Any,
    scratch: Any,
) -> None:
    """All layers over ``residual`` f32 [T, width]; the last one's output is left in ``x``, not yet added."""
    column = COLUMN
    tokens = positions.shape[0]
    num_items = _list_items(query_starts, context_lens, items)
    qkv_rows = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    qkv_rows = (qkv_rows + 63) // 64 * 64
    group = shape.heads // shape.kv_heads
    after = np.int64(-2)
    for number in range(layers.shape[0]):
        layer = layers[number]
        base = number * layer_size
        _enter_all(
            x, residual, tokens, shape, factors, params, after, layer[column.before_attention], spare, inputs, True
        )
        _linear(
            isa, weights, layer[column.qkv], params, layer[column.qkv_bias], qkv_rows,
            shape.width, inputs, tokens, wide, True,
        )  # fmt: skip
        _place_all(
            wide, tokens, shape, factors, params, layer[column.q_norm], layer[column.k_norm], positions, slots, cos_sin,
            layer[column.angles], keys, values, base,
        )  # fmt: skip
        attend(
            wide, mixed, keys, values, base, table, shape.per_block, items, num_items, shape.kv_heads, group,
            shape.head_dim, np.float32(factors.attention), layer[column.window], np.float32(factors.attention_cap),
            scratch,
        )  # fmt: skip
        _quantise_all(mixed, tokens, shape.mixed, inputs)
        _linear(
            isa, weights, layer[column.out], params, layer[column.out_bias], shape.width,
            shape.mixed, inputs, tokens, x, False,
        )  # fmt: skip
        _enter_all(
            x, residual, tokens, shape, factors, params, layer[column.after_attention], layer[column.before_mlp], spare,
            inputs, False,
        )  # fmt: skip
        _gated(
            isa, weights, layer[column.gate_up], params, layer[column.gate_up_bias],
            shape.inner, shape.width, inputs, tokens, wide, inner, shape.is_gelu,
        )  # fmt: skip
        _quantise_all(inner, tokens, shape.inner, inputs)
        _linear(
            isa, weights, layer[column.down], params, layer[column.down_bias], shape.width,
            shape.inner, inputs, tokens, x, False,
        )  # fmt: skip
        after = layer[column.after_mlp]


@njit(**JIT)
def _logit_tile(isa: Any, weights: Any, head: Any, size: Any, x: Any, r: Any, tile: Any, logits: Any) -> None:
    blocks = size // BLOCK
    _fine_rows(
        isa,
        weights.ctypes.data + head + tile * blocks * BLOCK_BYTES,
        blocks,
        x.values.ctypes.data + 2 * r * size,
        x.scales.ctypes.data + 16 * r * blocks,
        x.sums.ctypes.data + 16 * r * blocks,
        logits.ctypes.data + 4 * (r * logits.shape[1] + 32 * tile),
        logits.shape[1],
        1,
    )


@njit(parallel=True, **JIT)
def _some_logits(
    isa: Any, weights: Any, head: Any, vocab: Any, size: Any, x: Any, r: Any, tiles: Any, logits: Any
) -> None:
    nothing = vector.splat(np.float32(-np.inf))
    row = logits.ctypes.data + 4 * r * logits.shape[1]
    for n in range(0, 4 * vocab, 64):
        vector.store(row + n, nothing)
    if tiles.shape[0] <= 16:  # a tile takes 1 us, a parallel region 2
        for i in range(tiles.shape[0]):
            _logit_tile(isa, weights, head, size, x, r, tiles[i], logits)
        return
    for i in prange(tiles.shape[0]):
        _logit_tile(isa, weights, head, size, x, r, tiles[np.int64(i)], logits)


@njit(**JIT)
def run_head(
    isa: Any,
    shape: Any,
    factors: Any,
    weights: Any,
    params: Any,
    head: Any,
    norm: Any,
    after: Any,
    rows: Any,
    num_whole: Any,
    starts: Any,
    tiles: Any,
    residual: Any,
    x: Any,
    chosen_residual: Any,
    chosen_x: Any,
    spare: Any,
    inputs: Any,
    logits: Any,
) -> None:
    """logits f32 [R, vocab] of the tokens ``rows`` int64 [R].

    Of the first ``num_whole`` all of them; of the others only those in their tiles of 32, int64 ``tiles[starts[r] :
    starts[r + 1]]`` with r counted from there: the rest is -inf.
    """
    count = rows.shape[0]
    for r in range(count):
        for k in range(shape.width):
            chosen_residual[r, k] = residual[rows[r], k]
            chosen_x[r, k] = x[rows[r], k]
    _enter_all(chosen_x, chosen_residual, count, shape, factors, params, after, norm, spare, inputs, True)
    if num_whole > 0:
        _linear(isa, weights, head, params, np.int64(-1), shape.vocab, shape.width, inputs, num_whole, logits, True)
    for r in range(num_whole, count):
        own = tiles[starts[r - num_whole] : starts[r - num_whole + 1]]
        _some_logits(isa, weights, head, shape.vocab, shape.width, inputs, r, own, logits)
    if factors.logits != 1.0 or factors.logits_cap > 0.0:
        _scale_logits(logits, count, np.float32(factors.logits), np.float32(factors.logits_cap))


@njit(parallel=True, **JIT)
def _scale_logits(logits: Any, count: Any, factor: Any, cap: Any) -> None:
    for i in prange(logits.shape[1]):
        n = np.int64(i)
        for r in range(count):
            value = logits[r, n] * factor
            if cap > 0:
                turned = exp(value * (np.float32(2) / cap))
                value = cap - np.float32(2) * cap / (turned + np.float32(1))
            logits[r, n] = value

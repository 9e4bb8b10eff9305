"""The parts of the one-call step against the reference: products for every instruction set, packing, attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numba import njit
from torch import Tensor

from structgen.kernels import reference
from structgen.kernels.cpu import step
from structgen.kernels.cpu.step import forward, vector

FASTEST = step.find_isa()
ISAS = [isa for isa in (step.PORTABLE, step.AVX2, step.VNNI) if isa.dtype.itemsize <= FASTEST.dtype.itemsize]


def aligned(size: int) -> Any:
    raw = np.zeros(size + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    return raw[begin : begin + size]


def packed(weight: Tensor, order: Any = None) -> Any:
    rows = step.padded(weight.shape[0])
    full = np.full(rows, -1, np.int64)
    given = np.arange(weight.shape[0]) if order is None else order
    full[: len(given)] = given
    weights = aligned(step.packed_bytes(rows, weight.shape[1]))
    step.pack_rows(weight.numpy(), full, weights)
    return weights


def quantised(x: Tensor, is_fine: bool) -> step.Inputs:
    size = step.padded(x.shape[1])
    padded = np.zeros((len(x), size), np.float32)
    padded[:, : x.shape[1]] = x.numpy()
    count = 2 * padded.size
    inputs = step.Inputs(np.zeros(count, np.int8), np.zeros(count // 32, np.float32), np.zeros(count // 32, np.int32))
    if is_fine:
        for t in range(len(x)):
            forward._quantise_fine(padded.ctypes.data + 4 * t * size, t, size, inputs)
    else:
        forward._quantise_all(padded, len(x), size, inputs)
    return inputs


def product(isa: Any, x: Tensor, weight: Tensor, bias: Tensor | None, is_fine: bool = False) -> Tensor:
    at, params = -1, np.zeros(step.padded(len(weight)), np.float32)
    if bias is not None:
        at, params[: len(bias)] = 0, bias.numpy()
    out = np.zeros((len(x), step.padded(len(weight))), np.float32)
    size = step.padded(weight.shape[1])
    forward._linear(isa, packed(weight), 0, params, at, out.shape[1], size, quantised(x, is_fine), len(x), out, is_fine)
    assert not out[:, len(weight) :].any()
    return torch.from_numpy(out[:, : len(weight)])


@pytest.mark.parametrize("is_fine", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("rows", "size"), [(32, 32), (33, 70), (64, 576), (1, 1)])
@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 7, 18])
def test_linear(tokens: int, rows: int, size: int, has_bias: bool, is_fine: bool) -> None:
    torch.manual_seed(tokens + rows)
    x, weight = torch.randn(tokens, size) * 3, torch.randn(rows, size)
    weight[rows // 2] = 0
    x[0, : size // 2] = 0  # a group of zeros
    x[-1, 0] = 300.0
    bias = torch.randn(rows) if has_bias else None
    wanted = reference.int8_linear(x, weight, bias, is_fine=is_fine)
    assert (wanted - torch.nn.functional.linear(x, weight, bias)).abs().max() < 0.03 * wanted.abs().max().clamp(min=10)
    if is_fine:
        rounded = torch.nn.functional.linear(x, reference.round_weight(weight), bias)
        torch.testing.assert_close(wanted, rounded, atol=2e-4 * float(x.abs().max()), rtol=1e-3)
    results = [product(isa, x, weight, bias, is_fine) for isa in ISAS]
    atol = 2e-3 if is_fine else 2e-4  # a rounding of the second bits may fall to the other side
    torch.testing.assert_close(results[0], wanted, atol=atol, rtol=1e-5)
    for result in results[1:]:
        assert torch.equal(result, results[0]), "instruction sets differ"
    alone = torch.cat([product(FASTEST, x[t : t + 1], weight, bias, is_fine) for t in range(tokens)])
    assert torch.equal(alone, results[0]), "a row depends on the others"


def test_bytes_at_their_bounds() -> None:
    """The 16-bit sums of AVX2 must not saturate."""
    x = torch.full((2, 64), 127.0)
    x[1] = -127.0
    weight = torch.full((32, 64), 127.0)
    weight[1::2] = -127.0
    for isa in ISAS:
        torch.testing.assert_close(product(isa, x, weight, None), x @ weight.T, rtol=1e-6, atol=0)


def unpacked(weights: Any, row: int, size: int) -> Tensor:
    out = np.zeros((1, step.padded(size)), np.float32)
    step.unpack_row(weights, 0, row, out.shape[1], out, 0, np.float32(1))
    assert not out[0, size:].any()
    return torch.from_numpy(out[0, :size])


@pytest.mark.parametrize(("rows", "size"), [(40, 50), (3, 200), (64, 64)])
def test_packing(rows: int, size: int) -> None:
    torch.manual_seed(0)
    weight = torch.randn(rows, size) * torch.rand(rows, 1)
    weight[1, :64] = 0
    weights, rounded = packed(weight), reference.round_weight(weight)
    assert (rounded - weight).abs().max() < weight.abs().max() / 127
    for row in range(rows):
        torch.testing.assert_close(unpacked(weights, row, size), rounded[row], rtol=1e-6, atol=1e-7)


def test_an_order_of_rows() -> None:
    weight = torch.randn(4, 32)
    order = np.full(32, -1, np.int64)
    order[[0, 5, 31]] = 3, 0, 3
    weights, rounded = packed(weight, order), reference.round_weight(weight)
    for row in range(32):
        wanted = rounded[order[row]] if order[row] >= 0 else torch.zeros(32)
        torch.testing.assert_close(unpacked(weights, row, 32), wanted, rtol=1e-6, atol=1e-7)


@njit
def _exp(x: Any, out: Any) -> None:
    for i in range(0, x.shape[0], 16):
        value = vector.load(x.ctypes.data + 4 * i)
        vector.store(out.ctypes.data + 4 * i, vector.exp_or_0(value))


def test_exp() -> None:
    x = np.concatenate((np.linspace(-87, 88, 16_000), [-np.inf] * 16)).astype(np.float32)
    out = np.empty_like(x)
    _exp(x, out)
    wanted = np.exp(x[:-16].astype(np.float64))
    assert np.abs(out[:-16] / wanted - 1).max() < 3e-7
    assert not out[-16:].any()


@pytest.mark.parametrize(("window", "cap"), [(0, 0.0), (5, 0.0), (140, 2.0)])
@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(3, 1, 64), (4, 4, 16), (14, 2, 80), (5, 1, 32)])
def test_attention(heads: int, kv_heads: int, dim: int, window: int, cap: float) -> None:
    """Sequences of several lengths, some with chunks, over blocks in any order, against plain softmax in float64."""
    rng = np.random.default_rng(dim)
    lengths, news = [1, 16, 130, 300, 40], [1, 16, 1, 37, 7]
    keys, values = (rng.standard_normal((sum(lengths), kv_heads, dim)).astype(np.float32) for _ in range(2))
    keys, values = (torch.from_numpy(x).bfloat16().float().numpy() for x in (keys, values))
    blocks = rng.permutation(60)
    table = np.zeros((len(lengths), 20), np.int32)
    k_cache = np.zeros((60, kv_heads, dim, 16), np.float32)
    v_cache = np.zeros((60, kv_heads, 16, dim), np.float32)
    k_cache[:], v_cache[:] = 50.0, -50.0  # what lies behind a sequence's end must not count
    qkv = rng.standard_normal((sum(news), (heads + 2 * kv_heads) * dim)).astype(np.float32)
    wanted = np.zeros((sum(news), heads * dim))
    items, row, at, used = [], 0, 0, 0
    for s, (length, new) in enumerate(zip(lengths, news, strict=True)):
        for position in range(length):
            if position % 16 == 0:
                table[s, position // 16] = blocks[used]
                used += 1
            block = table[s, position // 16]
            k_cache[block, :, :, position % 16] = keys[at + position]
            v_cache[block, :, position % 16] = values[at + position]
        for i in range(0, new, step.TOKENS):
            items.append((s, row + i, min(step.TOKENS, new - i), length - new + i))
        for i in range(new):
            own = length - new + i
            low = max(own - window + 1, 0) if window else 0
            for h in range(heads):
                kv = h // (heads // kv_heads)
                seen, own_dims = slice(at + low, at + own + 1), slice(h * dim, (h + 1) * dim)
                scores = keys[seen, kv].astype(np.float64) @ qkv[row + i, own_dims] * 0.2
                scores = np.tanh(scores / cap) * cap if cap else scores
                weights = np.exp(scores - scores.max())
                wanted[row + i, own_dims] = weights / weights.sum() @ values[seen, kv]
        row, at = row + new, at + length
    out = np.zeros((sum(news), heads * dim), np.float32)
    stored = [torch.from_numpy(x).bfloat16().view(torch.uint16).numpy().reshape(-1) for x in (k_cache, v_cache)]
    scratch = np.zeros((2, step.scratch_size(heads // kv_heads, dim)), np.float32)
    tiles = np.array(items, np.int32)
    sizes = (kv_heads, heads // kv_heads, dim, np.float32(0.2), window, np.float32(cap), scratch)
    step.attend(qkv, out, *stored, 0, table, 1, tiles, len(tiles), *sizes)
    np.testing.assert_allclose(out, wanted, atol=2e-5, rtol=1e-4)
    alone = np.zeros_like(out)
    single = np.array([(s, first + i, 1, own + i) for s, first, count, own in items for i in range(count)], np.int32)
    step.attend(qkv, alone, *stored, 0, table, 1, single, len(single), *sizes)
    assert np.array_equal(alone, out), "a token depends on its company"

"""Attention over a paged cache: any mix of decode rows and prefill chunks.

Online softmax (Milakov & Gimelshein 2018, arXiv:1805.02867) in tiles, as in FlashAttention (Dao et al. 2022,
arXiv:2205.14135). Keys are taken in chunks that begin at fixed positions, and a row's chunks are merged in the order of
their positions, in one program (many tokens) or over programs (few tokens: Flash-Decoding, so that one long sequence
fills the device). Both are meant to merge the same numbers in the same order; that is not tested to the bit.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from structgen.kernels.triton.common import dot_type, power_of_two, tanh

_CHUNK = 512
_ROWS = 64  # query rows (tokens x heads of a group) of a prefill tile
_SPLIT_BELOW = 512  # programs: fewer do not fill a device, so chunks get programs of their own


@triton.jit
def _merge(
    top: tl.tensor, total: tl.tensor, sums: tl.tensor, more_top: tl.tensor, more_total: tl.tensor, more_sums: tl.tensor,
) -> tl.tensor:
    """Join two softmax sums, each relative to its own highest score."""
    highest = tl.maximum(top, more_top)
    base = tl.where(highest == float("-inf"), 0.0, highest)
    kept = tl.exp(top - base)
    added = tl.exp(more_top - base)
    return highest, total * kept + more_total * added, sums * kept[:, None] + more_sums * added[:, None]


@triton.jit
def _attend(
    qkv: tl.tensor, k_cache: tl.tensor, v_cache: tl.tensor, query_starts: tl.tensor, context_lens: tl.tensor,
    block_tables: tl.tensor, owners: tl.tensor, out: tl.tensor, partial: tl.tensor, levels: tl.tensor, scale: tl.tensor,
    softcap: tl.tensor, window: tl.tensor, row_stride: tl.tensor, table_width: tl.tensor, kv_heads: tl.tensor,
    chunks: tl.tensor, BLOCK_SIZE: tl.constexpr, DIM: tl.constexpr, DIM_BLOCK: tl.constexpr, GROUP: tl.constexpr,
    TILE: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, CHUNK: tl.constexpr, SPLIT: tl.constexpr,
    WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, DOT: tl.constexpr,
) -> None:  # fmt: skip
    """One program a token and kv head, of which every TILE-th of a sequence works for TILE tokens; rows are
    (token, head of the group). With SPLIT, one for each chunk too, which leaves its sums in ``partial`` and ``levels``.
    """
    token = tl.program_id(0)
    kv_head = tl.program_id(1)
    sequence = tl.load(owners + token)
    first = tl.load(query_starts + sequence)
    if (token - first) % TILE != 0:
        return
    last = tl.load(query_starts + sequence + 1)
    before = tl.load(context_lens + sequence) - last  # a token t has the position before + t
    end = before + tl.minimum(token + TILE, last)  # of what any row sees
    begin = 0
    if WINDOW:
        begin = tl.maximum(before + token + 1 - window, 0)

    rows = tl.arange(0, ROWS)
    dims = tl.arange(0, DIM_BLOCK)
    tokens = token + rows // GROUP
    heads = kv_head * GROUP + rows % GROUP
    valid = (rows < TILE * GROUP) & (tokens < last)
    inside = valid[:, None] & (dims < DIM)[None, :]
    offsets = tokens.to(tl.int64)[:, None] * row_stride + heads[:, None] * DIM + dims[None, :]
    query = tl.load(qkv + offsets, mask=inside, other=0.0).to(DOT)
    stops = before + tokens + 1

    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, DIM_BLOCK], tl.float32)
    first_chunk = begin // CHUNK
    last_chunk = tl.cdiv(end, CHUNK)
    if SPLIT:
        first_chunk = tl.maximum(first_chunk, tl.program_id(2))
        last_chunk = tl.minimum(last_chunk, tl.program_id(2) + 1)
        if first_chunk >= last_chunk:
            return
    for chunk in range(first_chunk, last_chunk):
        chunk_top = tl.full([ROWS], float("-inf"), tl.float32)
        chunk_total = tl.zeros([ROWS], tl.float32)
        chunk_sums = tl.zeros([ROWS, DIM_BLOCK], tl.float32)
        low = tl.maximum(chunk * CHUNK, begin // KEYS * KEYS)
        high = tl.minimum((chunk + 1) * CHUNK, end)
        for at in range(low, high, KEYS):
            positions = at + tl.arange(0, KEYS)
            there = (positions >= begin) & (positions < end)
            blocks = tl.load(
                block_tables + sequence.to(tl.int64) * table_width + positions // BLOCK_SIZE, mask=there, other=0
            )
            cells = ((blocks.to(tl.int64) * kv_heads + kv_head) * BLOCK_SIZE + positions % BLOCK_SIZE) * DIM
            keys = tl.load(
                k_cache + cells[None, :] + dims[:, None], mask=there[None, :] & (dims < DIM)[:, None], other=0.0
            )
            scores = tl.dot(query, keys.to(DOT), input_precision="tf32x3") * scale
            if SOFTCAP:
                scores = tanh(scores / softcap) * softcap
            seen = there[None, :] & (positions[None, :] < stops[:, None])
            if WINDOW:
                seen = seen & (positions[None, :] >= stops[:, None] - window)
            scores = tl.where(seen, scores, float("-inf"))
            highest = tl.maximum(chunk_top, tl.max(scores, axis=1))
            base = tl.where(highest == float("-inf"), 0.0, highest)
            weights = tl.exp(scores - base[:, None])
            kept = tl.exp(chunk_top - base)
            values = tl.load(
                v_cache + cells[:, None] + dims[None, :], mask=there[:, None] & (dims < DIM)[None, :], other=0.0
            )
            chunk_total = chunk_total * kept + tl.sum(weights, axis=1)
            chunk_sums = chunk_sums * kept[:, None] + tl.dot(weights.to(DOT), values.to(DOT), input_precision="tf32x3")
            chunk_top = highest
        top, total, sums = _merge(top, total, sums, chunk_top, chunk_total, chunk_sums)

    if SPLIT:
        cell = (tokens.to(tl.int64) * kv_heads * GROUP + heads) * chunks + tl.program_id(2)
        tl.store(partial + cell[:, None] * DIM + dims[None, :], sums, mask=inside)
        tl.store(levels + 2 * cell, top, mask=valid)
        tl.store(levels + 2 * cell + 1, total, mask=valid)
    else:
        sums = sums / tl.where(total == 0.0, 1.0, total)[:, None]  # total 0: a row that fills a batch up
        target = (tokens.to(tl.int64) * kv_heads * GROUP + heads)[:, None] * DIM + dims[None, :]
        tl.store(out + target, sums.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _join(
    query_starts: tl.tensor, context_lens: tl.tensor, owners: tl.tensor, out: tl.tensor, partial: tl.tensor,
    levels: tl.tensor, window: tl.tensor, heads: tl.tensor, chunks: tl.tensor, DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr, CHUNK: tl.constexpr, WINDOW: tl.constexpr,
) -> None:  # fmt: skip
    """One program a token and head: merge its chunks."""
    token = tl.program_id(0)
    sequence = tl.load(owners + token)
    end = tl.load(context_lens + sequence) - tl.load(query_starts + sequence + 1) + token + 1
    begin = 0
    if WINDOW:
        begin = tl.maximum(end - window, 0)
    dims = tl.arange(0, DIM_BLOCK)
    one = tl.arange(0, 1)
    cell = token.to(tl.int64) * heads + tl.program_id(1)
    top = tl.full([1], float("-inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    sums = tl.zeros([1, DIM_BLOCK], tl.float32)
    for chunk in range(begin // CHUNK, tl.cdiv(end, CHUNK)):
        part = cell * chunks + chunk
        more = tl.load(partial + part * DIM + dims[None, :], mask=(dims < DIM)[None, :], other=0.0)
        more_top = tl.load(levels + 2 * part + one)
        more_total = tl.load(levels + 2 * part + 1 + one)
        top, total, sums = _merge(top, total, sums, more_top, more_total, more)
    sums = sums / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + cell * DIM + dims[None, :], sums.to(out.dtype.element_ty), mask=(dims < DIM)[None, :])


def paged_attention(
    qkv: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    query_starts: Tensor,
    context_lens: Tensor,
    block_tables: Tensor,
    owners: Tensor,
    num_heads: int,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
    *,
    split: bool | None = None,
    chunk: int = _CHUNK,
) -> Tensor:
    """As in the api. The grid depends on shapes alone, so a captured step serves all lengths that its tables hold.

    Args:
        split: whether chunks get programs of their own; None: when there are few tokens.
        chunk: keys of a chunk, a power of two; 16 at least.
    """
    tokens, sequences = qkv.shape[0], context_lens.shape[0]
    kv_heads, block_size, dim = k_cache.shape[1:]
    out = qkv.new_empty((tokens, num_heads * dim))
    if not tokens:
        return out
    group = num_heads // kv_heads
    tile = 1 if tokens <= sequences else max(_ROWS // group, 1)
    chunks = triton.cdiv(block_tables.shape[1] * block_size, chunk)
    if split is None:
        split = chunks > 1 and tokens * kv_heads < _SPLIT_BELOW
    partial = levels = query_starts  # any pointer: they are not touched
    if split:
        partial = qkv.new_empty((tokens, num_heads, chunks, dim), dtype=torch.float32)
        levels = qkv.new_empty((tokens, num_heads, chunks, 2), dtype=torch.float32)
    dim_block = power_of_two(dim, 16)
    limit = 0 if window is None else window
    _attend[(tokens, kv_heads, chunks if split else 1)](
        qkv,
        k_cache,
        v_cache,
        query_starts,
        context_lens,
        block_tables,
        owners,
        out,
        partial,
        levels,
        scale,
        softcap or 0.0,
        limit,
        qkv.shape[1],
        block_tables.stride(0),
        kv_heads,
        chunks,
        BLOCK_SIZE=block_size,
        DIM=dim,
        DIM_BLOCK=dim_block,
        GROUP=group,
        TILE=tile,
        ROWS=power_of_two(tile * group, 16),
        KEYS=min(64 if dim_block <= 128 else 32, chunk),
        CHUNK=chunk,
        SPLIT=split,
        WINDOW=window is not None,
        SOFTCAP=softcap is not None,
        DOT=dot_type(qkv.dtype),
        num_warps=4,
        num_stages=2,
    )
    if split:
        _join[(tokens, num_heads)](
            query_starts,
            context_lens,
            owners,
            out,
            partial,
            levels,
            limit,
            num_heads,
            chunks,
            DIM=dim,
            DIM_BLOCK=dim_block,
            CHUNK=chunk,
            WINDOW=window is not None,
            num_warps=1,
        )
    return out

"""Norm and rotation of query and key heads, keys and values to the cache."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from structgen.kernels.triton.common import power_of_two


@triton.jit
def _rope_write_kv(
    qkv: tl.tensor, positions: tl.tensor, slots: tl.tensor, cos_sin: tl.tensor, k_cache: tl.tensor, v_cache: tl.tensor,
    q_norm: tl.tensor, k_norm: tl.tensor, eps: tl.tensor, heads: tl.tensor, kv_heads: tl.tensor, block_size: tl.tensor,
    DIM: tl.constexpr, HALF: tl.constexpr, NORM: tl.constexpr,
) -> None:  # fmt: skip
    """One program a token and head of qkv. HALF: DIM / 2 up to a power of two."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    columns = tl.arange(0, HALF)
    inside = columns < DIM // 2
    source = qkv + (token * (heads + 2 * kv_heads) + head) * DIM
    low = tl.load(source + columns, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(source + DIM // 2 + columns, mask=inside, other=0.0).to(tl.float32)
    if head < heads + kv_heads:
        if NORM:
            weight = k_norm
            if head < heads:
                weight = q_norm
            factor = 1.0 / tl.sqrt((tl.sum(low * low, axis=0) + tl.sum(high * high, axis=0)) / DIM + eps)
            low *= factor * tl.load(weight + columns, mask=inside, other=0.0)
            high *= factor * tl.load(weight + DIM // 2 + columns, mask=inside, other=0.0)
            # A norm of its own would have stored an element here.
            low = low.to(qkv.dtype.element_ty).to(tl.float32)
            high = high.to(qkv.dtype.element_ty).to(tl.float32)
        angles = cos_sin + tl.load(positions + token) * DIM
        cos = tl.load(angles + columns, mask=inside, other=0.0)
        sin = tl.load(angles + DIM // 2 + columns, mask=inside, other=0.0)
        turned = low * cos - high * sin
        high = high * cos + low * sin
        low = turned
        tl.store(source + columns, low.to(qkv.dtype.element_ty), mask=inside)
        tl.store(source + DIM // 2 + columns, high.to(qkv.dtype.element_ty), mask=inside)
    slot = tl.load(slots + token)
    if (head >= heads) & (slot >= 0):
        cache = v_cache
        kv_head = head - heads - kv_heads
        if head < heads + kv_heads:
            cache = k_cache
            kv_head = head - heads
        target = cache + ((slot // block_size * kv_heads + kv_head) * block_size + slot % block_size) * DIM
        tl.store(target + columns, low.to(qkv.dtype.element_ty), mask=inside)
        tl.store(target + DIM // 2 + columns, high.to(qkv.dtype.element_ty), mask=inside)


def rope_write_kv(
    qkv: Tensor,
    positions: Tensor,
    slots: Tensor,
    cos_sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    q_norm: Tensor | None,
    k_norm: Tensor | None,
    eps: float,
) -> None:
    kv_heads, block_size, dim = k_cache.shape[1:]
    heads = qkv.shape[1] // dim - 2 * kv_heads
    if not qkv.shape[0]:
        return
    _rope_write_kv[(qkv.shape[0], heads + 2 * kv_heads)](
        qkv,
        positions,
        slots,
        cos_sin,
        k_cache,
        v_cache,
        cos_sin if q_norm is None else q_norm,  # any pointer: it is not read
        cos_sin if k_norm is None else k_norm,
        eps,
        heads,
        kv_heads,
        block_size,
        DIM=dim,
        HALF=power_of_two(dim // 2),
        NORM=q_norm is not None,
        num_warps=1,
    )

"""Every operation in obvious torch: the specification, the oracle of the tests, and the path of last resort.

Shapes and dtypes are those of `structgen.kernels.api`, which has checked them. All arithmetic is float32.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> Tensor:
    """Zhang & Sennrich 2019 (arXiv:1910.07467), after adding ``x`` to ``residual`` in place when it is given."""
    hidden = x.float() if residual is None else residual.add_(x)
    return (hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def silu_mul(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.float().chunk(2, dim=-1)
    return (torch.nn.functional.silu(gate) * up).to(gate_up.dtype)


def gelu_mul(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.float().chunk(2, dim=-1)
    return (torch.nn.functional.gelu(gate, approximate="tanh") * up).to(gate_up.dtype)


def rope(x: Tensor, positions: Tensor, cos_sin: Tensor) -> Tensor:
    """Rotate the halves of each head (Su et al. 2021, arXiv:2104.09864): x [T, heads, D]."""
    cos, sin = cos_sin[positions].unsqueeze(1).chunk(2, dim=-1)
    low, high = x.float().chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1).to(x.dtype)


def write_kv(key: Tensor, value: Tensor, slots: Tensor, k_cache: Tensor, v_cache: Tensor) -> None:
    """key, value [T, kv_heads, D] -> caches [blocks, kv_heads, block_size, D]; a slot of -1 is none."""
    used = slots >= 0
    block, offset = slots[used] // k_cache.shape[2], slots[used] % k_cache.shape[2]
    k_cache[block, :, offset] = key[used]
    v_cache[block, :, offset] = value[used]


def rope_write_kv(
    qkv: Tensor,
    positions: Tensor,
    slots: Tensor,
    cos_sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    q_norm: Tensor | None = None,
    k_norm: Tensor | None = None,
    eps: float = 0.0,
) -> None:
    kv_heads, dim = k_cache.shape[1], k_cache.shape[3]
    heads = qkv.view(len(qkv), -1, dim)
    query, key, value = heads[:, : -2 * kv_heads], heads[:, -2 * kv_heads : -kv_heads], heads[:, -kv_heads:]
    if q_norm is not None and k_norm is not None:
        query.copy_(rms_norm(query, q_norm, eps))
        key.copy_(rms_norm(key, k_norm, eps))
    query.copy_(rope(query, positions, cos_sin))
    key.copy_(rope(key, positions, cos_sin))
    write_kv(key, value, slots, k_cache, v_cache)


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
) -> Tensor:
    kv_heads, block_size, dim = k_cache.shape[1:]
    query = qkv[:, : num_heads * dim].float().reshape(-1, kv_heads, num_heads // kv_heads, dim)
    out = torch.empty_like(query)
    for s in range(len(context_lens)):
        first, last, context = int(query_starts[s]), int(query_starts[s + 1]), int(context_lens[s])
        if first == last:
            continue
        blocks = block_tables[s, : (context + block_size - 1) // block_size].long()
        key, value = (c[blocks].float().transpose(1, 2).flatten(0, 1)[:context] for c in (k_cache, v_cache))
        scores = torch.einsum("tkgd,jkd->tkgj", query[first:last], key) * scale
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        behind = torch.arange(context - (last - first), context, device=qkv.device)[:, None] - torch.arange(
            context, device=qkv.device
        )
        seen = (behind >= 0) if window is None else (behind >= 0) & (behind < window)
        scores = scores.masked_fill(~seen[:, None, None], float("-inf"))
        out[first:last] = torch.einsum("tkgj,jkd->tkgd", scores.softmax(-1), value)
    return out.flatten(1).to(qkv.dtype)


def quantise_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """weight f32 [N, K] -> int8 [N, K] and f32 [N]: a scale a row, so that its largest is 127."""
    scales = weight.abs().amax(1) / 127
    inverse = torch.where(scales > 0, 127 / weight.abs().amax(1), 0)
    return torch.round(weight * inverse[:, None]).to(torch.int8), scales


def quantise_groups(x: Tensor, group: int = 32) -> tuple[Tensor, Tensor]:
    """x f32 [T, K] -> int8 [T, K'] and f32 [T, K' / group]: a scale a group of ``group``; K' is K padded to groups."""
    groups = torch.nn.functional.pad(x, (0, -x.shape[1] % group)).unflatten(1, (-1, group))
    largest = groups.abs().amax(2)
    inverse = torch.where(largest > 0, 127 / largest, 0)
    return torch.round(groups * inverse[:, :, None]).to(torch.int8).flatten(1), largest / 127


def int8_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x f32 [T, K] . weight f32 [N, K]^T + bias, both quantised first: whole numbers within a group, float32 across."""
    rows, row_scales = quantise_rows(weight)
    values, scales = quantise_groups(x)
    rows = torch.nn.functional.pad(rows, (0, values.shape[1] - rows.shape[1]))
    grouped = [each.double().unflatten(1, (scales.shape[1], -1)) for each in (values, rows)]  # exact: below 2 ** 53
    sums = torch.einsum("tgk,ngk->tng", *grouped).float()
    out = (sums * scales[:, None]).sum(2) * row_scales
    return out if bias is None else out + bias

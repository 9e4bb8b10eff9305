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
    heads = qkv.view(len(qkv), qkv.shape[1] // dim, dim)
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


def round_weight(weight: Tensor, block: int = 64) -> Tensor:
    """weight f32 [N, K] as int8 with a scale for each ``block`` of a row holds it: the smallest bfloat16 that fits."""
    padded = torch.nn.functional.pad(weight.float(), (0, -weight.shape[1] % block))
    blocks = padded.view(len(weight), -1, block)
    bits = (blocks.abs().amax(2, keepdim=True) / 127).view(torch.int32)
    scales = ((bits + 0xFFFF) >> 16 << 16).view(torch.float32)
    rounded = torch.where(scales > 0, torch.round(blocks / scales), 0) * scales
    return rounded.view(padded.shape)[:, : weight.shape[1]]


def round_inputs(x: Tensor, group: int = 32) -> Tensor:
    """x f32 [T, K] as int8 with a scale for each ``group`` of a row holds it."""
    padded = torch.nn.functional.pad(x.float(), (0, -x.shape[1] % group))
    groups = padded.view(len(x), -1, group)
    scales = groups.abs().amax(2, keepdim=True) / 127
    rounded = torch.where(scales > 0, torch.round(groups / scales), 0) * scales
    return rounded.view(padded.shape)[:, : x.shape[1]]


def int8_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, is_fine: bool = False) -> Tensor:
    """x f32 [T, K] . weight f32 [N, K]^T + bias, both rounded to int8 first; in float64.

    Fine: what rounding leaves of the inputs is rounded with scales 1 / 254 of the first, and kept too.
    """
    rounded = round_inputs(x)
    if is_fine:
        padded = torch.nn.functional.pad(x.float(), (0, -x.shape[1] % 32)).view(len(x), -1, 32)
        scales = padded.abs().amax(2, keepdim=True).expand_as(padded).reshape(len(x), -1)[:, : x.shape[1]] / (127 * 254)
        rounded = rounded + torch.where(scales > 0, torch.round((x - rounded) / scales), 0) * scales
    out = torch.nn.functional.linear(rounded.double(), round_weight(weight).double()).float()
    return out if bias is None else out + bias

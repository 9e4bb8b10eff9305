"""The CPU path: numba kernels over the memory of torch tensors, called with checked arguments."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numba import types
from torch import Tensor

from structgen.kernels.cpu import attention, fused, linear
from structgen.kernels.cpu.launch import match_torch_threads

__all__ = [
    "gelu_mul",
    "linear_bf16",
    "match_torch_threads",
    "paged_attention",
    "rms_norm",
    "rope_write_kv",
    "silu_mul",
    "warmup",
]

_NO_WEIGHT = np.empty(0, np.float32)


def _array(tensor: Tensor) -> Any:
    """The tensor's memory as numpy; bfloat16 as uint16 bits."""
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _rows(cache: Tensor) -> Any:
    return _array(cache.view(-1, cache.shape[3]))


def rms_norm(x: Tensor, weight: Tensor, eps: float, residual: Tensor) -> Tensor:
    out = torch.empty_like(x)
    fused.rms_norm(_array(x), residual.numpy(), weight.numpy(), np.float32(eps), _array(out))
    return out


def silu_mul(gate_up: Tensor) -> Tensor:
    out = gate_up.new_empty((gate_up.shape[0], gate_up.shape[1] // 2))
    fused.silu_mul(_array(gate_up), _array(out))
    return out


def gelu_mul(gate_up: Tensor) -> Tensor:
    out = gate_up.new_empty((gate_up.shape[0], gate_up.shape[1] // 2))
    fused.gelu_mul(_array(gate_up), _array(out))
    return out


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
    fused.rope_write_kv(
        _array(qkv),
        positions.numpy(),
        slots.numpy(),
        cos_sin.numpy(),
        _rows(k_cache),
        _rows(v_cache),
        k_cache.shape[1],
        k_cache.shape[2],
        _NO_WEIGHT if q_norm is None else q_norm.numpy(),
        _NO_WEIGHT if k_norm is None else k_norm.numpy(),
        np.float32(eps),
    )


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
    out = qkv.new_empty((qkv.shape[0], num_heads * k_cache.shape[3]))
    attention.paged_attention(
        _array(qkv),
        _rows(k_cache),
        _rows(v_cache),
        query_starts.numpy(),
        context_lens.numpy(),
        block_tables.numpy(),
        owners.numpy(),
        k_cache.shape[1],
        k_cache.shape[2],
        np.float32(scale),
        0 if window is None else window,
        np.float32(0 if softcap is None else softcap),
        _array(out),
    )
    return out


def linear_bf16(x: Tensor, weight: Tensor) -> Tensor:
    """x [T, K] f32, weight [N, K] bf16 -> f32 [T, N]."""
    out = x.new_empty((x.shape[0], weight.shape[0]))
    linear.linear_bf16(x.numpy(), _array(weight), out.numpy())
    return out


def warmup(dtype: torch.dtype) -> float:
    """Compile every kernel for ``dtype`` (float32 or bfloat16), or load it from the disk cache.

    Afterwards no call compiles anything. Returns the seconds it took: about 10 the first time on a machine, then 0.1.
    """
    begin = time.perf_counter()
    match_torch_threads()

    def array(element: Any, dims: int) -> Any:
        return types.Array(element, dims, "C")

    f32, i32, i64 = types.float32, types.int32, types.int64
    element = f32 if dtype == torch.float32 else types.uint16
    row, rows, cache = array(f32, 1), array(element, 2), array(element, 2)
    fused.rms_norm.compile(rows, array(f32, 2), row, f32, rows)
    fused.silu_mul.compile(rows, rows)
    fused.gelu_mul.compile(rows, rows)
    fused.rope_write_kv.compile(
        rows, array(i64, 1), array(i64, 1), array(f32, 2), cache, cache, i64, i64, row, row, f32
    )
    attention.paged_attention.compile(
        rows, cache, cache, array(i32, 1), array(i32, 1), array(i32, 2), array(i32, 1), i64, i64, f32, i64, f32, rows
    )
    if dtype == torch.bfloat16:
        linear.linear_bf16.compile(array(f32, 2), array(types.uint16, 2), array(f32, 2))
    return time.perf_counter() - begin

"""Row-wise operations, one pass over memory each. Element arrays are float32, or uint16 holding bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from structgen.kernels.cpu.bits import JIT, exp, narrow, widen
from structgen.kernels.cpu.launch import kernel


@kernel
def rms_norm(x: Any, residual: Any, weight: Any, eps: Any, out: Any) -> None:
    """residual f32 [T, D] += x [T, D]; out [T, D] = residual / rms(residual) * weight f32 [D]."""
    dim = x.shape[1]
    for t in prange(x.shape[0]):
        total = np.float32(0)
        for d in range(dim):
            value = residual[t, d] + widen(x[t, d])
            residual[t, d] = value
            total += value * value
        factor = np.float32(1) / np.sqrt(total / np.float32(dim) + eps)
        for d in range(dim):
            out[t, d] = narrow(residual[t, d] * factor * weight[d], out[t, d])


@kernel
def silu_mul(gate_up: Any, out: Any) -> None:
    """gate_up [T, 2F] -> out [T, F] = silu(gate) * up."""
    dim = out.shape[1]
    for t in prange(out.shape[0]):
        for d in range(dim):
            gate = widen(gate_up[t, d])
            up = widen(gate_up[t, dim + d])
            out[t, d] = narrow(gate / (np.float32(1) + exp(-gate)) * up, out[t, d])


@kernel
def gelu_mul(gate_up: Any, out: Any) -> None:
    """gate_up [T, 2F] -> out [T, F] = gelu(gate) * up, in the tanh form: x / (1 + exp(-2 sqrt(2 / pi) (x + c x^3)))."""
    dim = out.shape[1]
    slope, cubic = np.float32(-1.5957691216057308), np.float32(0.044715)
    for t in prange(out.shape[0]):
        for d in range(dim):
            gate = widen(gate_up[t, d])
            up = widen(gate_up[t, dim + d])
            bent = slope * (gate + cubic * gate * gate * gate)
            out[t, d] = narrow(gate / (np.float32(1) + exp(bent)) * up, out[t, d])


@njit(**JIT)
def _normalise_head(rows: Any, t: Any, start: Any, weight: Any, eps: Any) -> None:
    dim = weight.shape[0]
    total = np.float32(0)
    for d in range(start, start + dim):
        value = widen(rows[t, d])
        total += value * value
    factor = np.float32(1) / np.sqrt(total / np.float32(dim) + eps)
    for d in range(dim):
        rows[t, start + d] = narrow(widen(rows[t, start + d]) * factor * weight[d], rows[t, start + d])


@njit(**JIT)
def _rotate_head(rows: Any, t: Any, start: Any, half: Any, cos_sin: Any, position: Any) -> None:
    for d in range(half):
        cos = cos_sin[position, d]
        sin = cos_sin[position, half + d]
        low = widen(rows[t, start + d])
        high = widen(rows[t, start + half + d])
        rows[t, start + d] = narrow(low * cos - high * sin, rows[t, start + d])
        rows[t, start + half + d] = narrow(high * cos + low * sin, rows[t, start + d])


@kernel
def rope_write_kv(
    qkv: Any,
    positions: Any,
    slots: Any,
    cos_sin: Any,
    keys: Any,
    values: Any,
    kv_heads: Any,
    block_size: Any,
    q_norm: Any,
    k_norm: Any,
    eps: Any,
) -> None:
    """Norm (unless the weights are empty) and rotation of q and k in qkv [T, (heads + 2 kv_heads) * D]; k, v to slots.

    A slot of -1 is none.
    keys, values [blocks * kv_heads * block_size, D]; cos_sin f32 [positions, D]: cosines, then sines.
    """
    dim = keys.shape[1]
    heads = qkv.shape[1] // dim - 2 * kv_heads
    for t in prange(qkv.shape[0]):
        if q_norm.shape[0] > 0:
            for h in range(heads):
                _normalise_head(qkv, t, h * dim, q_norm, eps)
            for h in range(heads, heads + kv_heads):
                _normalise_head(qkv, t, h * dim, k_norm, eps)
        for h in range(heads + kv_heads):
            _rotate_head(qkv, t, h * dim, dim // 2, cos_sin, positions[t])
        if slots[t] < 0:
            continue
        block = slots[t] // block_size
        offset = slots[t] % block_size
        for h in range(kv_heads):
            row = (block * kv_heads + h) * block_size + offset
            for d in range(dim):
                keys[row, d] = qkv[t, (heads + h) * dim + d]
                values[row, d] = qkv[t, (heads + kv_heads + h) * dim + d]

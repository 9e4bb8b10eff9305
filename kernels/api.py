"""One function per operation: it checks its arguments once and picks the implementation by device and dtype.

T tokens, S sequences, D head dimension. float32, bfloat16 and (on a GPU) float16 tensors are the "element" type of a
call: all tensors that a docstring calls element have the same one. Norm weights, angles and the residual stream are
float32 always.

A step makes five calls a layer, so checks are plain ``if``s: building messages beforehand cost 10 us a call. [measured]
"""

from __future__ import annotations

import functools
import importlib
import warnings
from typing import Any

import torch
from torch import Tensor

from structgen.kernels import cpu, reference

_ELEMENTS = (torch.float32, torch.bfloat16)


@functools.cache
def _triton() -> Any:
    """The Triton kernels; the reference, with a warning, where triton is not installed."""
    try:
        return importlib.import_module("structgen.kernels.triton")
    except ImportError as error:
        warnings.warn(f"triton cannot be imported ({error}): the GPU runs slow torch operations", stacklevel=4)
        return reference


def _path(tensor: Tensor) -> Any:
    """The module that has the operations for tensors like this one; all three have the same signatures."""
    if tensor.device.type == "cpu":
        return cpu if tensor.dtype in _ELEMENTS else reference
    return _triton() if tensor.device.type == "cuda" else reference


def rms_norm(x: Tensor, weight: Tensor, eps: float, residual: Tensor) -> Tensor:
    """Add ``x`` to the residual stream in place and return the stream's RMS norm.

    Args:
        x: element [T, D], contiguous.
        weight: float32 [D].
        eps: added to the mean square.
        residual: float32 [T, D], contiguous, changed.

    Returns:
        element [T, D].
    """
    if not (x.dim() == 2 and x.shape == residual.shape and weight.shape == x.shape[1:]):
        raise ValueError(
            f"rms_norm: x {tuple(x.shape)} and residual {tuple(residual.shape)} must be [T, D], "
            f"weight {tuple(weight.shape)} [D]"
        )
    if not (residual.dtype == torch.float32 and weight.dtype == torch.float32):
        raise ValueError(f"rms_norm: residual ({residual.dtype}) and weight ({weight.dtype}) must be float32")
    normed: Tensor = _path(x).rms_norm(x.contiguous(), weight, eps, residual)
    return normed


def silu_mul(gate_up: Tensor) -> Tensor:
    """silu(gate) * up: element [T, 2F] (gate, then up) -> element [T, F]."""
    if not (gate_up.dim() == 2 and gate_up.shape[1] % 2 == 0):
        raise ValueError(f"silu_mul: need [T, 2F], got {tuple(gate_up.shape)}")
    out: Tensor = _path(gate_up).silu_mul(gate_up.contiguous())
    return out


def gelu_mul(gate_up: Tensor) -> Tensor:
    """gelu(gate) * up in gelu's tanh form (Hendrycks & Gimpel 2016, arXiv:1606.08415); shapes as `silu_mul`."""
    if not (gate_up.dim() == 2 and gate_up.shape[1] % 2 == 0):
        raise ValueError(f"gelu_mul: need [T, 2F], got {tuple(gate_up.shape)}")
    path = _path(gate_up)
    out: Tensor = (path if hasattr(path, "gelu_mul") else reference).gelu_mul(gate_up.contiguous())
    return out


def _check_heads(name: str, qkv: Tensor, k_cache: Tensor, v_cache: Tensor) -> None:
    if not (k_cache.dim() == 4 and k_cache.shape == v_cache.shape and k_cache.shape[3] % 8 == 0):
        raise ValueError(
            f"{name}: caches must both be [blocks, kv_heads, block_size, D] with D a multiple of 8, "
            f"got {tuple(k_cache.shape)} and {tuple(v_cache.shape)}"
        )
    if not (qkv.dtype == k_cache.dtype == v_cache.dtype):
        raise ValueError(
            f"{name}: qkv ({qkv.dtype}) and the caches ({k_cache.dtype}, {v_cache.dtype}) must share a dtype"
        )
    if not (qkv.is_contiguous() and k_cache.is_contiguous() and v_cache.is_contiguous()):
        raise ValueError(f"{name}: qkv and the caches must be contiguous")
    heads = qkv.shape[1] // k_cache.shape[3] - 2 * k_cache.shape[1]
    if not (qkv.dim() == 2 and qkv.shape[1] % k_cache.shape[3] == 0 and heads > 0 and heads % k_cache.shape[1] == 0):
        raise ValueError(
            f"{name}: qkv {tuple(qkv.shape)} must be [T, (heads + 2 kv_heads) * D] with heads a multiple of "
            f"kv_heads = {k_cache.shape[1]}, D = {k_cache.shape[3]}"
        )


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
    """Rotate q and k (after an RMS norm of each head, with q_norm and k_norm) in place; write k and v to the cache.

    Args:
        qkv: element [T, (heads + 2 kv_heads) * D], contiguous: query, key and value heads; q and k are changed.
        positions: int64 [T], rows of ``cos_sin``.
        slots: int64 [T], block * block_size + offset; -1 writes nothing (a row that only fills a batch up).
        cos_sin: float32 [positions, D]: D/2 cosines, then D/2 sines. The halves of a head are rotated.
        k_cache: element [blocks, kv_heads, block_size, D], contiguous, changed.
        v_cache: like ``k_cache``.
        q_norm: float32 [D] or None.
        k_norm: float32 [D] or None, as ``q_norm``.
        eps: of the norms.
    """
    _check_heads("rope_write_kv", qkv, k_cache, v_cache)
    if not (positions.shape == slots.shape == qkv.shape[:1] and positions.dtype == slots.dtype == torch.int64):
        raise ValueError(
            f"rope_write_kv: positions {tuple(positions.shape)} and slots {tuple(slots.shape)} must be "
            f"int64 [T = {qkv.shape[0]}]"
        )
    if not (cos_sin.dtype == torch.float32 and cos_sin.shape[1:] == k_cache.shape[3:]):
        raise ValueError(
            f"rope_write_kv: cos_sin must be float32 [positions, {k_cache.shape[3]}], got {tuple(cos_sin.shape)}"
        )
    if not ((q_norm is None) == (k_norm is None)):
        raise ValueError("rope_write_kv: give q_norm and k_norm both, or none")
    _path(qkv).rope_write_kv(qkv, positions, slots, cos_sin, k_cache, v_cache, q_norm, k_norm, eps)


def paged_attention(
    qkv: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    query_starts: Tensor,
    context_lens: Tensor,
    block_tables: Tensor,
    owners: Tensor,
    *,
    num_heads: int,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
) -> Tensor:
    """Causal attention of each sequence's last tokens over its blocks, which hold this step's keys and values too.

    Args:
        qkv: element [T, (heads + 2 kv_heads) * D], contiguous; its first heads * D columns are the queries.
        k_cache: element [blocks, kv_heads, block_size, D], contiguous.
        v_cache: like ``k_cache``.
        query_starts: int32 [S + 1], first token of each sequence, then T.
        context_lens: int32 [S], tokens of each sequence including these.
        block_tables: int32 [S, max_blocks].
        owners: int32 [T], the sequence of each token (what query_starts says, spelled out).
        num_heads: query heads.
        scale: of the scores.
        window: a position sees itself and the ``window - 1`` before it; None: all before it.
        softcap: scaled scores s become ``softcap * tanh(s / softcap)`` (Gemma 2, arXiv:2408.00118); None: unchanged.

    Returns:
        element [T, heads * D].
    """
    _check_heads("paged_attention", qkv, k_cache, v_cache)
    if not (num_heads == qkv.shape[1] // k_cache.shape[3] - 2 * k_cache.shape[1]):
        raise ValueError(f"paged_attention: num_heads = {num_heads} does not fit qkv {tuple(qkv.shape)}")
    sequences = context_lens.shape[0]
    if not (query_starts.shape == (sequences + 1,) and block_tables.dim() == 2 and block_tables.shape[0] == sequences):
        raise ValueError(
            f"paged_attention: query_starts {tuple(query_starts.shape)}, context_lens {tuple(context_lens.shape)} and "
            f"block_tables {tuple(block_tables.shape)} must be [S + 1], [S], [S, max_blocks]"
        )
    if not (owners.shape == qkv.shape[:1]):
        raise ValueError(f"paged_attention: owners {tuple(owners.shape)} must be [T = {qkv.shape[0]}]")
    if not (query_starts.dtype == context_lens.dtype == block_tables.dtype == owners.dtype == torch.int32):
        raise ValueError("paged_attention: query_starts, context_lens, block_tables and owners must be int32")
    if not (window is None or window > 0):
        raise ValueError(f"paged_attention: window must be positive or None, got {window}")
    if not (softcap is None or softcap > 0):
        raise ValueError(f"paged_attention: softcap must be positive or None, got {softcap}")
    out: Tensor = _path(qkv).paged_attention(
        qkv, k_cache, v_cache, query_starts, context_lens, block_tables, owners, num_heads, scale, window, softcap
    )
    return out


def warmup(dtype: torch.dtype, device: torch.device) -> float:
    """Compile what the operations need on ``device`` for ``dtype``, so that no request does; return the seconds."""
    return cpu.warmup(dtype) if device.type == "cpu" and dtype in _ELEMENTS else 0.0

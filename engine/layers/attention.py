"""Grouped-query attention with rotary positions over a paged cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from structgen import kernels
from structgen.engine.layers.linear import Linear
from structgen.engine.loader import Checkpoint
from structgen.engine.model_config import ModelConfig


@dataclass(frozen=True, slots=True)
class Step:
    """What every layer needs to know of a step, on the model's device. Shapes and dtypes as in `Batch`.

    Attributes:
        owners: int32 [T], the sequence of each token.
        cos_sin: float32 [positions, head_dim], cosines then sines.
    """

    positions: Tensor
    slots: Tensor
    query_starts: Tensor
    context_lens: Tensor
    block_tables: Tensor
    owners: Tensor
    cos_sin: Tensor


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Keys and values of one layer, each [blocks, kv_heads, block_size, head_dim]."""

    keys: Tensor
    values: Tensor


class Attention:
    """hidden [T, H] -> [T, H]; ``window`` limits how far back the layer sees."""

    def __init__(self, config: ModelConfig, *, window: int | None, dtype: torch.dtype, device: torch.device) -> None:
        dim, heads, kv_heads = config.head_dim, config.num_heads, config.num_kv_heads
        self._qkv = Linear(
            config.hidden_size,
            (heads * dim, kv_heads * dim, kv_heads * dim),
            bias=config.qkv_bias,
            dtype=dtype,
            device=device,
        )
        self._out = Linear(heads * dim, (config.hidden_size,), bias=config.output_bias, dtype=dtype, device=device)
        self._config = config
        self._window = window
        self._device = device
        self._q_norm: Tensor | None = None
        self._k_norm: Tensor | None = None

    def load(self, weights: Checkpoint, name: str) -> None:
        self._qkv.load(weights, f"{name}.q_proj", f"{name}.k_proj", f"{name}.v_proj")
        self._out.load(weights, f"{name}.o_proj")
        if self._config.qk_norm:
            shape = (self._config.head_dim,)
            self._q_norm = weights.take(f"{name}.q_norm.weight", shape).to(self._device, torch.float32)
            self._k_norm = weights.take(f"{name}.k_norm.weight", shape).to(self._device, torch.float32)

    def __call__(self, hidden: Tensor, step: Step, cache: LayerCache) -> Tensor:
        config = self._config
        qkv = self._qkv(hidden)
        kernels.rope_write_kv(
            qkv,
            step.positions,
            step.slots,
            step.cos_sin,
            cache.keys,
            cache.values,
            self._q_norm,
            self._k_norm,
            config.rms_norm_eps,
        )
        seen = kernels.paged_attention(
            qkv,
            cache.keys,
            cache.values,
            step.query_starts,
            step.context_lens,
            step.block_tables,
            step.owners,
            num_heads=config.num_heads,
            scale=config.head_dim**-0.5,
            window=self._window,
        )
        return self._out(seen)

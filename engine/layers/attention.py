"""Grouped-query attention with rotary positions over a paged cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from structgen import kernels
from structgen.engine.layers.linear import Linear
from structgen.engine.layers.norm import RMSNorm
from structgen.engine.layers.rope import halves_order
from structgen.engine.loader import Checkpoint
from structgen.engine.model_config import ModelConfig


@dataclass(frozen=True, slots=True)
class Step:
    """What every layer needs to know of a step, on the model's device. Shapes and dtypes as in `Batch`.

    Attributes:
        owners: int32 [T], the sequence of each token.
        cos_sin: what `RopeTable.build` gave: float32 [positions, head_dim], or two such tables.
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
        self._scale = dim**-0.5 if config.attention_scale is None else config.attention_scale
        self._rope = config.local_rope if config.local_rope is not None and window is not None else config.rope
        self._q_norm: RMSNorm | None = None
        self._k_norm: RMSNorm | None = None
        if config.qk_norm or config.qk_row_norm:
            sizes = (heads * dim, kv_heads * dim) if config.qk_row_norm else (dim, dim)
            self._q_norm, self._k_norm = (
                RMSNorm(size, config.rms_norm_eps, device, config.norm_offset) for size in sizes
            )

    def load(self, weights: Checkpoint, name: str) -> None:
        names: tuple[str, ...] = (f"{name}.q_proj", f"{name}.k_proj", f"{name}.v_proj")
        if weights.has(f"{name}.qkv_proj.weight"):
            names = (f"{name}.qkv_proj",)
        self._qkv.load(weights, *names, order=self._row_order())
        self._out.load(weights, f"{name}.o_proj")
        if self._q_norm is not None and self._k_norm is not None:
            self._q_norm.load(weights, f"{name}.q_norm")
            self._k_norm.load(weights, f"{name}.k_norm")

    def _row_order(self) -> Tensor | None:
        """How rows of the query and key projections must be ordered for the kernels; None: as they are."""
        config = self._config
        rotated = self._rope.rotated(config.head_dim)
        if rotated == config.head_dim:
            return None
        starts = torch.arange(config.num_heads + config.num_kv_heads)[:, None] * config.head_dim
        turned = (starts + halves_order(rotated, config.head_dim)).flatten()
        return torch.cat((turned, torch.arange(config.num_kv_heads * config.head_dim) + len(turned)))

    def __call__(self, hidden: Tensor, step: Step, cache: LayerCache) -> Tensor:
        config = self._config
        qkv = self._qkv(hidden)
        q_norm = k_norm = None
        if self._q_norm is not None and self._k_norm is not None:
            if config.qk_row_norm:
                queries, keys = self._q_norm.size, self._k_norm.size
                qkv[:, :queries] = self._q_norm.alone(qkv[:, :queries].contiguous())
                qkv[:, queries : queries + keys] = self._k_norm.alone(qkv[:, queries : queries + keys].contiguous())
            else:
                q_norm, k_norm = self._q_norm.weight, self._k_norm.weight
        cos_sin = step.cos_sin
        if self._rope is config.local_rope:
            cos_sin = cos_sin[len(cos_sin) // 2 :]
        kernels.rope_write_kv(
            qkv, step.positions, step.slots, cos_sin, cache.keys, cache.values, q_norm, k_norm, config.rms_norm_eps
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
            scale=self._scale,
            window=self._window,
            softcap=config.attention_softcap,
        )
        return self._out(seen)

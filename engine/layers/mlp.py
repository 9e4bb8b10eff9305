"""The gated feed-forward layer."""

from __future__ import annotations

import torch
from torch import Tensor

from structgen import kernels
from structgen.engine.layers.linear import Linear
from structgen.engine.loader import Checkpoint
from structgen.engine.model_config import ModelConfig


class GatedMLP:
    """hidden [T, H] -> down(silu(gate) * up) [T, H]; gate and up are one product."""

    def __init__(self, config: ModelConfig, *, dtype: torch.dtype, device: torch.device) -> None:
        hidden, inner = config.hidden_size, config.intermediate_size
        self._gate_up = Linear(hidden, (inner, inner), bias=config.mlp_bias, dtype=dtype, device=device)
        self._down = Linear(inner, (hidden,), bias=config.mlp_bias, dtype=dtype, device=device)

    def load(self, weights: Checkpoint, name: str) -> None:
        self._gate_up.load(weights, f"{name}.gate_proj", f"{name}.up_proj")
        self._down.load(weights, f"{name}.down_proj")

    def __call__(self, hidden: Tensor) -> Tensor:
        return self._down(kernels.silu_mul(self._gate_up(hidden)))

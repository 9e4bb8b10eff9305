"""The gated feed-forward layer."""

from __future__ import annotations

import torch
from torch import Tensor

from structgen import kernels
from structgen.engine.layers.linear import Linear
from structgen.engine.loader import Checkpoint
from structgen.engine.model_config import ModelConfig

_ACTIVATIONS = {"silu": kernels.silu_mul, "gelu": kernels.gelu_mul}


class GatedMLP:
    """hidden [T, H] -> down(act(gate) * up) [T, H]; gate and up are one product.

    ``names`` are the checkpoint's for gate, up and down; a fused ``gate_up_proj`` is taken where there is one.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        dtype: torch.dtype,
        device: torch.device,
        inner: int | None = None,
        names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    ) -> None:
        hidden, inner = config.hidden_size, inner or config.intermediate_size
        self._gate_up = Linear(hidden, (inner, inner), bias=config.mlp_bias, dtype=dtype, device=device)
        self._down = Linear(inner, (hidden,), bias=config.mlp_bias, dtype=dtype, device=device)
        self._activate = _ACTIVATIONS[config.activation]
        self._names = names

    def load(self, weights: Checkpoint, name: str) -> None:
        gate, up, down = (f"{name}.{part}" for part in self._names)
        self._gate_up.load(weights, *_fused_or(weights, f"{name}.gate_up_proj", gate, up))
        self._down.load(weights, down)

    def __call__(self, hidden: Tensor) -> Tensor:
        return self._down(self._activate(self._gate_up(hidden)))


def _fused_or(weights: Checkpoint, fused: str, *names: str) -> tuple[str, ...]:
    return (fused,) if weights.has(f"{fused}.weight") else names

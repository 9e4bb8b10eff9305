"""RMS norm over the residual stream."""

from __future__ import annotations

import torch
from torch import Tensor

from structgen import kernels
from structgen.engine.loader import Checkpoint


class RMSNorm:
    """Adds its input to the residual stream and returns the stream's norm; the weight stays float32."""

    def __init__(self, size: int, eps: float, device: torch.device) -> None:
        self.size = size
        self.eps = eps
        self._device = device

    def load(self, weights: Checkpoint, name: str) -> None:
        self.weight = weights.take(f"{name}.weight", (self.size,)).to(self._device, torch.float32)

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        return kernels.rms_norm(x, self.weight, self.eps, residual)

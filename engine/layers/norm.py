"""RMS norm over the residual stream."""

from __future__ import annotations

import torch
from torch import Tensor

from structgen import kernels
from structgen.engine.loader import Checkpoint


class RMSNorm:
    """Adds its input to the residual stream and returns the stream's norm; the weight stays float32.

    Args:
        size: D.
        eps: added to the mean square.
        device: where it runs.
        offset: added to the stored weights (Gemma stores them less one).
    """

    def __init__(self, size: int, eps: float, device: torch.device, offset: float = 0.0) -> None:
        self.size = size
        self.eps = eps
        self._device = device
        self._offset = offset

    def load(self, weights: Checkpoint, name: str) -> None:
        stored = weights.take(f"{name}.weight", (self.size,)).to(self._device, torch.float32)
        self.weight = stored + self._offset if self._offset else stored

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        return kernels.rms_norm(x, self.weight, self.eps, residual)

    def alone(self, x: Tensor) -> Tensor:
        """The norm of x [T, D] itself."""
        return kernels.rms_norm(x, self.weight, self.eps, torch.zeros_like(x, dtype=torch.float32))

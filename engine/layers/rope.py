"""The table of rotary angles."""

from __future__ import annotations

import torch
from torch import Tensor

from structgen.engine.loader import Checkpoint
from structgen.engine.model_config import ModelConfig


class RopeTable:
    """Cosines and sines of every position, float32 [max_positions, head_dim]: head_dim / 2 cosines, then sines."""

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        self._inverse = config.rope.inverse_frequencies(config.head_dim)
        self._device = device

    def load(self, weights: Checkpoint) -> None:
        """GGUF files of Llama 3.1 and later carry their frequency scaling as a tensor of divisors."""
        if weights.has("rope_freqs.weight"):
            self._inverse = self._inverse / weights.take("rope_freqs.weight", tuple(self._inverse.shape)).float()

    def build(self, max_positions: int) -> Tensor:
        angles = torch.arange(max_positions).float()[:, None] * self._inverse
        return torch.cat((angles.cos(), angles.sin()), dim=1).to(self._device)

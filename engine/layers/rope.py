"""The table of rotary angles."""

from __future__ import annotations

import torch
from torch import Tensor

from structgen.engine.loader import Checkpoint
from structgen.engine.model_config import ModelConfig
from structgen.engine.rope_config import RopeConfig


class RopeTable:
    """Cosines and sines of every position: rows of head_dim / 2 cosines, then sines.

    Models whose windowed layers have angles of their own get a second table below the first.
    """

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        self._ropes = [config.rope] + ([config.local_rope] if config.local_rope is not None else [])
        self._head_dim = config.head_dim
        self._device = device
        self._divisors: Tensor | None = None

    def load(self, weights: Checkpoint) -> None:
        """GGUF files of Llama 3.1 and later carry their frequency scaling as a tensor of divisors."""
        if weights.has("rope_freqs.weight"):
            shape = (self._ropes[0].rotated(self._head_dim) // 2,)
            self._divisors = weights.take("rope_freqs.weight", shape).float()

    def build(self, max_positions: int) -> Tensor:
        """float32 [tables * max_positions, head_dim]."""
        tables = [self._table(rope, max_positions) for rope in self._ropes]
        return torch.cat(tables).to(self._device)

    def _table(self, rope: RopeConfig, max_positions: int) -> Tensor:
        inverse = rope.inverse_frequencies(self._head_dim, max_positions)
        if self._divisors is not None and rope is self._ropes[0]:
            inverse = inverse / self._divisors
        angles = torch.arange(max_positions).float()[:, None] * inverse
        still = torch.zeros(max_positions, self._head_dim // 2 - angles.shape[1])  # what does not rotate: angle 0
        cos, sin = angles.cos() * rope.attention_factor, angles.sin() * rope.attention_factor
        return torch.cat((cos, still + 1, sin, still), dim=1)


def halves_order(rotated: int, head_dim: int) -> Tensor:
    """int64 [head_dim]: the order of a head's dimensions in which its first ``rotated`` are again in two halves.

    The kernels rotate dimension d with d + head_dim / 2. Where only the first dimensions rotate, in pairs of d and
    d + rotated / 2, rows of the query and key projections are put in this order; their products stay as they are.
    """
    first, second = torch.arange(rotated).chunk(2)
    rest = torch.arange(rotated, head_dim).chunk(2)
    return torch.cat((first, rest[0], second, rest[1])) if rotated < head_dim else torch.arange(head_dim)

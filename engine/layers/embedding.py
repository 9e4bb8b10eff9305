"""Token embedding and output head."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from structgen.engine.layers.linear import Linear
from structgen.engine.loader import Checkpoint


class Embedding:
    """token ids [T] -> [T, hidden], times ``scale``."""

    def __init__(
        self, vocab_size: int, size: int, *, dtype: torch.dtype, device: torch.device, scale: float = 1.0
    ) -> None:
        self._scale = scale
        self._shape = (vocab_size, size)
        self._dtype = dtype
        self._device = device

    def load(self, weights: Checkpoint, name: str) -> None:
        self.weight = weights.take(f"{name}.weight", self._shape).to(self._device, self._dtype)

    def __call__(self, token_ids: Tensor) -> Tensor:
        x = functional.embedding(token_ids, self.weight)
        return x if self._scale == 1.0 else x * self._scale


class Head(Linear):
    """hidden [R, K] -> float32 logits [R, vocab]; shares the embedding's weight when the checkpoint ties them."""

    def tie(self, embedding: Embedding) -> None:
        self.pack(embedding.weight)

    def __call__(self, x: Tensor) -> Tensor:
        return self._product(x).float()

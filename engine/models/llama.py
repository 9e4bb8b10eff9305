"""Llama: the decoder that the other files vary (Touvron et al. 2023, arXiv:2302.13971)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from structgen.engine.layers.attention import Attention, LayerCache, Step
from structgen.engine.layers.embedding import Embedding, Head
from structgen.engine.layers.mlp import GatedMLP
from structgen.engine.layers.norm import RMSNorm
from structgen.engine.layers.rope import RopeTable
from structgen.engine.loader import Checkpoint
from structgen.engine.model_config import Fields, ModelConfig
from structgen.engine.models.registry import register


class DecoderLayer:
    """Attention, then the feed-forward layer, each on the norm of the residual stream."""

    def __init__(self, config: ModelConfig, window: int | None, *, dtype: torch.dtype, device: torch.device) -> None:
        self._attention = Attention(config, window=window, dtype=dtype, device=device)
        self._mlp = GatedMLP(config, dtype=dtype, device=device)
        self._norm = RMSNorm(config.hidden_size, config.rms_norm_eps, device)
        self._mlp_norm = RMSNorm(config.hidden_size, config.rms_norm_eps, device)

    def load(self, weights: Checkpoint, name: str) -> None:
        self._norm.load(weights, f"{name}.input_layernorm")
        self._attention.load(weights, f"{name}.self_attn")
        self._mlp_norm.load(weights, f"{name}.post_attention_layernorm")
        self._mlp.load(weights, f"{name}.mlp")

    def __call__(self, x: Tensor, residual: Tensor, step: Step, cache: LayerCache) -> Tensor:
        """x [T, H] is added to residual f32 [T, H]; returns what is to be added next."""
        x = self._attention(self._norm(x, residual), step, cache)
        return self._mlp(self._mlp_norm(x, residual))


@register("llama")
class Llama:
    """token ids -> hidden states -> logits."""

    def __init__(self, config: ModelConfig, *, dtype: torch.dtype, device: torch.device) -> None:
        self.config = config
        self.dtype = dtype
        self.device = device
        self.rope = RopeTable(config, device)
        self._embedding = Embedding(config.vocab_size, config.hidden_size, dtype=dtype, device=device)
        self._layers = [DecoderLayer(config, window, dtype=dtype, device=device) for window in config.windows]
        self._norm = RMSNorm(config.hidden_size, config.rms_norm_eps, device)
        self._head = Head(config.hidden_size, (config.vocab_size,), bias=False, dtype=dtype, device=device)

    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        """From the fields of config.json."""
        bias = bool(fields.get("attention_bias", False))
        return ModelConfig.read(fields, qkv_bias=bias, output_bias=bias, mlp_bias=bool(fields.get("mlp_bias", False)))

    def load(self, weights: Checkpoint) -> None:
        """Take every weight from the checkpoint."""
        self.rope.load(weights)
        self._embedding.load(weights, "model.embed_tokens")
        for i, layer in enumerate(self._layers):
            layer.load(weights, f"model.layers.{i}")
        self._norm.load(weights, "model.norm")
        if self.config.tie_word_embeddings:
            weights.drop("lm_head.weight")
            self._head.tie(self._embedding)
        else:
            self._head.load(weights, "lm_head")

    def forward(self, token_ids: Tensor, step: Step, caches: Sequence[LayerCache]) -> tuple[Tensor, Tensor]:
        """token ids int64 [T] -> (x [T, H], residual f32 [T, H]), which `logits` adds and norms."""
        x = self._embedding(token_ids)
        residual = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
        for layer, cache in zip(self._layers, caches, strict=True):
            x = layer(x, residual, step, cache)
        return x, residual

    def logits(self, x: Tensor, residual: Tensor) -> Tensor:
        """Rows of what `forward` returned, [R, H] each -> float32 [R, vocab_size]; changes ``residual``."""
        return self._head(self._norm(x, residual))

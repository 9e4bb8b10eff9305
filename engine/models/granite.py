"""Granite: llama with a factor of its own for embeddings, attention scores, residual branches and logits."""

from __future__ import annotations

from structgen.engine.model_config import Fields, ModelConfig
from structgen.engine.models.llama import Llama
from structgen.engine.models.registry import register


@register("granite")
class Granite(Llama):
    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        bias = bool(fields.get("attention_bias", False))
        return ModelConfig.read(
            fields,
            qkv_bias=bias,
            output_bias=bias,
            mlp_bias=bool(fields.get("mlp_bias", False)),
            embedding_scale=float(fields.get("embedding_multiplier", 1.0)),
            attention_scale=float(fields.get("attention_multiplier", 1.0)),
            residual_scale=float(fields.get("residual_multiplier", 1.0)),
            logits_divisor=float(fields.get("logits_scaling", 1.0)),
        )

"""Qwen3: llama with a norm on each query and key head, and a head size of its own."""

from __future__ import annotations

from structgen.engine.model_config import Fields, ModelConfig
from structgen.engine.models.llama import Llama
from structgen.engine.models.qwen2 import qwen_windows
from structgen.engine.models.registry import register


@register("qwen3")
class Qwen3(Llama):
    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        bias = bool(fields.get("attention_bias", False))
        return ModelConfig.read(
            fields,
            head_dim=int(fields.get("head_dim") or 128),  # the default of its config class, not hidden / heads
            qk_norm=True,
            qkv_bias=bias,
            output_bias=bias,
            windows=qwen_windows(fields),
        )

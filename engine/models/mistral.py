"""Mistral: llama with a sliding window in every layer (Jiang et al. 2023, arXiv:2310.06825)."""

from __future__ import annotations

from structgen.engine.model_config import Fields, ModelConfig, layer_windows
from structgen.engine.models.llama import Llama
from structgen.engine.models.registry import register


@register("mistral")
class Mistral(Llama):
    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        window = fields.get("sliding_window", 4096)  # a missing one has the config class's default; null is none
        return ModelConfig.read(fields, windows=layer_windows(fields, default=window))

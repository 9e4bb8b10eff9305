"""Qwen2 and Qwen2.5: llama with biases on q, k and v."""

from __future__ import annotations

from structgen.engine.model_config import Fields, ModelConfig, layer_windows
from structgen.engine.models.llama import Llama
from structgen.engine.models.registry import register


def qwen_windows(fields: Fields) -> tuple[int | None, ...]:
    """Where ``use_sliding_window`` is set, the layers from ``max_window_layers`` on have a window."""
    if not fields.get("use_sliding_window", False):
        return (None,) * int(fields["num_hidden_layers"])
    if fields.get("layer_types") is not None:
        return layer_windows(fields, default=None)
    first = int(fields.get("max_window_layers", 28))
    window = fields.get("sliding_window", 4096)
    return tuple(window if i >= first else None for i in range(int(fields["num_hidden_layers"])))


@register("qwen2")
class Qwen2(Llama):
    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        return ModelConfig.read(fields, qkv_bias=True, windows=qwen_windows(fields))

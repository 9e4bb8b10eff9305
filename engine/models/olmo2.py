"""OLMo 2 (arXiv:2501.00656): llama with norms after each layer, and of all queries and keys of a token together."""

from __future__ import annotations

from structgen.engine.model_config import Fields, ModelConfig
from structgen.engine.models.llama import Llama
from structgen.engine.models.registry import register


@register("olmo2")
class Olmo2(Llama):
    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        bias = bool(fields.get("attention_bias", False))
        return ModelConfig.read(fields, norms="after", qk_row_norm=True, qkv_bias=bias, output_bias=bias)

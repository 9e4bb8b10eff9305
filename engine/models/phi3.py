"""Phi-3 and Phi-4 (arXiv:2404.14219): llama with fused projections; some rotate a part of each head, or by longrope."""

from __future__ import annotations

from structgen.engine.model_config import Fields, ModelConfig, layer_windows
from structgen.engine.models.llama import Llama
from structgen.engine.models.registry import register
from structgen.engine.rope_config import RopeConfig


@register("phi3")
class Phi3(Llama):
    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        return ModelConfig.read(
            fields, rope=_rope(fields), windows=layer_windows(fields, default=fields.get("sliding_window"))
        )


def _rope(fields: Fields) -> RopeConfig:
    given = dict(fields.get("rope_scaling") or {}) | dict(fields.get("rope_parameters") or {})
    for name in ("rope_type", "type"):
        if given.get(name) in ("su", "yarn"):  # what old files called longrope
            given[name] = "longrope"
    return RopeConfig.read(fields, given)

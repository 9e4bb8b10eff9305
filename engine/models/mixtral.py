"""Mixtral: mistral with experts in every layer (Jiang et al. 2024, arXiv:2401.04088)."""

from __future__ import annotations

from structgen.engine.model_config import Experts, Fields, ModelConfig, layer_windows
from structgen.engine.models.llama import Llama
from structgen.engine.models.registry import register


@register("mixtral")
class Mixtral(Llama):
    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        experts = Experts(
            count=int(fields.get("num_local_experts", 8)),
            per_token=int(fields.get("num_experts_per_tok", 2)),
            inner=int(fields["intermediate_size"]),
            normalise=True,
            layers=frozenset(range(int(fields["num_hidden_layers"]))),
            names=("w1", "w3", "w2"),
            module="block_sparse_moe",
        )
        return ModelConfig.read(
            fields, experts=experts, windows=layer_windows(fields, default=fields.get("sliding_window"))
        )

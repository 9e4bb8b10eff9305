"""Qwen2 and Qwen3 with experts (arXiv:2407.10671, arXiv:2505.09388); Qwen2's have one that every token goes through."""

from __future__ import annotations

from structgen.engine.model_config import Experts, Fields, ModelConfig, layer_windows
from structgen.engine.models.llama import Llama
from structgen.engine.models.qwen2 import qwen_windows
from structgen.engine.models.registry import register


def _experts(fields: Fields, *, per_token: int, shared_inner: int = 0) -> Experts:
    plain = set(fields.get("mlp_only_layers") or ())
    step = int(fields.get("decoder_sparse_step", 1))
    return Experts(
        count=int(fields["num_experts"] if "num_experts" in fields else fields["num_local_experts"]),
        per_token=int(fields.get("num_experts_per_tok", per_token)),
        inner=int(fields["moe_intermediate_size"]),
        normalise=bool(fields.get("norm_topk_prob", False)),
        layers=frozenset(i for i in range(int(fields["num_hidden_layers"])) if i not in plain and (i + 1) % step == 0),
        shared_inner=shared_inner,
    )


@register("qwen2_moe")
class Qwen2Moe(Llama):
    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        shared = int(fields.get("shared_expert_intermediate_size", 5632))
        return ModelConfig.read(
            fields,
            qkv_bias=bool(fields.get("qkv_bias", True)),
            windows=qwen_windows(fields),
            experts=_experts(fields, per_token=4, shared_inner=shared),
        )


@register("qwen3_moe")
class Qwen3Moe(Llama):
    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        bias = bool(fields.get("attention_bias", False))
        window = fields.get("sliding_window", 4096) if fields.get("use_sliding_window", False) else None
        return ModelConfig.read(
            fields,
            qk_norm=True,
            qkv_bias=bias,
            output_bias=bias,
            windows=layer_windows(fields, default=window),
            experts=_experts(fields, per_token=8),
        )

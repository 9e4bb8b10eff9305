"""Gemma (arXiv:2403.08295), Gemma 2 (arXiv:2408.00118) and the text models of Gemma 3 (arXiv:2503.19786).

Norm weights are stored less one and embeddings are scaled by the root of their width. Gemma 2 has norms around each
layer, a window in every other layer, and soft-caps; Gemma 3 has norms of queries and keys in place of the soft-caps,
and two kinds of rotary angles.
"""

from __future__ import annotations

from typing import Any

from structgen.engine.model_config import Fields, ModelConfig, layer_windows
from structgen.engine.models.llama import Llama
from structgen.engine.models.registry import register
from structgen.engine.rope_config import RopeConfig
from structgen.errors import ModelError


def _read(fields: Fields, **overrides: Any) -> ModelConfig:
    if fields.get("use_bidirectional_attention"):
        raise ModelError("config.json: use_bidirectional_attention is set; such a model is not causal: it embeds text")
    bias = bool(fields.get("attention_bias", False))
    values: dict[str, Any] = {
        "head_dim": int(fields.get("head_dim") or 256),
        "activation": "gelu",  # the tanh form, also where old files say "gelu"
        "norm_offset": 1.0,
        "embedding_scale": float(fields["hidden_size"]) ** 0.5,
        "tie_word_embeddings": bool(fields.get("tie_word_embeddings", True)),
        "qkv_bias": bias,
        "output_bias": bias,
    }
    return ModelConfig.read(fields, **(values | overrides))


def _windows(fields: Fields, full_every: int) -> tuple[int | None, ...]:
    """By ``layer_types``; without them every ``full_every``-th layer sees everything."""
    if fields.get("layer_types") is not None:
        return layer_windows(fields, default=None)
    window = int(fields.get("sliding_window") or 4096)
    return tuple(None if (i + 1) % full_every == 0 else window for i in range(int(fields["num_hidden_layers"])))


@register("gemma")
class Gemma(Llama):
    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        return _read(fields)


@register("gemma2")
class Gemma2(Llama):
    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        return _read(
            fields,
            norms="around",
            windows=_windows(fields, 2),
            attention_scale=float(fields.get("query_pre_attn_scalar", 256)) ** -0.5,
            attention_softcap=fields.get("attn_logit_softcapping", 50.0),
            logits_softcap=fields.get("final_logit_softcapping", 30.0),
        )


@register("gemma3_text")
class Gemma3(Llama):
    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        if fields.get("attn_logit_softcapping") is not None:
            raise ModelError("config.json: attn_logit_softcapping is set; gemma3_text has no soft-cap of its scores")
        rope, local_rope = _ropes(fields)
        pattern = fields.get("sliding_window_pattern") or fields.get("_sliding_window_pattern") or 6
        return _read(
            fields,
            norms="around",
            qk_norm=True,
            windows=_windows(fields, int(pattern)),
            attention_scale=float(fields.get("query_pre_attn_scalar", 256)) ** -0.5,
            logits_softcap=fields.get("final_logit_softcapping"),
            rope=rope,
            local_rope=local_rope,
        )


def _ropes(fields: Fields) -> tuple[RopeConfig, RopeConfig]:
    """Of the layers that see everything, and of those with a window (whose angles are never scaled in older files)."""
    given = fields.get("rope_parameters") or {}
    theta = fields.get("rope_theta") or 1_000_000.0
    local_theta = fields.get("rope_local_base_freq") or 10_000.0
    full = {"rope_theta": theta} | dict(given.get("full_attention") or fields.get("rope_scaling") or {})
    local = {"rope_theta": local_theta} | dict(given.get("sliding_attention") or {})
    return RopeConfig.read(fields, full), RopeConfig.read(fields, local)

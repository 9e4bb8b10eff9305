"""What a checkpoint says of its architecture: config.json, or GGUF metadata under the same names.

Plain JSON, not transformers' config classes: importing those costs seconds at start-up. What the models here cannot do
is refused by name, so that no checkpoint runs with a part of it left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from structgen.engine.rope_config import RopeConfig
from structgen.errors import ModelError

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in place of the feed-forward layer.

    Attributes:
        count: experts a layer.
        per_token: how many of them a token goes through.
        inner: intermediate size of each.
        normalise: whether the shares of the picked ones are scaled to sum to 1.
        shared_inner: intermediate size of the expert that every token goes through; 0: none.
        names: the checkpoint's, for an expert's gate, up and down projections.
        module: the checkpoint's, for the layer.
        layers: numbers of the layers that have experts; the others have the plain layer.
    """

    count: int
    per_token: int
    inner: int
    normalise: bool
    layers: frozenset[int]
    shared_inner: int = 0
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    module: str = "mlp"


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A decoder of the llama family: what one differs in from another.

    Attributes:
        windows: one entry a layer: None, or the width of its sliding window.
        qk_norm: queries and keys have a norm, over each head.
        qk_row_norm: they have one over all heads together.
        norms: where the norms of attention and feed-forward layer are: "before" them, "after" (on what is added to the
            residual stream), or "around" (both).
        norm_offset: added to every norm's stored weights.
        attention_scale: of the scores; None: 1 / sqrt(head_dim).
        attention_softcap, logits_softcap: s becomes cap * tanh(s / cap); None: it stays.
        embedding_scale, residual_scale: factors of the embeddings, and of what is added to the residual stream.
        logits_divisor: logits are divided by it.
        local_rope: of layers with a window, where it is not ``rope``.
        experts: None for a dense model.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_position: int
    rms_norm_eps: float
    tie_word_embeddings: bool
    rope: RopeConfig = field(default_factory=RopeConfig)
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    qk_row_norm: bool = False
    windows: tuple[int | None, ...] = ()
    activation: Literal["silu", "gelu"] = "silu"
    norms: Literal["before", "after", "around"] = "before"
    norm_offset: float = 0.0
    attention_scale: float | None = None
    attention_softcap: float | None = None
    logits_softcap: float | None = None
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logits_divisor: float = 1.0
    local_rope: RopeConfig | None = None
    experts: Experts | None = None
    dtype: torch.dtype | None = None

    @classmethod
    def read(cls, fields: Fields, **overrides: Any) -> ModelConfig:
        """From the fields that the family shares; ``overrides`` are what a model reads in its own way.

        Raises:
            ModelError: a field is missing or asks for something that is not supported.
        """
        if fields.get("quantization_config") is not None:
            method = fields["quantization_config"].get("quant_method", "unknown")
            raise ModelError(f"config.json: {method} quantisation is not supported; use the full checkpoint or a GGUF")
        try:
            hidden, heads, layers = (
                int(fields[name]) for name in ("hidden_size", "num_attention_heads", "num_hidden_layers")
            )
            values: dict[str, Any] = {
                "model_type": fields["model_type"],
                "vocab_size": int(fields["vocab_size"]),
                "hidden_size": hidden,
                "intermediate_size": int(fields["intermediate_size"]),
                "num_layers": layers,
                "num_heads": heads,
                "num_kv_heads": int(fields.get("num_key_value_heads") or heads),
                "head_dim": int(fields.get("head_dim") or hidden // heads),
                "max_position": int(fields["max_position_embeddings"]),
                "rms_norm_eps": float(fields.get("rms_norm_eps", 1e-6)),
                "tie_word_embeddings": bool(fields.get("tie_word_embeddings", False)),
                "activation": _read_activation(fields),
                "windows": (None,) * layers,
                "dtype": read_dtype(fields),
            }
            if "rope" not in overrides:
                values["rope"] = rope = RopeConfig.read(fields)
                if rope.partial != 1.0:
                    raise ModelError(
                        f"config.json: partial_rotary_factor is {rope.partial}; {fields['model_type']!r} rotates "
                        "whole heads: only 1.0 is supported"
                    )
        except KeyError as missing:
            raise ModelError(f"config.json: {missing} is missing") from None
        config = cls(**(values | overrides))
        if config.num_heads % config.num_kv_heads != 0:
            raise ModelError(
                f"config.json: num_attention_heads ({config.num_heads}) must be a multiple of "
                f"num_key_value_heads ({config.num_kv_heads})"
            )
        if config.head_dim % 8 != 0:
            raise ModelError(f"config.json: head_dim is {config.head_dim}; it must be a multiple of 8")
        return config


_ACTIVATIONS: dict[str, Literal["silu", "gelu"]] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_new": "gelu",
}


def _read_activation(fields: Fields) -> Literal["silu", "gelu"]:
    name = fields.get("hidden_activation") or fields.get("hidden_act") or "silu"
    if name not in _ACTIVATIONS:
        raise ModelError(f"config.json: hidden_act is {name!r}; supported: {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def read_dtype(fields: Fields) -> torch.dtype | None:
    """What the weights are stored in, by config.json."""
    name = fields.get("dtype") or fields.get("torch_dtype")
    dtype = getattr(torch, str(name), None)
    return dtype if isinstance(dtype, torch.dtype) else None


def layer_windows(fields: Fields, *, default: int | None) -> tuple[int | None, ...]:
    """One window per layer: by ``layer_types`` where given, else ``default`` in every layer."""
    layers = int(fields["num_hidden_layers"])
    kinds = fields.get("layer_types")
    if kinds is None:
        return (default,) * layers
    unknown = sorted(set(kinds) - {"full_attention", "sliding_attention"})
    if unknown:
        raise ModelError(
            f"config.json: layer_types has {', '.join(unknown)}; supported: full_attention, sliding_attention"
        )
    window = fields.get("sliding_window")
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def read_config_json(folder: Path) -> dict[str, Any]:
    """The fields of ``folder/config.json``."""
    path = folder / "config.json"
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"{folder} has no config.json: give a folder with a transformers checkpoint, or a .gguf file"
        ) from None
    except ValueError as error:
        raise ModelError(f"{path} is not JSON: {error}") from None
    if not isinstance(fields, dict) or "model_type" not in fields:
        raise ModelError(f"{path} has no model_type: it is not a transformers checkpoint")
    return fields

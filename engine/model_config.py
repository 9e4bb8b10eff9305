"""What a checkpoint says of its architecture: config.json, or GGUF metadata under the same names.

Plain JSON, not transformers' config classes: importing those costs seconds at start-up. What the models here cannot do
is refused by name, so that no checkpoint runs with a part of it left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from structgen.errors import ModelError

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary embedding: ``kind`` is "default", "linear" or "llama3"; the numbers are config.json's."""

    theta: float = 10000.0
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192

    @classmethod
    def read(cls, fields: Fields) -> RopeConfig:
        """From ``rope_parameters`` (transformers 5), or ``rope_theta`` and ``rope_scaling`` (before)."""
        given: dict[str, Any] = dict(fields.get("rope_scaling") or {}) | dict(fields.get("rope_parameters") or {})
        kind = given.get("rope_type", given.get("type", "default"))
        theta: Any = given.get("rope_theta") or fields.get("rope_theta") or 10000.0
        partial = given.get("partial_rotary_factor", fields.get("partial_rotary_factor") or 1.0)
        if partial != 1.0:
            raise ModelError(f"config.json: partial_rotary_factor is {partial}; only 1.0 is supported")
        if kind == "default":
            return cls(theta=float(theta))
        if kind not in ("linear", "llama3"):
            raise ModelError(f"config.json: rope type {kind!r} is not supported; supported: default, linear, llama3")
        try:
            if kind == "linear":
                return cls(theta=float(theta), kind=kind, factor=float(given["factor"]))
            return cls(
                theta=float(theta),
                kind=kind,
                factor=float(given["factor"]),
                low_freq_factor=float(given["low_freq_factor"]),
                high_freq_factor=float(given["high_freq_factor"]),
                original_max_position=int(given["original_max_position_embeddings"]),
            )
        except KeyError as missing:
            raise ModelError(f"config.json: rope type {kind!r} needs {missing}, which is missing") from None

    def inverse_frequencies(self, head_dim: int) -> Tensor:
        """float32 [head_dim / 2], computed in float32 as transformers does, so that angles agree to the last bit."""
        exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
        inverse = 1.0 / (self.theta**exponents)
        if self.kind == "linear":
            return inverse / self.factor
        if self.kind == "llama3":
            return self._llama3(inverse)
        return inverse

    def _llama3(self, inverse: Tensor) -> Tensor:
        """Llama 3.1's scaling: long waves slowed by ``factor``, short ones kept, a linear ramp between."""
        waves_in_context = self.original_max_position * inverse / (2 * math.pi)
        span = self.high_freq_factor - self.low_freq_factor
        keep = ((waves_in_context - self.low_freq_factor) / span).clamp(0, 1)
        return keep * inverse + (1 - keep) * inverse / self.factor


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A decoder of the llama family. ``windows`` has one entry a layer: None, or the width of its sliding window."""

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
    windows: tuple[int | None, ...] = ()
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
        if fields.get("hidden_act", "silu") != "silu":
            raise ModelError(f"config.json: hidden_act is {fields['hidden_act']!r}; only 'silu' is supported")
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
                "rope": RopeConfig.read(fields),
                "windows": (None,) * layers,
                "dtype": _read_dtype(fields),
            }
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


def _read_dtype(fields: Fields) -> torch.dtype | None:
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

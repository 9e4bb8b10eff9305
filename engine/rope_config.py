"""Rotary embeddings as config.json describes them: base, scaling, and how much of a head rotates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from structgen.errors import ModelError

_KINDS = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")
_OLDER_NAMES = {"su": "longrope", "ntk": "dynamic"}


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary embedding (Su et al. 2021, arXiv:2104.09864); the names are config.json's where it has them.

    Attributes:
        theta: base of the wave lengths.
        kind: how they are scaled for longer contexts: "default" (not), "linear" (arXiv:2306.15595), "dynamic" (NTK:
            nothing within ``original_max_position``), "llama3", "yarn" (arXiv:2309.00071), "longrope"
            (arXiv:2402.13753).
        factor: the context has grown by this, for all kinds that have one.
        original_max_position: context before it grew.
        partial: share of each head's dimensions that rotates.
        attention_factor: cosines and sines are multiplied by this.
        short_factors, long_factors: longrope's divisors, for sequences within the original context and beyond it.
    """

    theta: float = 10000.0
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192
    partial: float = 1.0
    attention_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()

    @classmethod
    def read(cls, fields: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> RopeConfig:
        """From ``rope_parameters`` (transformers 5), or ``rope_theta`` and ``rope_scaling`` (before).

        Args:
            fields: of config.json.
            given: the parameters themselves, where they are not under those names.

        Raises:
            ModelError: the kind is not supported or lacks a number.
        """
        if given is None:
            given = dict(fields.get("rope_scaling") or {}) | dict(fields.get("rope_parameters") or {})
        kind = str(given.get("rope_type", given.get("type", "default")))
        kind = _OLDER_NAMES.get(kind, kind)
        if kind not in _KINDS:
            raise ModelError(f"config.json: rope type {kind!r} is not supported; supported: {', '.join(_KINDS)}")
        values: dict[str, Any] = {
            "kind": kind,
            "theta": float(given.get("rope_theta") or fields.get("rope_theta") or 10000.0),
            "partial": float(given.get("partial_rotary_factor", fields.get("partial_rotary_factor")) or 1.0),
        }
        try:
            values |= _scaling(kind, given, fields)
        except KeyError as missing:
            raise ModelError(f"config.json: rope type {kind!r} needs {missing}, which is missing") from None
        return cls(**values)

    def rotated(self, head_dim: int) -> int:
        """How many of a head's dimensions rotate: the first ones, as two halves."""
        return int(head_dim * self.partial)

    def inverse_frequencies(self, head_dim: int, max_positions: int) -> Tensor:
        """float32 [rotated / 2], computed in float32 as transformers does, so that angles agree to the last bit.

        Args:
            head_dim: of the whole head.
            max_positions: longest sequence of this engine. transformers changes longrope's and dynamic's angles when a
                sequence outgrows the original context, and so makes all keys in its cache wrong; here the longest
                sequence decides for all, once.
        """
        dim = self.rotated(head_dim)
        exponents = torch.arange(0, dim, 2, dtype=torch.int64).float() / dim
        theta = self.theta
        if self.kind == "dynamic":
            grown = max(max_positions, self.original_max_position) / self.original_max_position
            theta *= (self.factor * grown - (self.factor - 1)) ** (dim / (dim - 2))
        if self.kind == "longrope":
            factors = self.long_factors if max_positions > self.original_max_position else self.short_factors
            if len(factors) != dim // 2:
                raise ModelError(f"config.json: longrope has {len(factors)} factors; heads of {dim} need {dim // 2}")
            return 1.0 / (torch.tensor(factors, dtype=torch.float32) * theta**exponents)
        inverse = 1.0 / (theta**exponents)
        if self.kind == "linear":
            return inverse / self.factor
        if self.kind == "llama3":
            return self._llama3(inverse)
        return self._yarn(inverse, dim) if self.kind == "yarn" else inverse

    def _llama3(self, inverse: Tensor) -> Tensor:
        """Llama 3.1's scaling: long waves slowed by ``factor``, short ones kept, a linear ramp between."""
        waves_in_context = self.original_max_position * inverse / (2 * math.pi)
        span = self.high_freq_factor - self.low_freq_factor
        keep = ((waves_in_context - self.low_freq_factor) / span).clamp(0, 1)
        return keep * inverse + (1 - keep) * inverse / self.factor

    def _yarn(self, inverse: Tensor, dim: int) -> Tensor:
        """YaRN: as llama3, but the ramp is linear in the number of the dimension (section 3.2 of the paper)."""

        def dimension(turns: float) -> float:
            """The one that turns this often within the original context."""
            waves = self.original_max_position / (turns * 2 * math.pi)
            return dim * math.log(waves) / (2 * math.log(self.theta))

        low, high = dimension(self.beta_fast), dimension(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        slow = ((torch.arange(dim // 2).float() - low) / max(high - low, 1e-3)).clamp(0, 1)
        return inverse / self.factor * slow + inverse * (1 - slow)


def _scaling(kind: str, given: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a kind reads; KeyError for what is missing."""
    if kind == "default":
        return {}
    context = int(fields["max_position_embeddings"])
    original = int(
        fields.get("original_max_position_embeddings") or given.get("original_max_position_embeddings") or context
    )
    if kind == "dynamic":
        return {"factor": float(given["factor"]), "original_max_position": context}
    if kind == "linear":
        return {"factor": float(given["factor"])}
    values: dict[str, Any] = {"original_max_position": original}
    if kind == "llama3":
        names = ("factor", "low_freq_factor", "high_freq_factor")
        return values | {name: float(given[name]) for name in names}
    factor = float(given.get("factor") or context / original)
    values["factor"] = factor
    attention = given.get("attention_factor")
    if kind == "yarn":
        for name in ("beta_fast", "beta_slow"):
            if given.get(name):
                values[name] = float(given[name])
        values["truncate"] = bool(given.get("truncate", True))
        if attention is None:
            attention = _mscale(factor, 1.0)
            if given.get("mscale") and given.get("mscale_all_dim"):
                attention = _mscale(factor, given["mscale"]) / _mscale(factor, given["mscale_all_dim"])
    else:
        values["short_factors"] = tuple(float(x) for x in given["short_factor"])
        values["long_factors"] = tuple(float(x) for x in given["long_factor"])
        if attention is None:
            attention = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return values | {"attention_factor": float(attention)}


def _mscale(factor: float, weight: float) -> float:
    """YaRN's temperature (equation 22 of the paper)."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

"""GGUF files: metadata as config.json fields, tensors under transformers' names.

The ``gguf`` package's reader takes 4 s for a vocabulary of 49k (it makes numpy views of every string), so the header
is read by `structgen.grammars.gguf_metadata` and only the dequantisation is the package's.
"""

from __future__ import annotations

import mmap
import re
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from structgen.errors import ModelError
from structgen.grammars.gguf_metadata import Header

_TOP_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "rope_freqs": "rope_freqs",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_F32, _F16, _BF16, _F64 = 0, 1, 30, 28


@dataclass(frozen=True, slots=True)
class _TensorInfo:
    shape: tuple[int, ...]
    kind: int
    offset: int


class GGUFFile:
    """An open GGUF file.

    Attributes:
        metadata: the header's key-value pairs, without the tokenizer's arrays.

    Raises:
        ModelError: the file is not GGUF, is cut short, or holds an architecture that is not supported.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                raise ModelError(f"{path} is empty, not a GGUF file")
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        skip = frozenset(f"tokenizer.ggml.{name}" for name in ("tokens", "merges", "scores", "token_type"))
        header = Header(self._data, str(path), skip)
        try:
            self.metadata: dict[str, Any] = dict(header.pairs())
            self._read_directory(header._at)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ModelError(f"{path} is cut short: its GGUF header ends too early. Fetch it again.") from error

    def _read_directory(self, at: int) -> None:
        (count,) = struct.unpack_from("<Q", self._data, 8)
        self._tensors: dict[str, _TensorInfo] = {}
        for _ in range(count):
            (size,) = struct.unpack_from("<Q", self._data, at)
            name = self._data[at + 8 : at + 8 + size].decode("utf-8")
            at += 8 + size
            (dims,) = struct.unpack_from("<I", self._data, at)
            shape = struct.unpack_from(f"<{dims}Q", self._data, at + 4)
            kind, offset = struct.unpack_from("<IQ", self._data, at + 4 + 8 * dims)
            at += 16 + 8 * dims
            self._tensors[self._name(name)] = _TensorInfo(shape[::-1], kind, offset)
        alignment = int(self.metadata.get("general.alignment", 32))
        self._start = (at + alignment - 1) // alignment * alignment

    def _name(self, name: str) -> str:
        stem, _, kind = name.rpartition(".")
        if stem in _TOP_NAMES:
            return f"{_TOP_NAMES[stem]}.{kind}"
        match = _LAYER.fullmatch(name)
        if match is None or match[2] not in _LAYER_NAMES:
            raise ModelError(f"{self.path}: tensor {name!r} is of an architecture that is not supported")
        return f"model.layers.{match[1]}.{_LAYER_NAMES[match[2]]}.{match[3]}"

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture"))

    @cached_property
    def config_fields(self) -> dict[str, Any]:
        """The metadata under the names of config.json."""

        def get(name: str, default: Any = None) -> Any:
            return self.metadata.get(f"{self.architecture}.{name}", default)

        if get("expert_count"):
            raise ModelError(f"{self.path}: mixtures of experts are not supported")
        embedding = self._tensors.get("model.embed_tokens.weight")
        needed = (
            "block_count",
            "embedding_length",
            "feed_forward_length",
            "attention.head_count",
            "context_length",
            "attention.layer_norm_rms_epsilon",
        )
        missing = [name for name in needed if get(name) is None]
        if missing or embedding is None:
            lacking = ", ".join(missing) or "token_embd.weight"
            raise ModelError(f"{self.path}: architecture {self.architecture!r} lacks {lacking}")
        heads = int(get("attention.head_count"))
        head_dim = int(get("attention.key_length") or get("embedding_length") // heads)
        if get("rope.dimension_count", head_dim) != head_dim:
            raise ModelError(f"{self.path}: only a part of each head rotates, which is not supported")
        return {
            "model_type": self.architecture,
            "vocab_size": embedding.shape[0],
            "hidden_size": int(get("embedding_length")),
            "intermediate_size": int(get("feed_forward_length")),
            "num_hidden_layers": int(get("block_count")),
            "num_attention_heads": heads,
            "num_key_value_heads": int(get("attention.head_count_kv", heads)),
            "head_dim": head_dim,
            "max_position_embeddings": int(get("context_length")),
            "rms_norm_eps": float(get("attention.layer_norm_rms_epsilon")),
            "rope_parameters": self._rope(get),
            "sliding_window": get("attention.sliding_window"),
            "tie_word_embeddings": "lm_head.weight" not in self._tensors,
            "attention_bias": "model.layers.0.self_attn.q_proj.bias" in self._tensors,
            "mlp_bias": "model.layers.0.mlp.up_proj.bias" in self._tensors,
        }

    def _rope(self, get: Any) -> dict[str, Any]:
        kind = get("rope.scaling.type", "none")
        theta = float(get("rope.freq_base", 10000.0))
        if kind == "none":
            return {"rope_theta": theta}
        factor = get("rope.scaling.factor") or get("rope.scale_linear")
        return {"rope_theta": theta, "rope_type": kind} | ({} if factor is None else {"factor": float(factor)})

    @property
    def names(self) -> set[str]:
        """Transformers' names of all tensors."""
        return set(self._tensors)

    @property
    def is_quantised(self) -> bool:
        return any(info.kind not in (_F32, _F16, _BF16, _F64) for info in self._tensors.values())

    def get(self, name: str) -> Tensor:
        """One tensor as float32 (float16 where stored so), dequantised."""
        info = self._tensors[name]
        count = int(np.prod(info.shape))
        if info.kind in (_F32, _F16):
            dtype = np.float32 if info.kind == _F32 else np.float16
            values = self._slice(info, count * np.dtype(dtype).itemsize).view(dtype).reshape(info.shape).copy()
        else:
            values = self._dequantise(name, info, count)
        tensor = torch.from_numpy(values)
        if self.architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
            return self._halves(tensor, is_key=".k_proj." in name)
        return tensor

    def _slice(self, info: _TensorInfo, size: int) -> Any:
        begin = self._start + info.offset
        if begin + size > len(self._data):
            raise ModelError(f"{self.path} is cut short: a tensor reaches beyond its end. Fetch it again.")
        return np.frombuffer(self._data, np.uint8, size, begin)

    def _dequantise(self, name: str, info: _TensorInfo, count: int) -> Any:
        import gguf

        try:
            kind = gguf.GGMLQuantizationType(info.kind)
            block_values, block_bytes = gguf.GGML_QUANT_SIZES[kind]
            stored = self._slice(info, count // block_values * block_bytes)
            return gguf.dequantize(stored.reshape(*info.shape[:-1], -1), kind).reshape(info.shape)
        except (ValueError, KeyError, NotImplementedError) as error:
            raise ModelError(f"{self.path}: {name} is stored in a way that gguf cannot read: {error}") from error

    def _halves(self, tensor: Tensor, *, is_key: bool) -> Tensor:
        """Undo the converter's reordering of q and k rows.

        For architecture "llama" llama.cpp rotates neighbouring pairs, so its converter interleaves the two halves of
        each head; the layers here rotate halves.
        """
        fields = self.config_fields
        heads = fields["num_key_value_heads"] if is_key else fields["num_attention_heads"]
        return tensor.reshape(heads, fields["head_dim"] // 2, 2, -1).transpose(1, 2).reshape(tensor.shape)

"""A checkpoint as the one-call CPU step reads it: all weights int8 in one arena (kernels/cpu/step)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from structgen.engine.layers.rope import RopeTable, halves_order
from structgen.engine.loader import Checkpoint
from structgen.engine.model_config import ModelConfig
from structgen.engine.models.llama import NORM_NAMES
from structgen.errors import ModelError
from structgen.kernels.cpu import step
from structgen.kernels.cpu.step import COLUMN, Factors, Shape, padded

_ALIGNMENT = 64


def why_not_int8(config: ModelConfig) -> str | None:
    """What the int8 step cannot run of a model, or None."""
    if config.experts is not None:
        return f"mixtures of experts ({config.model_type}) are not built yet"
    return None


@dataclass(frozen=True, slots=True)
class Int8Weights:
    """What the step reads of a model.

    Attributes:
        weights: uint8, all matrices, each packed (`step.pack_rows`).
        params: float32, norms and biases.
        layers: int64 [layers, columns of `step.Layer`].
        embedding: uint16 [vocab, hidden], bfloat16; empty when tied to the head.
        head, norm: offsets.
    """

    shape: Shape
    factors: Factors
    weights: Any
    params: Any
    layers: Any
    embedding: Any
    head: int
    norm: int
    rope: RopeTable


class _Arena:
    """Two flat arrays that are filled from the front; sized beforehand, as a second copy would double the memory."""

    def __init__(self, num_bytes: int, num_floats: int) -> None:
        raw = np.empty(num_bytes + _ALIGNMENT, np.uint8)
        begin = -raw.ctypes.data % _ALIGNMENT
        self.weights = raw[begin : begin + num_bytes]
        self.params = np.empty(num_floats, np.float32)
        self._bytes = self._floats = 0

    def matrix(self, weight: Tensor, order: Any = None) -> int:
        """Pack weight [N, K], its rows in ``order`` (-1: a row of zeros); returns its offset."""
        values = weight.float().contiguous().numpy()
        rows = padded(values.shape[0] if order is None else len(order))
        full = np.full(rows, -1, np.int64)
        given = np.arange(values.shape[0]) if order is None else order
        full[: len(given)] = given
        at = self._bytes
        self._bytes += step.packed_bytes(rows, values.shape[1])
        step.pack_rows(values, full, self.weights[at : self._bytes])
        return at

    def vector(self, values: Tensor, size: int) -> int:
        """Store values with zeros behind them up to ``size``."""
        at = self._floats
        self._floats += size
        self.params[at : at + len(values)] = values.float().numpy()
        self.params[at + len(values) : self._floats] = 0
        return at

    def refuse_rest(self) -> None:
        assert self._bytes == len(self.weights)
        assert self._floats == len(self.params)


class _Loader:
    def __init__(self, config: ModelConfig, source: Checkpoint) -> None:
        self._config = config
        self._source = source
        dim = config.head_dim
        self._dim = padded(dim, 16)
        heads, kv_heads = config.num_heads, config.num_kv_heads
        self.shape = Shape(
            hidden=config.hidden_size,
            width=padded(config.hidden_size),
            inner=padded(config.intermediate_size),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=self._dim,
            real_dim=dim,
            mixed=padded(heads * self._dim),
            vocab=padded(config.vocab_size),
            is_tied=config.tie_word_embeddings,
            is_gelu=config.activation == "gelu",
            has_row_norm=config.qk_row_norm,
            per_block=1,
        )
        self._qkv_rows = (heads + 2 * kv_heads) * self._dim
        self._arena = _Arena(*self._sizes())

    def _sizes(self) -> tuple[int, int]:
        """Bytes of all matrices, floats of everything else."""
        shape, config = self.shape, self._config
        qkv, both = padded(self._qkv_rows), 2 * shape.inner
        matrices = ((qkv, shape.width), (shape.width, shape.mixed), (both, shape.width), (shape.width, shape.inner))
        layer_bytes = sum(step.packed_bytes(*size) for size in matrices)
        floats = config.qkv_bias * qkv + config.output_bias * shape.width
        floats += config.mlp_bias * (both + shape.width)
        floats += sum(name is not None for pair in NORM_NAMES[config.norms] for name in pair) * shape.width
        floats += self._head_norm_size(shape.heads) + self._head_norm_size(shape.kv_heads)
        layers = config.num_layers
        head = step.packed_bytes(shape.vocab, shape.width)
        return layers * layer_bytes + head, layers * floats + shape.width

    def _head_norm_size(self, heads: int) -> int:
        if self._config.qk_row_norm:
            return heads * self._dim
        return self._dim if self._config.qk_norm else 0

    def load(self) -> Int8Weights:
        config, source, shape = self._config, self._source, self.shape
        rope = RopeTable(config, torch.device("cpu"))
        rope.load(source)
        embedding = source.take("model.embed_tokens.weight", (config.vocab_size, config.hidden_size))
        layers = np.array([self._layer(number) for number in range(config.num_layers)], np.int64)
        norm = self._norm("model.norm")
        if config.tie_word_embeddings:
            source.drop("lm_head.weight")
            head = self._arena.matrix(embedding)
        else:
            weight = source.take("lm_head.weight", (config.vocab_size, config.hidden_size))
            head = self._arena.matrix(weight)
        table = embedding[:0] if config.tie_word_embeddings else embedding
        source.refuse_rest()
        self._arena.refuse_rest()
        scale = config.head_dim**-0.5 if config.attention_scale is None else config.attention_scale
        factors = (
            config.rms_norm_eps,
            config.embedding_scale,
            scale,
            config.attention_softcap or 0.0,
            config.residual_scale,
            1.0 / config.logits_divisor,
            config.logits_softcap or 0.0,
        )
        return Int8Weights(
            shape=shape,
            factors=Factors(*map(np.float32, factors)),
            weights=self._arena.weights,
            params=self._arena.params,
            layers=layers,
            embedding=table.to(torch.bfloat16).contiguous().view(torch.uint16).numpy(),
            head=head,
            norm=norm,
            rope=rope,
        )

    def _layer(self, number: int) -> list[int]:
        """A row of the table of layers."""
        config, name = self._config, f"model.layers.{number}"
        row = [-1] * len(COLUMN)
        (before_attention, after_attention), (before_mlp, after_mlp) = NORM_NAMES[config.norms]
        for column, part in (
            (COLUMN.before_attention, before_attention),
            (COLUMN.after_attention, after_attention),
            (COLUMN.before_mlp, before_mlp),
            (COLUMN.after_mlp, after_mlp),
        ):
            if part is not None:
                row[column] = self._norm(f"{name}.{part}")
        self._attention(f"{name}.self_attn", row)
        self._mlp(f"{name}.mlp", row)
        window = config.windows[number]
        row[COLUMN.window] = window or 0
        row[COLUMN.angles] = 1 if window and config.local_rope is not None else 0  # of the table, as long as it will be
        return row

    def _norm(self, name: str) -> int:
        stored = self._source.take(f"{name}.weight", (self._config.hidden_size,)).float()
        return self._arena.vector(stored + self._config.norm_offset, self.shape.width)

    def _attention(self, name: str, row: list[int]) -> None:
        config, arena, shape, dim = self._config, self._arena, self.shape, self._dim
        heads, kv_heads, real = shape.heads, shape.kv_heads, config.head_dim
        sizes = (heads * real, kv_heads * real, kv_heads * real)
        weight, bias = self._stacked(
            name, ("q_proj", "k_proj", "v_proj"), "qkv_proj", sizes, config.hidden_size, config.qkv_bias
        )
        order = self._head_order(heads + 2 * kv_heads)
        row[COLUMN.qkv] = arena.matrix(weight, order)
        if bias is not None:
            row[COLUMN.qkv_bias] = arena.vector(_picked(bias, order), padded(self._qkv_rows))
        out = self._source.take(f"{name}.o_proj.weight", (config.hidden_size, heads * real))
        if dim != real:  # columns of zeros where heads are padded
            out = torch.nn.functional.pad(out.view(-1, heads, real), (0, dim - real)).reshape(config.hidden_size, -1)
        row[COLUMN.out] = arena.matrix(out)
        if config.output_bias:
            row[COLUMN.out_bias] = self._bias(f"{name}.o_proj")
        if config.qk_norm or config.qk_row_norm:
            row[COLUMN.q_norm] = self._head_norm(f"{name}.q_norm", heads)
            row[COLUMN.k_norm] = self._head_norm(f"{name}.k_norm", kv_heads)

    def _head_order(self, heads: int) -> Any:
        """Rows of the stacked projection in the step's order: each head padded, the halves that rotate first."""
        real, dim, config = self._config.head_dim, self._dim, self._config
        rotated = config.rope.rotated(real)
        order = np.full((heads, dim), -1, np.int64)
        order[:, :real] = np.arange(heads * real).reshape(heads, real)
        if rotated < real:
            turning = heads - config.num_kv_heads
            order[:turning, :real] = order[:turning, halves_order(rotated, real).numpy()]
        return order.reshape(-1)

    def _head_norm(self, name: str, heads: int) -> int:
        config, dim, real = self._config, self._dim, self._config.head_dim
        count = heads if config.qk_row_norm else 1
        stored = self._source.take(f"{name}.weight", (count * real,)).float() + config.norm_offset
        return self._arena.vector(
            torch.nn.functional.pad(stored.view(count, real), (0, dim - real)).flatten(), count * dim
        )

    def _mlp(self, name: str, row: list[int]) -> None:
        config, arena, shape = self._config, self._arena, self.shape
        inner = config.intermediate_size
        weight, bias = self._stacked(
            name, ("gate_proj", "up_proj"), "gate_up_proj", (inner, inner), config.hidden_size, config.mlp_bias
        )
        units = np.arange(shape.inner).reshape(-1, 1, 16)
        order = np.concatenate((units, units + inner), axis=1)  # 16 rows of the gate, 16 of up
        order[np.broadcast_to(units >= inner, order.shape)] = -1
        order = order.reshape(-1)
        row[COLUMN.gate_up] = arena.matrix(weight, order)
        if bias is not None:
            row[COLUMN.gate_up_bias] = arena.vector(_picked(bias, order), len(order))
        down = self._source.take(f"{name}.down_proj.weight", (config.hidden_size, inner))
        row[COLUMN.down] = arena.matrix(down)
        if config.mlp_bias:
            row[COLUMN.down_bias] = self._bias(f"{name}.down_proj")

    def _bias(self, name: str) -> int:
        return self._arena.vector(self._source.take(f"{name}.bias", (self._config.hidden_size,)), self.shape.width)

    def _stacked(
        self, name: str, parts: Sequence[str], fused: str, sizes: Sequence[int], size: int, has_bias: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Weight [sum of sizes, size] and bias of projections that are one product here (and in some checkpoints)."""
        source = self._source
        names, counts = [f"{name}.{part}" for part in parts], list(sizes)
        if source.has(f"{name}.{fused}.weight"):
            names, counts = [f"{name}.{fused}"], [sum(sizes)]
        pairs = list(zip(names, counts, strict=True))
        weight = torch.cat([source.take(f"{each}.weight", (n, size)).float() for each, n in pairs])
        if not has_bias:
            return weight, None
        return weight, torch.cat([source.take(f"{each}.bias", (n,)).float() for each, n in pairs])


def _picked(bias: Tensor, order: Any) -> Tensor:
    """Bias in the order of the packed rows, 0 for rows of zeros."""
    index = torch.from_numpy(order)
    return torch.where(index >= 0, bias[index.clamp(min=0)], torch.zeros(()))


def load_int8(config: ModelConfig, source: Checkpoint) -> Int8Weights:
    """Take every weight of a checkpoint, quantised.

    Raises:
        ModelError: the checkpoint lacks a tensor, has one too many, or is of a kind that the step cannot run.
    """
    if (problem := why_not_int8(config)) is not None:
        raise ModelError(f"int8: {problem}")
    with torch.inference_mode():
        return _Loader(config, source).load()

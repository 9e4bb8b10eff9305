"""Llama: the decoder that the other files vary (Touvron et al. 2023, arXiv:2302.13971)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from structgen.engine.layers.attention import Attention, LayerCache, Step
from structgen.engine.layers.embedding import Embedding, Head
from structgen.engine.layers.mlp import GatedMLP
from structgen.engine.layers.moe import SparseMLP
from structgen.engine.layers.norm import RMSNorm
from structgen.engine.layers.rope import RopeTable
from structgen.engine.loader import Checkpoint
from structgen.engine.model_config import Fields, ModelConfig
from structgen.engine.models.registry import register


class Sublayer:
    """Where the norms and the scale of an attention or feed-forward layer are.

    ``before`` and ``after`` are the checkpoint's names of its norms; None: it has none there.
    """

    def __init__(self, config: ModelConfig, before: str | None, after: str | None, device: torch.device) -> None:
        def norm(name: str | None) -> RMSNorm | None:
            if name is None:
                return None
            return RMSNorm(config.hidden_size, config.rms_norm_eps, device, config.norm_offset)

        self._names = (before, after)
        self._before, self._after = norm(before), norm(after)
        self._scale = config.residual_scale

    def load(self, weights: Checkpoint, name: str) -> None:
        for norm, part in zip((self._before, self._after), self._names, strict=True):
            if norm is not None:
                norm.load(weights, f"{name}.{part}")

    def enter(self, x: Tensor, residual: Tensor) -> Tensor:
        """Add x [T, H] to residual f32 [T, H]; what the layer sees of it."""
        if self._before is not None:
            return self._before(x, residual)
        return residual.add_(x).to(x.dtype)

    def leave(self, x: Tensor) -> Tensor:
        """What is to be added of the layer's output."""
        if self._after is not None:
            x = self._after.alone(x)
        return x if self._scale == 1.0 else x * self._scale


NORM_NAMES: dict[str, tuple[tuple[str | None, str | None], tuple[str | None, str | None]]] = {
    "before": (("input_layernorm", None), ("post_attention_layernorm", None)),
    "after": ((None, "post_attention_layernorm"), (None, "post_feedforward_layernorm")),
    "around": (
        ("input_layernorm", "post_attention_layernorm"),
        ("pre_feedforward_layernorm", "post_feedforward_layernorm"),
    ),
}


class DecoderLayer:
    """Attention, then the feed-forward layer, each of the residual stream and added to it."""

    def __init__(self, config: ModelConfig, number: int, *, dtype: torch.dtype, device: torch.device) -> None:
        self._attention = Attention(config, window=config.windows[number], dtype=dtype, device=device)
        self._mlp: GatedMLP | SparseMLP
        self._mlp_name = "mlp"
        if config.experts is not None and number in config.experts.layers:
            self._mlp = SparseMLP(config, config.experts, dtype=dtype, device=device)
            self._mlp_name = config.experts.module
        else:
            self._mlp = GatedMLP(config, dtype=dtype, device=device)
        around_attention, around_mlp = NORM_NAMES[config.norms]
        self._around_attention = Sublayer(config, *around_attention, device)
        self._around_mlp = Sublayer(config, *around_mlp, device)

    def load(self, weights: Checkpoint, name: str) -> None:
        self._around_attention.load(weights, name)
        self._attention.load(weights, f"{name}.self_attn")
        self._around_mlp.load(weights, name)
        self._mlp.load(weights, f"{name}.{self._mlp_name}")

    def __call__(self, x: Tensor, residual: Tensor, step: Step, cache: LayerCache) -> Tensor:
        """x [T, H] is added to residual f32 [T, H]; returns what is to be added next."""
        hidden = self._around_attention.enter(x, residual)
        x = self._around_attention.leave(self._attention(hidden, step, cache))
        hidden = self._around_mlp.enter(x, residual)
        return self._around_mlp.leave(self._mlp(hidden))


@register("llama")
class Llama:
    """token ids -> hidden states -> logits."""

    def __init__(self, config: ModelConfig, *, dtype: torch.dtype, device: torch.device) -> None:
        self.config = config
        self.dtype = dtype
        self.device = device
        self.rope = RopeTable(config, device)
        self._embedding = Embedding(
            config.vocab_size, config.hidden_size, dtype=dtype, device=device, scale=config.embedding_scale
        )
        self._layers = [DecoderLayer(config, i, dtype=dtype, device=device) for i in range(config.num_layers)]
        self._norm = RMSNorm(config.hidden_size, config.rms_norm_eps, device, config.norm_offset)
        self._head = Head(config.hidden_size, (config.vocab_size,), bias=False, dtype=dtype, device=device)

    @classmethod
    def read_config(cls, fields: Fields) -> ModelConfig:
        """From the fields of config.json."""
        bias = bool(fields.get("attention_bias", False))
        return ModelConfig.read(fields, qkv_bias=bias, output_bias=bias, mlp_bias=bool(fields.get("mlp_bias", False)))

    def load(self, weights: Checkpoint) -> None:
        """Take every weight from the checkpoint."""
        self.rope.load(weights)
        self._embedding.load(weights, "model.embed_tokens")
        for i, layer in enumerate(self._layers):
            layer.load(weights, f"model.layers.{i}")
        self._norm.load(weights, "model.norm")
        if self.config.tie_word_embeddings:
            weights.drop("lm_head.weight")
            self._head.tie(self._embedding)
        else:
            self._head.load(weights, "lm_head")

    def forward(self, token_ids: Tensor, step: Step, caches: Sequence[LayerCache]) -> tuple[Tensor, Tensor]:
        """token ids int64 [T] -> (x [T, H], residual f32 [T, H]), which `logits` adds and norms."""
        x = self._embedding(token_ids)
        residual = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
        for layer, cache in zip(self._layers, caches, strict=True):
            x = layer(x, residual, step, cache)
        return x, residual

    def logits(self, x: Tensor, residual: Tensor) -> Tensor:
        """Rows of what `forward` returned, [R, H] each -> float32 [R, vocab_size]; changes ``residual``."""
        logits = self._head(self._norm(x, residual))
        if self.config.logits_divisor != 1.0:
            logits /= self.config.logits_divisor
        cap = self.config.logits_softcap
        return logits if cap is None else torch.tanh(logits / cap) * cap

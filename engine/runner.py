"""The model's side of a step: weights, KV cache, forward pass."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from numba.core import event
from torch import Tensor

from structgen import kernels
from structgen.engine.batch import Batch
from structgen.engine.layers.attention import LayerCache, Step
from structgen.engine.loader import open_source
from structgen.engine.memory import CacheSize
from structgen.engine.models import build_model
from structgen.engine.models.registry import Model, ModelImpl, picks_native, stored_dtype
from structgen.errors import ModelError
from structgen.kernels import cpu

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Runner:
    """A loaded model and its paged KV cache.

    Args:
        model_path: a folder with a transformers checkpoint, or a GGUF file.
        dtype: of weights, activations and KV cache. "auto": float32 for a float32 checkpoint, else bfloat16. A step
            of one token reads half the bytes then: 24 ms against 42 [measured: SmolLM2-135M, 2 AVX2 cores, which have
            no bfloat16 instructions]; at 16 tokens and in prefill the two are level.
        device: "cpu", "cuda", or "auto" (a GPU when there is one).
        block_size: tokens a KV block holds.
        kv_cache_tokens: tokens the cache holds, all sequences together. Default: ``max_num_seqs`` full contexts, but
            no more than the larger of one context and 32,768 tokens, and than half of the free memory. Memory is
            reserved, and taken as it is written.
        max_model_len: longest sequence, prompt and output. Default: the model's context, cut to the cache's size.
        max_num_batched_tokens: most tokens of one step.
        max_num_seqs: most sequences of one step; only sizes the cache.
        model_impl: "native": the models of this package; "transformers": transformers' own code over our cache;
            "auto": native where there is one.

    Attributes:
        vocab_size: width of the logits.
        max_model_len, num_blocks, block_size, dtype, device: as decided.

    Raises:
        ModelError: the model cannot be loaded, or a setting does not fit it; the message says what would.
    """

    def __init__(
        self,
        model_path: str | Path,
        *,
        dtype: Literal["auto", "float32", "bfloat16"] = "auto",
        device: Literal["auto", "cpu", "cuda"] = "auto",
        block_size: int = 16,
        kv_cache_tokens: int | None = None,
        max_model_len: int | None = None,
        max_num_batched_tokens: int = 2048,
        max_num_seqs: int = 16,
        model_impl: ModelImpl = "auto",
    ) -> None:
        source = open_source(Path(model_path))
        on = _pick_device(device)
        stored = stored_dtype(source, native=picks_native(source, model_impl), device=on)
        model = build_model(source, dtype=_pick_dtype(dtype, stored), device=on, model_impl=model_impl)
        self._set_up(model, block_size, kv_cache_tokens, max_model_len, max_num_batched_tokens, max_num_seqs)

    @classmethod
    def from_model(
        cls,
        model: Model,
        *,
        block_size: int = 16,
        kv_cache_tokens: int | None = None,
        max_model_len: int | None = None,
        max_num_batched_tokens: int = 2048,
        max_num_seqs: int = 16,
    ) -> Runner:
        """A runner for a model that is loaded already."""
        runner = cls.__new__(cls)
        runner._set_up(model, block_size, kv_cache_tokens, max_model_len, max_num_batched_tokens, max_num_seqs)
        return runner

    def _set_up(
        self,
        model: Model,
        block_size: int,
        kv_cache_tokens: int | None,
        max_model_len: int | None,
        max_num_batched_tokens: int,
        max_num_seqs: int,
    ) -> None:
        for name, value in (
            ("block_size", block_size),
            ("max_num_batched_tokens", max_num_batched_tokens),
            ("max_num_seqs", max_num_seqs),
        ):
            if value < 1:
                raise ModelError(f"{name} is {value}; it must be at least 1")
        self.model = model
        self.dtype = model.dtype
        self.device = model.device
        self.vocab_size = model.config.vocab_size
        self.block_size = block_size
        self.max_num_batched_tokens = max_num_batched_tokens
        _warm_up(self.dtype, self.device)
        self._size_cache(kv_cache_tokens, max_model_len, max_num_seqs)
        self._cos_sin = model.rope.build(self.max_model_len)

    def _size_cache(self, tokens: int | None, max_model_len: int | None, max_num_seqs: int) -> None:
        """Decide ``num_blocks`` and ``max_model_len``, and reserve the cache."""
        config = self.model.config
        size = CacheSize.decide(
            config.max_position,
            2 * config.num_layers * config.num_kv_heads * config.head_dim * self.dtype.itemsize,
            block_size=self.block_size,
            device=self.device,
            kv_cache_tokens=tokens,
            max_model_len=max_model_len,
            max_num_seqs=max_num_seqs,
        )
        self.num_blocks, self.max_model_len = size.num_blocks, size.max_model_len
        shape = (self.num_blocks, config.num_kv_heads, self.block_size, config.head_dim)
        self._caches = [
            LayerCache(*(torch.empty(shape, dtype=self.dtype, device=self.device) for _ in range(2)))
            for _ in range(config.num_layers)
        ]

    @torch.inference_mode()
    def forward(self, batch: Batch) -> Tensor:
        """Write the step's keys and values to their slots; return float32 logits [R, vocab_size] at ``logits_rows``.

        Raises:
            ValueError: more tokens than ``max_num_batched_tokens``.
        """
        tokens = batch.token_ids.shape[0]
        if tokens > self.max_num_batched_tokens:
            raise ValueError(f"a step of {tokens} tokens; max_num_batched_tokens is {self.max_num_batched_tokens}")
        if self.device.type == "cpu":
            cpu.match_torch_threads()
        x, residual = self.model.forward(self._move(batch.token_ids), self._step(batch), self._caches)
        rows = self._move(batch.logits_rows)
        if rows.shape[0] == 0:
            return torch.empty((0, self.vocab_size), device=self.device)
        return self.model.logits(x[rows], residual[rows])

    def copy_blocks(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy KV blocks, (from, to), one pair after the other."""
        for cache in self._caches:
            for blocks in (cache.keys, cache.values):
                for source, target in pairs:
                    blocks[target] = blocks[source]

    def _step(self, batch: Batch) -> Step:
        sequences = torch.arange(batch.context_lens.shape[0], dtype=torch.int32)
        owners = sequences.repeat_interleave(batch.query_starts.diff())
        return Step(
            positions=self._move(batch.positions),
            slots=self._move(batch.slots),
            query_starts=self._move(batch.query_starts),
            context_lens=self._move(batch.context_lens),
            block_tables=self._move(batch.block_tables),
            owners=self._move(owners),
            cos_sin=self._cos_sin,
        )

    def _move(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device, non_blocking=True).contiguous()


def _pick_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ModelError(f"device is {name!r}; allowed: 'auto', 'cpu', 'cuda'")
    if name == "cuda" and not torch.cuda.is_available():
        raise ModelError("device is 'cuda', but this torch sees no GPU; use device='cpu' or install torch for CUDA")
    return torch.device(name)


def _pick_dtype(name: str, stored: torch.dtype | None) -> torch.dtype:
    if name != "auto":
        if name not in _DTYPES:
            raise ModelError(f"dtype is {name!r}; allowed: 'auto', {', '.join(map(repr, _DTYPES))}")
        return _DTYPES[name]
    return torch.float32 if stored == torch.float32 else torch.bfloat16


def _warm_up(dtype: torch.dtype, device: torch.device) -> None:
    """Compile the kernels, with a word on standard error if any is not in the cache on disk."""
    with event.install_listener("numba:compile", _Notice()):
        kernels.warmup(dtype, device)


class _Notice(event.Listener):
    """Says once that kernels are being compiled."""

    given = False

    def on_start(self, event: Any) -> None:
        if not self.given:
            self.given = True
            print("structgen: compiling the model kernels, once for this installation ...", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass

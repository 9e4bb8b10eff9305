"""The model's side of a step on the CPU, with int8 weights: one numba call for the layers, one for the logits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from structgen.engine.batch import Batch
from structgen.engine.int8_model import Int8Weights, load_int8
from structgen.engine.loader import Checkpoint, open_source
from structgen.engine.memory import CacheSize
from structgen.engine.models.registry import read_config
from structgen.errors import ModelError
from structgen.kernels import cpu
from structgen.kernels.cpu import step


class Int8Runner:
    """A model quantised to int8 and its paged KV cache (bfloat16), on the CPU.

    Args:
        model_path: a folder with a transformers checkpoint, or a GGUF file.
        block_size: tokens a KV block holds; a multiple of 16.
        kv_cache_tokens, max_model_len, max_num_batched_tokens, max_num_seqs: as for `Runner`.
        isa: how bytes are multiplied; None: the fastest way of this processor.

    Raises:
        ModelError: the model cannot be loaded, or a setting does not fit it; the message says what would.
    """

    device = torch.device("cpu")
    dtype = torch.bfloat16

    def __init__(
        self,
        model_path: str | Path,
        *,
        block_size: int = 16,
        kv_cache_tokens: int | None = None,
        max_model_len: int | None = None,
        max_num_batched_tokens: int = 2048,
        max_num_seqs: int = 16,
        isa: step.Isa | None = None,
    ) -> None:
        if block_size % step.BLOCK:
            raise ModelError(
                f"block_size is {block_size}; with int8 weights it must be a multiple of {step.BLOCK} (or set "
                "quantization=None)"
            )
        source = open_source(Path(model_path))
        self.config = config = read_config(source.config_fields)
        self._isa = step.find_isa() if isa is None else isa
        self._model = load_int8(config, Checkpoint(source))
        self.vocab_size = config.vocab_size
        self.block_size = block_size
        self.max_num_batched_tokens = max_num_batched_tokens
        shape = self._model.shape
        token_bytes = 2 * config.num_layers * shape.kv_heads * shape.head_dim * 2
        size = CacheSize.decide(
            config.max_position,
            token_bytes,
            block_size=block_size,
            device=self.device,
            kv_cache_tokens=kv_cache_tokens,
            max_model_len=max_model_len,
            max_num_seqs=max_num_seqs,
        )
        self.num_blocks, self.max_model_len = size.num_blocks, size.max_model_len
        self._per_block = block_size // step.BLOCK
        self._shape = shape._replace(per_block=self._per_block)
        self._layer_size = self.num_blocks * self._per_block * shape.kv_heads * shape.head_dim * step.BLOCK
        # Zeros, not what the memory held: rows of a block that are not written yet are multiplied by 0, and NaN stays.
        self._keys, self._values = (np.zeros(config.num_layers * self._layer_size, np.uint16) for _ in range(2))
        self._cos_sin = self._model.rope.build(self.max_model_len).numpy()
        self._layers = self._model.layers.copy()
        self._layers[:, step.COLUMN.angles] *= self.max_model_len
        self._buffers = _Buffers(self._shape, max_num_batched_tokens)
        self._warm_up()

    def forward(self, batch: Batch) -> Tensor:
        """As `Runner.forward`. The logits are valid until the next call.

        Raises:
            ValueError: more tokens than ``max_num_batched_tokens``.
        """
        tokens = batch.token_ids.shape[0]
        if tokens > self.max_num_batched_tokens:
            raise ValueError(f"a step of {tokens} tokens; max_num_batched_tokens is {self.max_num_batched_tokens}")
        cpu.match_torch_threads()
        self._run_layers(batch)
        rows = batch.logits_rows.numpy()
        if len(rows) == 0:
            return torch.empty((0, self.vocab_size))
        some = [row for row, few in enumerate(batch.legal) if few is not None]
        if not some:
            return torch.from_numpy(self._run_head(rows, ()))
        order = [row for row in range(len(rows)) if batch.legal[row] is None] + some
        logits = self._run_head(rows[order], [batch.legal[row] for row in some])
        return torch.from_numpy(logits if order == sorted(order) else logits[np.argsort(order)])

    def copy_blocks(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy KV blocks, (from, to), one pair after the other."""
        for cache in (self._keys, self._values):
            blocks = cache.reshape(self.config.num_layers, self.num_blocks, -1)
            for source, target in pairs:
                blocks[:, target] = blocks[:, source]

    def _run_layers(self, batch: Batch) -> None:
        model, shape, to = self._model, self._shape, self._buffers
        step.embed(
            shape,
            model.factors,
            model.weights,
            model.head,
            model.embedding,
            batch.token_ids.numpy(),
            to.residual,
        )
        step.run_layers(
            self._isa,
            shape,
            model.factors,
            self._layers,
            model.weights,
            model.params,
            self._cos_sin,
            self._keys,
            self._values,
            self._layer_size,
            batch.positions.numpy(),
            batch.slots.numpy(),
            batch.query_starts.numpy(),
            batch.context_lens.numpy(),
            batch.block_tables.numpy(),
            to.residual,
            to.x,
            to.spare,
            to.wide,
            to.mixed,
            to.inner,
            to.inputs,
            to.items,
            to.scratch(numba.get_num_threads()),
        )

    def _run_head(self, rows: Any, few: Sequence[Any]) -> Any:
        """Logits of the tokens ``rows``; of the last ones only those in their ``few`` groups of 32."""
        model, to = self._model, self._buffers
        logits = to.logits(len(rows))
        starts = np.zeros(len(few) + 1, np.int64)
        np.cumsum([len(groups) for groups in few], out=starts[1:])
        step.run_head(
            self._isa,
            self._shape,
            model.factors,
            model.weights,
            model.params,
            model.head,
            model.norm,
            int(self._layers[-1, step.COLUMN.after_mlp]),
            rows,
            len(rows) - len(few),
            starts,
            np.concatenate(few) if few else np.empty(0, np.int64),
            to.residual,
            to.x,
            to.chosen_residual,
            to.chosen_x,
            to.spare,
            to.inputs,
            logits,
        )
        return logits[:, : self.vocab_size]

    def _warm_up(self) -> None:
        """Run steps of one token and of several, which write no slot: every kernel is compiled or loaded."""
        for count in (1, min(step.TOKENS + 2, self.max_num_batched_tokens)):
            positions = torch.arange(count)
            self.forward(
                Batch(
                    token_ids=torch.zeros(count, dtype=torch.int64),
                    positions=positions,
                    slots=torch.full((count,), -1),
                    query_starts=torch.tensor([0, count], dtype=torch.int32),
                    context_lens=torch.tensor([count], dtype=torch.int32),
                    block_tables=torch.zeros((1, 1), dtype=torch.int32),
                    logits_rows=torch.tensor([count - 1]),
                    legal=(None if count == 1 else np.zeros(1, np.int64),),
                )
            )


class _Buffers:
    """What a step writes, reused from step to step; memory is taken as it is touched."""

    def __init__(self, shape: step.Shape, tokens: int) -> None:
        qkv = padded_qkv(shape)
        widest = max(2 * shape.width, shape.mixed, shape.inner)  # two rows a token where they are fine
        self.residual = np.zeros((tokens, shape.width), np.float32)
        self.x = np.zeros((tokens, shape.width), np.float32)
        self.spare = np.zeros((tokens, shape.width), np.float32)
        self.chosen_residual = np.zeros((tokens, shape.width), np.float32)
        self.chosen_x = np.zeros((tokens, shape.width), np.float32)
        self.wide = np.zeros((tokens, max(qkv, 2 * shape.inner)), np.float32)
        self.mixed = np.zeros((tokens, shape.mixed), np.float32)
        self.inner = np.zeros((tokens, shape.inner), np.float32)
        self.inputs = step.Inputs(
            values=np.zeros(tokens * widest, np.int8),
            scales=np.zeros(tokens * widest // 32, np.float32),
            sums=np.zeros(tokens * widest // 32, np.int32),
        )
        self.items = np.zeros((tokens, 4), np.int32)
        self._scratch_size = step.scratch_size(shape.heads // shape.kv_heads, shape.head_dim)
        self._scratch = np.zeros((0, self._scratch_size), np.float32)
        self._vocab = shape.vocab
        self._logits = np.zeros((0, shape.vocab), np.float32)

    def scratch(self, threads: int) -> Any:
        if len(self._scratch) != threads:
            self._scratch = np.zeros((threads, self._scratch_size), np.float32)
        return self._scratch

    def logits(self, rows: int) -> Any:
        if len(self._logits) < rows:
            self._logits = np.zeros((rows, self._vocab), np.float32)
        return self._logits[:rows]


def padded_qkv(shape: step.Shape) -> int:
    """Rows of the projection to queries, keys and values."""
    return step.padded((shape.heads + 2 * shape.kv_heads) * shape.head_dim)


__all__ = ["Int8Runner", "Int8Weights"]

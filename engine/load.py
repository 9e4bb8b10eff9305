"""Which runner a checkpoint gets: int8 weights in one call on the CPU, or torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from structgen.engine.config import EngineConfig
from structgen.engine.core import Runner
from structgen.engine.int8_model import why_not_int8
from structgen.engine.int8_runner import Int8Runner
from structgen.engine.loader import Source, open_source
from structgen.engine.models.registry import picks_native, read_config
from structgen.engine.runner import Runner as TorchRunner
from structgen.errors import ModelError
from structgen.kernels.cpu.step import BLOCK, PORTABLE, find_isa


def load_runner(path: Path, config: EngineConfig) -> Runner:
    """The model at ``path`` with its KV cache, as the options ask.

    Raises:
        ModelError: it cannot be loaded, or an option does not fit it.
    """
    options: dict[str, Any] = {
        "block_size": config.block_size,
        "kv_cache_tokens": config.kv_cache_tokens,
        "max_model_len": config.max_model_len,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "max_num_seqs": config.max_num_seqs,
    }
    if _takes_int8(path, config):
        return Int8Runner(path, **options)
    options |= {"dtype": config.dtype, "device": config.device, "model_impl": config.model_impl}
    return TorchRunner(path, **options)


def _takes_int8(path: Path, config: EngineConfig) -> bool:
    """"auto" takes int8 for what is quantised already, where nothing speaks against it."""
    if config.quantization is None:
        return False
    source = open_source(path)
    problem = _problem(source, config)
    if config.quantization == "int8":
        if problem is not None:
            raise ModelError(f"quantization='int8': {problem}; use quantization=None")
        return True
    is_fast = find_isa() is not PORTABLE  # elsewhere torch's products win from 4 tokens on
    return problem is None and source.is_quantised and config.dtype == "auto" and is_fast


def _problem(source: Source, config: EngineConfig) -> str | None:
    """Why int8 cannot be, or None."""
    if config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available()):
        return "it runs on the CPU only"
    if not picks_native(source, config.model_impl):  # type: ignore[arg-type]
        return "it runs native models only"
    if config.block_size % BLOCK:
        return f"block_size is {config.block_size}; it must be a multiple of {BLOCK}"
    return why_not_int8(read_config(source.config_fields))

"""How large the KV cache is: what was asked for, the model's context, and the memory there is."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from structgen.errors import ModelError

_DEFAULT_TOKENS = 32768


@dataclass(frozen=True, slots=True)
class CacheSize:
    """Blocks of the cache, and tokens of the longest sequence."""

    num_blocks: int
    max_model_len: int

    @classmethod
    def decide(
        cls,
        max_position: int,
        token_bytes: int,
        *,
        block_size: int,
        device: torch.device,
        kv_cache_tokens: int | None,
        max_model_len: int | None,
        max_num_seqs: int,
    ) -> CacheSize:
        """By default ``max_num_seqs`` full contexts, but no more than the larger of one context and 32,768 tokens, and
        than half of the free memory.

        Raises:
            ModelError: what was asked for does not fit the model or the memory.
        """
        context = max_position if max_model_len is None else max_model_len
        if not 1 <= context <= max_position:
            raise ModelError(f"max_model_len is {context}; this model's context is 1 to {max_position} tokens")
        free = free_bytes(device)
        tokens = kv_cache_tokens
        if tokens is None:
            wanted = min(max_num_seqs * context, max(context, _DEFAULT_TOKENS))
            tokens = wanted if free is None else min(wanted, free // 2 // token_bytes)
        elif free is not None and tokens * token_bytes > free:
            raise ModelError(
                f"kv_cache_tokens is {tokens}, which takes {tokens * token_bytes / 2**30:.1f} GiB "
                f"({token_bytes} bytes a token); free are {free / 2**30:.1f} GiB, enough for {free // token_bytes}"
            )
        num_blocks = tokens // block_size
        if num_blocks < 1:
            raise ModelError(f"the KV cache has room for {tokens} tokens; it must hold a block of {block_size}")
        room = num_blocks * block_size
        if max_model_len is not None and max_model_len > room:
            raise ModelError(
                f"max_model_len is {max_model_len}, but the KV cache holds {room} tokens: raise kv_cache_tokens or "
                "lower max_model_len"
            )
        return cls(num_blocks, min(context, room))


def free_bytes(device: torch.device) -> int | None:
    """Memory that the KV cache may take; None when the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE")) // 2
    except (AttributeError, OSError, ValueError):
        return None

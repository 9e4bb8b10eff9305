"""Operations of the engine: one function each, with a reference beside it."""

from structgen.kernels.api import gelu_mul, paged_attention, rms_norm, rope_write_kv, silu_mul, warmup

__all__ = ["gelu_mul", "paged_attention", "rms_norm", "rope_write_kv", "silu_mul", "warmup"]

"""The GPU path: Triton kernels, called with arguments that `structgen.kernels.api` has checked.

Importing this package imports triton. Kernels widen what they load to float32 and narrow what they store.
"""

from structgen.kernels.triton.activation import gelu_mul, silu_mul
from structgen.kernels.triton.attention import paged_attention
from structgen.kernels.triton.norm import rms_norm
from structgen.kernels.triton.rope import rope_write_kv

__all__ = ["gelu_mul", "paged_attention", "rms_norm", "rope_write_kv", "silu_mul"]

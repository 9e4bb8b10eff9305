"""What the kernels share."""

from __future__ import annotations

import os

import torch
import triton
import triton.language as tl

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether kernels run in triton's interpreter, on the CPU; triton decided it the same way when it was imported."""

_NARROW = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}


def dot_type(dtype: torch.dtype) -> tl.dtype:
    """What matrix products of elements multiply: the elements themselves, summed in float32.

    The interpreter holds bfloat16 as bit patterns and multiplies those, so there everything is widened first.
    (float16 and bfloat16 fit float32 exactly.)
    """
    return tl.float32 if INTERPRETED else _NARROW.get(dtype, tl.float32)


def power_of_two(size: int, lowest: int = 1) -> int:
    """The smallest power of two that holds ``size``: triton's blocks have such sides."""
    return max(lowest, int(triton.next_power_of_2(size)))


def warps(block: int) -> int:
    """Warps for a program whose widest vector has ``block`` values: at least eight values a thread."""
    return min(max(block // 256, 1), 16)


@triton.jit
def tanh(x: tl.tensor) -> tl.tensor:
    """From exp, which the language has; within 3e-7. exp never overflows: its argument is not positive."""
    fall = tl.exp(-2.0 * tl.abs(x))
    size = (1.0 - fall) / (1.0 + fall)
    return tl.where(x < 0, -size, size)

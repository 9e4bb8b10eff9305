"""Linear layer over bfloat16 weights for processors without bfloat16 instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from structgen.kernels.cpu.bits import widen
from structgen.kernels.cpu.launch import kernel


@kernel
def linear_bf16(x: Any, weight: Any, out: Any) -> None:
    """out f32 [T, N] = x f32 [T, K] @ weight bf16 [N, K]^T; four tokens share each read of a weight row."""
    tokens, dim = x.shape
    for n in prange(weight.shape[0]):
        t = 0
        while t + 4 <= tokens:
            dot0 = dot1 = dot2 = dot3 = np.float32(0)
            for d in range(dim):
                w = widen(weight[n, d])
                dot0 += x[t, d] * w
                dot1 += x[t + 1, d] * w
                dot2 += x[t + 2, d] * w
                dot3 += x[t + 3, d] * w
            out[t, n] = dot0
            out[t + 1, n] = dot1
            out[t + 2, n] = dot2
            out[t + 3, n] = dot3
            t += 4
        while t < tokens:
            dot = np.float32(0)
            for d in range(dim):
                dot += x[t, d] * widen(weight[n, d])
            out[t, n] = dot
            t += 1

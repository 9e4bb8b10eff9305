"""RMS norm over the residual stream."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from structgen.kernels.triton.common import power_of_two, warps


@triton.jit
def _rms_norm(
    x: tl.tensor, residual: tl.tensor, weight: tl.tensor, out: tl.tensor, size: tl.tensor, eps: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """One program a row."""
    columns = tl.arange(0, BLOCK)
    inside = columns < size
    start = tl.program_id(0).to(tl.int64) * size
    row = tl.load(residual + start + columns, mask=inside, other=0.0)
    row += tl.load(x + start + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(residual + start + columns, row, mask=inside)
    factor = 1.0 / tl.sqrt(tl.sum(row * row, axis=0) / size + eps)
    normed = row * factor * tl.load(weight + columns, mask=inside, other=0.0)
    tl.store(out + start + columns, normed.to(out.dtype.element_ty), mask=inside)


def rms_norm(x: Tensor, weight: Tensor, eps: float, residual: Tensor) -> Tensor:
    out = torch.empty_like(x)
    block = power_of_two(x.shape[1])
    if x.shape[0]:
        _rms_norm[(x.shape[0],)](x, residual, weight, out, x.shape[1], eps, BLOCK=block, num_warps=warps(block))
    return out

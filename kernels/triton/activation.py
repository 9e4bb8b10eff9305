"""silu(gate) * up and gelu(gate) * up."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from structgen.kernels.triton.common import power_of_two, tanh

_BLOCK = 1024


@triton.jit
def _gated(gate_up: tl.tensor, out: tl.tensor, size: tl.tensor, BLOCK: tl.constexpr, GELU: tl.constexpr) -> None:
    """One program a row and ``BLOCK`` columns."""
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < size
    row = tl.program_id(0).to(tl.int64)
    gate = tl.load(gate_up + row * 2 * size + columns, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * size + size + columns, mask=inside, other=0.0).to(tl.float32)
    if GELU:
        gate = 0.5 * gate * (1.0 + tanh(0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)))
    else:
        gate = gate / (1.0 + tl.exp(-gate))
    tl.store(out + row * size + columns, (gate * up).to(out.dtype.element_ty), mask=inside)


def _launch(gate_up: Tensor, gelu: bool) -> Tensor:
    tokens, size = gate_up.shape[0], gate_up.shape[1] // 2
    out = gate_up.new_empty((tokens, size))
    block = min(power_of_two(size), _BLOCK)
    if out.numel():
        _gated[(tokens, triton.cdiv(size, block))](gate_up, out, size, BLOCK=block, GELU=gelu)
    return out


def silu_mul(gate_up: Tensor) -> Tensor:
    return _launch(gate_up, gelu=False)


def gelu_mul(gate_up: Tensor) -> Tensor:
    return _launch(gate_up, gelu=True)

"""Linear layers over weights packed for the processor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from structgen.engine.loader import Checkpoint
from structgen.kernels import cpu

# Up to this many tokens the numba kernel over bf16 weights beats widening them for a float32 product: 36 ms against 106
# at 16 tokens, 81 against 212 at 32. [measured, 2 AVX2 cores under load, 8 of SmolLM2's layers]
_NARROW_TOKENS = 64


class Linear:
    """x [T, K] -> x @ W^T + b [T, N]; W may be several checkpoint tensors stacked (packed projections).

    Args:
        in_features: K.
        out_features: rows of each stacked tensor.
        bias: whether each has a bias.
        dtype: of input, weight and output.
        device: where it runs.
    """

    def __init__(
        self, in_features: int, out_features: Sequence[int], *, bias: bool, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._in = in_features
        self._out = tuple(out_features)
        self._has_bias = bias
        self._dtype = dtype
        self._device = device

    def load(self, weights: Checkpoint, *names: str, order: Tensor | None = None) -> None:
        """Take ``name.weight`` (and ``name.bias``) of each stacked tensor, or of one that is the stack, and pack them.

        ``order`` [N] reorders the rows.
        """
        sizes = self._out if len(names) == len(self._out) else (sum(self._out),)
        pairs = list(zip(names, sizes, strict=True))
        weight = _stack([weights.take(f"{name}.weight", (n, self._in)) for name, n in pairs])
        bias = _stack([weights.take(f"{name}.bias", (n,)) for name, n in pairs]) if self._has_bias else None
        if order is not None:
            weight, bias = weight[order], None if bias is None else bias[order]
        self.pack(weight, bias)

    def pack(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Set weight [N, K] and bias [N]."""
        weight = weight.to(self._device, self._dtype).contiguous()
        self._bias = None if bias is None else bias.to(self._device, self._dtype)
        self._packed = self._device.type == "cpu" and can_prepack(self._dtype)
        if self._packed:
            # oneDNN's own layout: a step of 1 / 16 tokens takes 27 / 64 ms instead of 41 / 112 (float32, 2 AVX2 cores,
            # all matrices of SmolLM2-135M) and 6 / 10 instead of 10 / 14 (bfloat16, 2 AVX512-BF16 cores). [measured]
            weight = torch.ops.mkldnn._reorder_linear_weight(weight)
        self._weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        return self._product(x).to(x.dtype)

    def _product(self, x: Tensor) -> Tensor:
        """Like the call; float32 where that is what the arithmetic gives."""
        if self._packed:
            out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
            return out
        if x.dtype == torch.bfloat16 and x.device.type == "cpu":
            return self._widened(x)
        return functional.linear(x, self._weight, self._bias)

    def _widened(self, x: Tensor) -> Tensor:
        """bfloat16 on a processor without its instructions (torch takes 16 ms a *token* there): float32 arithmetic."""
        if x.shape[0] > _NARROW_TOKENS:
            out = functional.linear(x.float(), self._weight.float())
        else:
            out = cpu.linear_bf16(x.float(), self._weight)
        return out if self._bias is None else out.add_(self._bias)


def _stack(tensors: list[Tensor]) -> Tensor:
    return torch.cat(tensors) if len(tensors) > 1 else tensors[0]


def can_prepack(dtype: torch.dtype) -> bool:
    """Whether oneDNN on this processor multiplies ``dtype`` from a prepacked layout."""
    if not torch._C._has_mkldnn or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if dtype == torch.bfloat16:
        return has_bf16_instructions()
    return dtype == torch.float32


def has_bf16_instructions() -> bool:
    """Whether bfloat16 products run in hardware on this processor (AVX512-BF16 or AMX)."""
    return bool(torch._C._has_mkldnn and torch.cpu._is_avx512_bf16_supported())

"""Every Triton kernel compiles for real GPUs, on a machine without one. Run by test_triton.py.

Launches go through triton's own launcher up to the point where the machine code would be loaded: the signatures and
the specialisation on values are those of a real call.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch

assert os.environ.get("TRITON_INTERPRET") != "1", "run this file through test_triton.py"

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.runtime import driver, jit  # noqa: E402

from structgen.kernels import triton as kernels  # noqa: E402

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


class NoGpu:
    """As much of a driver as compiling asks for."""

    def __init__(self, target: GPUTarget) -> None:
        self._target = target

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return int(self._target.arch)  # triton keeps what it compiled by device

    def get_current_stream(self, device: int) -> int:
        return 0


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What the launches of a test compiled, for an H100 or H200."""
    made: list[Any] = []
    run = jit.JITFunction.run

    def compile_only(self: Any, *args: Any, **kwargs: Any) -> Any:
        made.append(run(self, *args, **(kwargs | {"warmup": True})))
        return made[-1]

    monkeypatch.setattr(jit.JITFunction, "run", compile_only)
    driver.set_active(NoGpu(GPUTarget("cuda", 90, 32)))
    yield made
    assert made
    for kernel in made:
        assert len(kernel.asm["cubin"]) > 1000


@pytest.mark.parametrize("dtype", DTYPES)
def test_layers(compiled: list[Any], dtype: torch.dtype) -> None:
    kernels.rms_norm(torch.randn(3, 576).to(dtype), torch.randn(576), 1e-5, torch.randn(3, 576))
    kernels.silu_mul(torch.randn(3, 2 * 1536).to(dtype))
    kernels.gelu_mul(torch.randn(3, 2 * 1536).to(dtype))
    caches = [torch.zeros(5, 3, 16, 64, dtype=dtype) for _ in range(2)]
    norm = torch.randn(64)
    for norms in ((None, None), (norm, norm)):
        places, qkv = torch.zeros(3, dtype=torch.int64), torch.randn(3, 15 * 64).to(dtype)
        kernels.rope_write_kv(qkv, places, places, torch.zeros(9, 64), *caches, *norms, 1e-6)
    assert len(compiled) == 5


@pytest.mark.parametrize(
    ("dtype", "dim", "window", "softcap"),
    [
        (torch.bfloat16, 64, None, None),
        (torch.bfloat16, 128, None, None),
        (torch.bfloat16, 256, 20, 5.0),
        (torch.float16, 64, None, None),
        (torch.float32, 64, None, None),
    ],
)
def test_paged_attention(
    compiled: list[Any], dtype: torch.dtype, dim: int, window: int | None, softcap: float | None
) -> None:
    caches = [torch.zeros(90, 3, 16, dim, dtype=dtype) for _ in range(2)]
    for tokens, split in [(2, True), (2, False), (70, False)]:
        owners = torch.zeros(tokens, dtype=torch.int32)
        starts = torch.zeros(3, dtype=torch.int32)
        tables = torch.zeros(2, 80, dtype=torch.int32)
        qkv = torch.zeros(tokens, 15 * dim, dtype=dtype)
        kernels.paged_attention(
            qkv, *caches, starts, starts[:2], tables, owners, 9, 0.1, window, softcap, split=split
        )
    assert len(compiled) == 4

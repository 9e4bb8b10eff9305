"""Interpreted Triton == reference == CPU, operation by operation. Run by test_triton.py, with TRITON_INTERPRET=1."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import pytest
import torch

assert os.environ.get("TRITON_INTERPRET") == "1", "run this file through test_triton.py"

from structgen.kernels import cpu, reference, triton  # noqa: E402

Tensors = dict[str, Any]

DTYPES = [torch.float32, torch.float16]


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """float32 within rounding of sums; float16 within two units of its last place."""
    tolerance = 3e-5 if expected.dtype == torch.float32 else 2e-3
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)


def implementations(dtype: torch.dtype) -> list[ModuleType]:
    """What must equal the reference. The CPU path has no float16: the api sends that to the reference."""
    return [triton, cpu] if dtype == torch.float32 else [triton]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("tokens", "dim"), [(0, 8), (1, 8), (3, 33), (5, 576)])
def test_rms_norm(dtype: torch.dtype, tokens: int, dim: int) -> None:
    x = torch.randn(tokens, dim).to(dtype)
    residual, weight = torch.randn(tokens, dim) * 3, torch.randn(dim)
    summed = residual.clone()
    expected = reference.rms_norm(x, weight, 1e-5, summed)
    for module in implementations(dtype):
        ours = residual.clone()
        close(module.rms_norm(x, weight, 1e-5, ours), expected)
        torch.testing.assert_close(ours, summed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("tokens", "dim"), [(0, 8), (1, 8), (3, 33), (2, 1536)])
def test_gated_activations(dtype: torch.dtype, tokens: int, dim: int) -> None:
    gate_up = (torch.randn(tokens, 2 * dim) * 20).to(dtype)
    if tokens:
        gate_up[0, 0], gate_up[0, 1] = 200.0, -200.0
    for module in implementations(dtype):
        close(module.silu_mul(gate_up), reference.silu_mul(gate_up))
        close(module.gelu_mul(gate_up), reference.gelu_mul(gate_up))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_norm", [False, True])
@pytest.mark.parametrize(
    ("tokens", "heads", "kv_heads", "dim", "block_size"),
    [(0, 2, 1, 8, 4), (7, 1, 1, 8, 1), (5, 9, 3, 64, 16), (7, 4, 2, 24, 5)],
)
def test_rope_write_kv(
    dtype: torch.dtype, with_norm: bool, tokens: int, heads: int, kv_heads: int, dim: int, block_size: int
) -> None:
    blocks = 11
    qkv = torch.randn(tokens, (heads + 2 * kv_heads) * dim).to(dtype)
    positions = torch.randint(0, 50, (tokens,))
    slots = torch.randperm(blocks * block_size)[:tokens]
    slots[1:2] = -1
    angles = torch.rand(50, dim // 2) * 6
    cos_sin = torch.cat((angles.cos(), angles.sin()), dim=1)
    norms = (torch.randn(dim), torch.randn(dim)) if with_norm else (None, None)

    def run(module: ModuleType) -> list[torch.Tensor]:
        caches = [torch.zeros(blocks, kv_heads, block_size, dim, dtype=dtype) for _ in range(2)]
        rotated = qkv.clone()
        module.rope_write_kv(rotated, positions, slots, cos_sin, *caches, *norms, 1e-6)
        return [rotated, *caches]

    expected = run(reference)
    for module in implementations(dtype):
        for ours, theirs in zip(run(module), expected, strict=True):
            close(ours, theirs)


def attention_case(
    chunks: list[tuple[int, int]], heads: int, kv_heads: int, dim: int, block_size: int, dtype: torch.dtype
) -> Tensors:
    """(new tokens, context) per sequence -> arguments, with blocks in shuffled order and poisoned unused slots."""
    needed = [-(-context // block_size) for _, context in chunks]
    order = torch.randperm(sum(needed) + 3).to(torch.int32)
    tables = torch.zeros(len(chunks), max(needed, default=0) + 1, dtype=torch.int32)
    caches = [torch.full((len(order), kv_heads, block_size, dim), float("nan")).to(dtype) for _ in range(2)]
    taken = 0
    for s, (_, context) in enumerate(chunks):
        tables[s, : needed[s]] = order[taken : taken + needed[s]]
        taken += needed[s]
        for position in range(context):
            for cache in caches:
                block, offset = int(tables[s, position // block_size]), position % block_size
                cache[block, :, offset] = torch.randn(kv_heads, dim).to(dtype)
    counts = torch.tensor([new for new, _ in chunks], dtype=torch.int64)
    return {
        "qkv": torch.randn(int(counts.sum()), (heads + 2 * kv_heads) * dim).to(dtype),
        "k_cache": caches[0],
        "v_cache": caches[1],
        "query_starts": torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0))).to(torch.int32),
        "context_lens": torch.tensor([context for _, context in chunks], dtype=torch.int32),
        "block_tables": tables,
        "owners": torch.arange(len(chunks), dtype=torch.int32).repeat_interleave(counts),
        "num_heads": heads,
        "scale": dim**-0.5,
    }


ATTENTION = [
    # sequences as (new tokens, context), heads, kv heads, head dim, block size, window, softcap
    ([], 2, 1, 8, 4, None, None),
    ([(1, 1)], 1, 1, 8, 1, None, None),
    ([(1, 37), (1, 5), (1, 64)], 4, 2, 24, 3, None, None),
    ([(1, 90), (1, 16)], 9, 3, 64, 16, None, None),
    ([(1, 90), (1, 16)], 3, 3, 16, 16, 20, 5.0),
    ([(9, 9), (30, 45), (1, 33)], 4, 2, 24, 5, None, None),
    ([(9, 9), (30, 75)], 6, 1, 16, 16, 7, None),
    ([(17, 40), (2, 2)], 9, 3, 64, 16, 1, 0.5),
    ([(40, 70)], 2, 2, 128, 8, 100, 50.0),
    ([(5, 20)], 2, 1, 256, 16, None, None),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("chunks", "heads", "kv_heads", "dim", "block_size", "window", "softcap"), ATTENTION)
def test_paged_attention(
    chunks: list[tuple[int, int]],
    heads: int,
    kv_heads: int,
    dim: int,
    block_size: int,
    window: int | None,
    softcap: float | None,
    dtype: torch.dtype,
) -> None:
    case = attention_case(chunks, heads, kv_heads, dim, block_size, dtype) | {"window": window, "softcap": softcap}
    expected = reference.paged_attention(**case)
    if dtype == torch.float32:
        close(cpu.paged_attention(**case), expected)
    for split, chunk in [(None, 512), (True, 16), (False, 16), (True, 64)]:
        close(triton.paged_attention(**case, split=split, chunk=chunk), expected)


def test_attention_of_rows_that_fill_a_batch_up() -> None:
    """A padding row has no context; it gives zeros, and its neighbours what they give alone."""
    case = attention_case([(1, 19), (1, 7)], 4, 2, 16, 4, torch.float32)
    expected = reference.paged_attention(**case)
    padded = case | {
        "qkv": torch.cat((case["qkv"], torch.full_like(case["qkv"][:1], float("nan")))),
        "query_starts": torch.tensor([0, 1, 2, 3], dtype=torch.int32),
        "context_lens": torch.tensor([19, 7, 0], dtype=torch.int32),
        "block_tables": torch.cat((case["block_tables"], torch.zeros_like(case["block_tables"][:1]))),
        "owners": torch.tensor([0, 1, 2], dtype=torch.int32),
    }
    for split in (True, False):
        out = triton.paged_attention(**padded, split=split, chunk=16)
        close(out[:2], expected)
        assert not out[2].any()


def test_attention_rows_do_not_depend_on_the_batch() -> None:
    """A token alone, its chunks on programs of their own, gives what it gives inside a prefill chunk beside others."""
    case = attention_case([(9, 50), (1, 17)], 4, 2, 24, 4, torch.float32)
    whole = triton.paged_attention(**case, split=False, chunk=16)
    for t, (s, context) in enumerate([(0, 42 + i) for i in range(9)] + [(1, 17)]):
        alone = triton.paged_attention(
            case["qkv"][t : t + 1],
            case["k_cache"],
            case["v_cache"],
            torch.tensor([0, 1], dtype=torch.int32),
            torch.tensor([context], dtype=torch.int32),
            case["block_tables"][s : s + 1],
            torch.zeros(1, dtype=torch.int32),
            4,
            24**-0.5,
            split=True,
            chunk=16,
        )
        close(alone[0], whole[t])

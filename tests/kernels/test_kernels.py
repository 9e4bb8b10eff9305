"""Every operation: the dispatched path equals the reference, on odd shapes, in float32 and bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from structgen.kernels import api, reference
from structgen.kernels.cpu import linear_bf16
from structgen.kernels.cpu.bits import exp, narrow, widen

DTYPES = [torch.float32, torch.bfloat16]
CPU = torch.device("cpu")


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Float32 within rounding of sums; bfloat16 within two units of its last place."""
    tolerance = 2e-5 if expected.dtype == torch.float32 else 2e-2
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    for dtype in DTYPES:
        api.warmup(dtype, CPU)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("tokens", "dim"), [(1, 8), (3, 33), (7, 576), (64, 40)])
def test_rms_norm(dtype: torch.dtype, tokens: int, dim: int) -> None:
    x = torch.randn(tokens, dim).to(dtype)
    residual, weight = torch.randn(tokens, dim) * 3, torch.randn(dim)
    ours, theirs = residual.clone(), residual.clone()
    close(api.rms_norm(x, weight, 1e-5, ours), reference.rms_norm(x, weight, 1e-5, theirs))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("tokens", "dim"), [(1, 8), (3, 33), (5, 1536)])
def test_gated_activations(dtype: torch.dtype, tokens: int, dim: int) -> None:
    gate_up = (torch.randn(tokens, 2 * dim) * 20).to(dtype)
    gate_up[0, 0] = 200.0
    gate_up[0, 1] = -200.0
    close(api.silu_mul(gate_up), reference.silu_mul(gate_up))
    close(api.gelu_mul(gate_up), reference.gelu_mul(gate_up))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_norm", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads", "dim", "block_size"), [(1, 1, 8, 1), (9, 3, 64, 16), (4, 2, 24, 5)])
def test_rope_write_kv(
    dtype: torch.dtype, with_norm: bool, heads: int, kv_heads: int, dim: int, block_size: int
) -> None:
    tokens, blocks = 7, 11
    qkv = torch.randn(tokens, (heads + 2 * kv_heads) * dim).to(dtype)
    positions = torch.randint(0, 50, (tokens,))
    slots = torch.randperm(blocks * block_size)[:tokens]
    angles = torch.rand(50, dim // 2) * 6
    cos_sin = torch.cat((angles.cos(), angles.sin()), dim=1)
    norms = (torch.randn(dim), torch.randn(dim)) if with_norm else (None, None)
    results = []
    for module in (api, reference):
        caches = [torch.zeros(blocks, kv_heads, block_size, dim, dtype=dtype) for _ in range(2)]
        rotated = qkv.clone()
        module.rope_write_kv(rotated, positions, slots, cos_sin, *caches, *norms, 1e-6)
        results.append((rotated, *caches))
    for ours, theirs in zip(*results, strict=True):
        close(ours, theirs)


def attention_case(
    chunks: list[tuple[int, int]], heads: int, kv_heads: int, dim: int, block_size: int, dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    """(new tokens, context) per sequence -> arguments, with blocks in shuffled order and poisoned unused slots."""
    needed = [-(-context // block_size) for _, context in chunks]
    order = torch.randperm(sum(needed) + 3).to(torch.int32)
    tables = torch.zeros(len(chunks), max(needed) + 1, dtype=torch.int32)
    shape = (len(order), kv_heads, block_size, dim)
    k_cache, v_cache = (torch.full(shape, float("nan")).to(dtype) for _ in range(2))
    taken = 0
    for s, (_, context) in enumerate(chunks):
        tables[s, : needed[s]] = order[taken : taken + needed[s]]
        taken += needed[s]
        for position in range(context):
            block, offset = int(tables[s, position // block_size]), position % block_size
            k_cache[block, :, offset] = torch.randn(kv_heads, dim).to(dtype)
            v_cache[block, :, offset] = torch.randn(kv_heads, dim).to(dtype)
    counts = torch.tensor([new for new, _ in chunks])
    return {
        "qkv": torch.randn(int(counts.sum()), (heads + 2 * kv_heads) * dim).to(dtype),
        "k_cache": k_cache,
        "v_cache": v_cache,
        "query_starts": torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0))).to(torch.int32),
        "context_lens": torch.tensor([context for _, context in chunks], dtype=torch.int32),
        "block_tables": tables,
        "owners": torch.arange(len(chunks), dtype=torch.int32).repeat_interleave(counts),
    }


@given(
    chunks=st.lists(
        st.integers(1, 40).flatmap(lambda context: st.tuples(st.integers(1, context), st.just(context))),
        min_size=1,
        max_size=4,
    ),
    heads=st.sampled_from([(1, 1), (4, 2), (9, 3), (3, 1)]),
    dim=st.sampled_from([8, 24, 64]),
    block_size=st.sampled_from([1, 3, 16]),
    window=st.sampled_from([None, 1, 5, 100]),
    softcap=st.sampled_from([None, 0.5, 50.0]),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_paged_attention(
    chunks: list[tuple[int, int]],
    heads: tuple[int, int],
    dim: int,
    block_size: int,
    window: int | None,
    softcap: float | None,
    dtype: torch.dtype,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    case = attention_case(chunks, *heads, dim, block_size, dtype)
    options: dict[str, Any] = {"num_heads": heads[0], "scale": dim**-0.5, "window": window, "softcap": softcap}
    close(api.paged_attention(**case, **options), reference.paged_attention(**case, **options))


def test_reference_attention_is_torch_attention() -> None:
    """The oracle has an oracle."""
    case = attention_case([(6, 6)], 4, 2, 8, 4, torch.float32)
    ours = reference.paged_attention(**case, num_heads=4, scale=0.3)
    blocks = case["block_tables"][0, :2].long()
    key, value = (case[c][blocks].transpose(1, 2).flatten(0, 1)[:6].transpose(0, 1) for c in ("k_cache", "v_cache"))
    query = case["qkv"][:, :32].view(6, 4, 8).transpose(0, 1)
    theirs = torch.nn.functional.scaled_dot_product_attention(
        query, key.repeat_interleave(2, 0), value.repeat_interleave(2, 0), is_causal=True, scale=0.3
    )
    close(ours, theirs.transpose(0, 1).flatten(1))


def test_attention_rows_do_not_depend_on_the_batch() -> None:
    """Bit equality: a token alone gives what it gives inside a chunk beside others."""
    case = attention_case([(9, 30), (1, 17)], 4, 2, 24, 4, torch.float32)
    whole = api.paged_attention(**case, num_heads=4, scale=0.2)
    for t, (s, context) in enumerate([(0, 22 + i) for i in range(9)] + [(1, 17)]):
        alone = api.paged_attention(
            case["qkv"][t : t + 1],
            case["k_cache"],
            case["v_cache"],
            torch.tensor([0, 1], dtype=torch.int32),
            torch.tensor([context], dtype=torch.int32),
            case["block_tables"][s : s + 1],
            torch.zeros(1, dtype=torch.int32),
            num_heads=4,
            scale=0.2,
        )
        assert torch.equal(alone[0], whole[t])


@pytest.mark.parametrize(("tokens", "n", "k"), [(1, 5, 16), (4, 33, 24), (7, 10, 100)])
def test_linear_bf16(tokens: int, n: int, k: int) -> None:
    x, weight = torch.randn(tokens, k), torch.randn(n, k).bfloat16()
    torch.testing.assert_close(linear_bf16(x, weight), x @ weight.float().T, atol=1e-4, rtol=1e-4)


@njit
def _exp_all(x: np.ndarray, out: np.ndarray) -> None:
    for i in range(len(x)):
        out[i] = exp(x[i])


@njit
def _round_trip(x: np.ndarray, bits: np.ndarray, out: np.ndarray) -> None:
    for i in range(len(x)):
        bits[i] = narrow(x[i], bits[i])
        out[i] = widen(bits[i])


def test_exp() -> None:
    x = np.concatenate([np.linspace(-86.9, 87.9, 100_001), np.float64([0, -1e-8, 1e-8])]).astype(np.float32)
    out = np.empty_like(x)
    _exp_all(x, out)
    np.testing.assert_allclose(out, np.exp(x.astype(np.float64)), rtol=2.5e-7)


def test_bfloat16_conversion_is_torch_s() -> None:
    bits = torch.randint(-(2**31), 2**31, (100_000,)).to(torch.int32)
    x = torch.cat((bits.view(torch.float32), torch.tensor([0.0, -0.0, float("inf"), float("-inf"), 3.4e38, 1e-45])))
    out = torch.empty_like(x)
    _round_trip(x.numpy(), np.empty(len(x), np.uint16), out.numpy())
    torch.testing.assert_close(out, x.bfloat16().float(), atol=0, rtol=0, equal_nan=True)


def test_arguments_are_checked() -> None:
    case = attention_case([(2, 4)], 4, 2, 8, 4, torch.float32)
    with pytest.raises(ValueError, match="share a dtype"):
        api.paged_attention(**{**case, "qkv": case["qkv"].bfloat16()}, num_heads=4, scale=1.0)
    with pytest.raises(ValueError, match="num_heads = 3"):
        api.paged_attention(**case, num_heads=3, scale=1.0)
    with pytest.raises(ValueError, match="int32"):
        api.paged_attention(**{**case, "owners": case["owners"].long()}, num_heads=4, scale=1.0)
    with pytest.raises(ValueError, match="must be float32"):
        api.rms_norm(torch.randn(2, 4), torch.randn(4).double(), 1e-5, torch.randn(2, 4))
    with pytest.raises(ValueError, match=r"\[T, 2F\]"):
        api.silu_mul(torch.randn(2, 5))

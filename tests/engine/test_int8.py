"""The one-call CPU step as a model: against the torch path with its arithmetic rounded likewise, and against itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_models import LENGTH, MODELS, Paged

from structgen import LLM, Grammar, ModelError, SamplingParams, kernels
from structgen.engine.batch import Batch
from structgen.engine.int8_runner import Int8Runner
from structgen.engine.layers import attention, embedding, linear
from structgen.engine.layers.attention import LayerCache
from structgen.engine.runner import Runner
from structgen.kernels import reference
from structgen.kernels.cpu import step

TinyModel = Callable[..., Path]
EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe")
FOREIGN = ("gpt2", "gpt_neox", "opt", "phi", "starcoder2", "cohere", "cohere2", "olmo")
DENSE = [name for name in MODELS if name not in (*EXPERTS, *FOREIGN)]


def make_int8(path: Path, **options: Any) -> Int8Runner:
    return Int8Runner(path, **{"kv_cache_tokens": 800, "max_num_batched_tokens": 64, **options})


@pytest.fixture
def rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The torch path in float32 with what the int8 step rounds: weights, inputs of products, the cache, embeddings."""

    def pack(self: Any, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._weight, self._bias = weight.float(), bias

    def product(self: Any, x: torch.Tensor) -> torch.Tensor:
        return reference.int8_linear(x.float(), self._weight, self._bias, is_fine=self.is_fine)

    def write(qkv: Any, positions: Any, slots: Any, cos_sin: Any, keys: Any, values: Any, *norms: Any) -> None:
        kernels.rope_write_kv(qkv, positions, slots, cos_sin, keys, values, *norms)
        for cache in (keys, values):
            cache.copy_(cache.bfloat16().float())

    class Kernels:
        rope_write_kv = staticmethod(write)
        paged_attention = staticmethod(kernels.paged_attention)

    def embed(self: Any, token_ids: torch.Tensor) -> torch.Tensor:
        x = self.weight[token_ids]
        if self.is_tied:
            x = reference.round_weight(x)
        else:
            x = x.bfloat16().float()
        return x * self._scale

    monkeypatch.setattr(linear.Linear, "is_fine", False, raising=False)
    monkeypatch.setattr(linear.Linear, "pack", pack)
    monkeypatch.setattr(linear.Linear, "_product", product)
    monkeypatch.setattr(attention, "kernels", Kernels)
    monkeypatch.setattr(embedding.Embedding, "__call__", embed)


@pytest.mark.usefixtures("rounded")
@pytest.mark.parametrize("name", DENSE)
def test_logits(name: str, tiny_model: TinyModel) -> None:
    model_type, overrides = MODELS[name]
    path = tiny_model(model_type, **overrides)
    theirs = Runner(path, dtype="float32", device="cpu", kv_cache_tokens=400)
    for layer in theirs.model._layers:  # type: ignore[attr-defined]
        layer._attention._qkv.is_fine = True
    theirs.model._head.is_fine = True  # type: ignore[attr-defined]
    theirs.model._embedding.is_tied = theirs.model.config.tie_word_embeddings  # type: ignore[attr-defined]
    for cache in theirs._caches:
        assert isinstance(cache, LayerCache)
        cache.keys.zero_(), cache.values.zero_()
    generator = torch.Generator().manual_seed(1)
    prompts = [torch.randint(0, 288, (n,), generator=generator).tolist() for n in (LENGTH, 9, 20)]
    wanted = Paged(theirs).step(list(enumerate(prompts)))
    ours = Paged(make_int8(path)).step(list(enumerate(prompts)))
    # A rounding that falls to the other side moves single values; a mistake moves all. Where heads are padded, the
    # groups of the attention's output are others.
    allowed = 0.012 if theirs.model.config.head_dim % 16 == 0 else 0.04
    for mine, other in zip(ours, wanted, strict=True):
        assert other.std() > 0.3
        assert (mine - other).abs().mean() < allowed * other.std()
        assert (mine - other).abs().max() < 8 * allowed * other.std()


@pytest.fixture(scope="module", params=["llama tied, biases", "gemma2", "olmo2", "qwen3", "phi3, part of each head"])
def path(request: pytest.FixtureRequest, tiny_model: TinyModel) -> Path:
    model_type, overrides = MODELS[request.param]
    return tiny_model(model_type, **overrides)


def whole(path: Path, prompts: list[list[int]], **options: Any) -> list[torch.Tensor]:
    return [logits.clone() for logits in Paged(make_int8(path, **options)).step(list(enumerate(prompts)))]


def test_bits_do_not_depend_on_how_the_work_is_cut(path: Path) -> None:
    generator = torch.Generator().manual_seed(2)
    prompts = [torch.randint(0, 288, (n,), generator=generator).tolist() for n in (LENGTH, 9, 20)]
    wanted = whole(path, prompts)
    for chunk in (1, 2, 5, 8, 32):
        paged = Paged(make_int8(path), seed=chunk)
        pieces = [paged.step([(0, prompts[0][at : at + chunk])])[0].clone() for at in range(0, LENGTH, chunk)]
        assert torch.equal(torch.cat(pieces), wanted[0]), chunk
    mixed = Paged(make_int8(path, block_size=32))
    first = [logits.clone() for logits in mixed.step([(0, prompts[0][:30]), (1, prompts[1][:1])])]
    second = [logits.clone() for logits in mixed.step([(1, prompts[1][1:]), (2, prompts[2]), (0, prompts[0][30:])])]
    assert torch.equal(torch.cat((first[0], second[2])), wanted[0])
    assert torch.equal(torch.cat((first[1], second[0])), wanted[1])
    assert torch.equal(second[1], wanted[2])


def test_bits_do_not_depend_on_the_instruction_set(path: Path) -> None:
    prompts = [list(range(20)), [5]]
    wanted = whole(path, prompts)
    fastest = step.find_isa()
    for isa in (step.PORTABLE, step.AVX2):
        if isa.dtype.itemsize < fastest.dtype.itemsize:
            for mine, other in zip(whole(path, prompts, isa=isa), wanted, strict=True):
                assert torch.equal(mine, other)


@pytest.mark.parametrize("kind", ["int8", "torch"])
def test_copied_blocks(path: Path, kind: str) -> None:
    tokens = list(range(3, 23))
    runner = make_int8(path) if kind == "int8" else Runner(path, dtype="float32", device="cpu", kv_cache_tokens=400)
    paged = Paged(runner)
    paged.step([(0, tokens[:-1])])
    one = paged.step([(0, tokens[-1:])], rows="last")[0].clone()
    blocks = paged._blocks[0]
    others = [paged._free.pop() for _ in blocks]
    runner.copy_blocks(list(zip(blocks, others, strict=True)))
    paged._blocks[1], paged._done[1] = others, len(tokens) - 1
    assert torch.equal(paged.step([(1, tokens[-1:])], rows="last")[0], one)


def test_only_wanted_rows(path: Path) -> None:
    prompts = [list(range(10)), list(range(40, 47))]
    every = whole(path, prompts)
    runner = make_int8(path)
    last = Paged(runner).step(list(enumerate(prompts)), rows="last")
    for mine, other in zip(last, every, strict=True):
        assert torch.equal(mine[0], other[-1])
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
    with pytest.raises(ValueError, match="65 tokens; max_num_batched_tokens is 64"):
        Paged(runner).step([(7, [1] * 65)])


def test_logits_of_a_few_groups(path: Path) -> None:
    """The same bits where they are wanted, -inf elsewhere, in any company."""
    runner = make_int8(path)
    prompts = [list(range(10)), list(range(40, 47)), [5], [7, 8], [9]]
    whole_rows = Paged(make_int8(path)).step(list(enumerate(prompts)), rows="last")
    every = torch.cat([row.clone() for row in whole_rows])
    groups: list[list[int] | None] = [[0, 8], None, [], None, [1, 2, 3, 4, 5, 6, 7, 8]]
    legal = tuple(None if group is None else np.array(group, np.int64) for group in groups)
    forward = runner.forward
    runner.forward = lambda batch: forward(replace(batch, legal=legal))  # type: ignore[method-assign]
    some = torch.cat(Paged(runner).step(list(enumerate(prompts)), rows="last"))
    for row, group in enumerate(groups):
        wanted = torch.full((288,), float("-inf"))
        for i in range(9) if group is None else group:
            wanted[32 * i : 32 * i + 32] = every[row, 32 * i : 32 * i + 32]
        if runner._model.factors.logits_cap and group is not None:  # the cap makes numbers of what is left out
            some[row][wanted.isinf()] = float("-inf")
        assert torch.equal(some[row], wanted), row


@pytest.fixture
def llm(tiny_model: TinyModel) -> Iterator[Callable[..., LLM]]:
    made: list[LLM] = []

    def make(model_type: str = "llama", **options: Any) -> LLM:
        made.append(LLM(str(tiny_model(model_type)), device="cpu", kv_cache_tokens=512, **options))
        return made[-1]

    yield make
    for one in made:
        one.shutdown()


def test_the_option(llm: Callable[..., LLM]) -> None:
    params = SamplingParams(temperature=0.0, max_tokens=20, ignore_eos=True)
    kinds = {options.get("quantization", "auto"): type(llm(**options)._front.runner) for options in (
        {}, {"quantization": None}, {"quantization": "int8"}
    )}  # fmt: skip
    assert kinds == {"auto": Runner, None: Runner, "int8": Int8Runner}, "a checkpoint of floats stays one by default"
    texts = {
        tuple(output.outputs[0].token_ids for output in made.generate(["ab", "the cat"], params))
        for made in (
            llm(quantization="int8"),
            llm(quantization="int8", max_num_seqs=2, max_num_batched_tokens=4),
            llm(quantization="int8", max_num_seqs=1, block_size=32),
        )
    }
    assert len(texts) == 1


def test_constrained_tokens_are_those_of_whole_logits(
    llm: Callable[..., LLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grammars whose masks have few tokens, many, or one; greedy, sampled, with log probabilities, among free text."""
    grammars = [
        Grammar.from_regex(r"a{40}"),
        Grammar.from_json_schema({"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}}}),
        Grammar.from_choices(["the cat", "the dog", "a hat"]),
        None,
    ]
    params = [
        SamplingParams(temperature=temperature, seed=3, max_tokens=16, logprobs=logprobs, ignore_eos=grammar is None)
        for temperature in (0.0, 1.0)
        for logprobs in (None, 1)
        for grammar in grammars
    ]
    results = []
    for few in (True, False):
        if not few:
            monkeypatch.setattr("structgen.engine.core.few_legal", lambda words: None)
        outputs = llm(quantization="int8").generate(["ab"] * 16, params, grammar=grammars * 4)
        results.append([(one.outputs[0].token_ids, one.outputs[0].logprobs, one.outputs[0].error) for one in outputs])
    assert results[0] == results[1]


def test_the_option_is_refused_with_the_reason(llm: Callable[..., LLM]) -> None:
    for options, message in (
        ({"block_size": 8}, "block_size is 8; it must be a multiple of 16"),
        ({"model_impl": "transformers"}, "native models only"),
        ({"model_type": "mixtral"}, "mixtures of experts"),
        ({"model_type": "gpt2"}, "native models only"),
    ):
        with pytest.raises(ModelError, match=rf"quantization='int8': .*{message}.*; use quantization=None"):
            llm(quantization="int8", **options)

"""Beam search against transformers' and, under a grammar, against all texts of a small one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from structgen.engine.async_llm import AsyncLLM
from structgen.engine.beam import BeamSearchParams
from structgen.engine.config import SamplingParams
from structgen.engine.llm import LLM
from structgen.errors import GrammarError, RequestError
from structgen.grammars.grammar import Grammar

PROMPT = "the cat and the dog"


@pytest.fixture(scope="module")
def path(tiny_model: Callable[..., Path]) -> Path:
    # Flat enough that beams cross, and that the end token is among the likely ones.
    return tiny_model("llama", initializer_range=0.12)


@pytest.fixture(scope="module")
def llm(path: Path) -> Iterator[LLM]:
    with LLM(str(path), dtype="float32", device="cpu", kv_cache_tokens=2048) as made:
        yield made
        made._front.core.scheduler.pool.check()


@pytest.fixture(scope="module")
def model(path: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


@pytest.mark.parametrize("early_stopping", [False, True, "never"])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, -1.5, 2.0])
@pytest.mark.parametrize("beam_width", [2, 3, 5])
def test_equals_transformers(llm: LLM, model: Any, beam_width: int, length_penalty: float, early_stopping: Any):
    ids = llm.tokenizer.encode(PROMPT)
    # Likely tokens as ends make short and long texts compete, which a random model's own end hardly does.
    (likely,) = llm.generate([ids], SamplingParams(temperature=0.0, logprobs=3, max_tokens=1))[0].outputs[0].logprobs
    ends = [*llm.tokenizer.eos_token_ids, *list(likely)[1:]]
    search = llm._front.beam_search(
        ids,
        BeamSearchParams(
            beam_width=beam_width, max_tokens=10, length_penalty=length_penalty, early_stopping=early_stopping
        ),
    )
    search.eos_token_ids = ends
    while not search.is_done:
        groups = [llm._front.prepare(*beam) for beam in search.round()]
        llm._run(groups, progress=False)
        search.take(groups)
    output = llm._front.beam_output(search)
    padding = list(range(llm.tokenizer.vocabulary.size, model.config.vocab_size))
    wanted = model.generate(
        torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        num_beams=beam_width,
        num_return_sequences=beam_width,
        do_sample=False,
        max_new_tokens=10,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        eos_token_id=ends,
        pad_token_id=model.config.vocab_size - 1,
        suppress_tokens=padding,
        return_dict_in_generate=True,
        output_scores=True,
    )
    rows = [row[len(ids) :].tolist() for row in wanted.sequences]
    expected = [[token for token in row if token != model.config.vocab_size - 1] for row in rows]
    assert [list(choice.token_ids) for choice in output.outputs] == expected
    assert length_penalty == 2.0 or len({len(tokens) for tokens in expected}) > 1
    scores = [c.cumulative_logprob / len(c.token_ids) ** length_penalty for c in output.outputs]
    assert scores == pytest.approx(wanted.sequences_scores.tolist(), rel=1e-5)


def test_one_beam_is_greedy(llm: LLM):
    (beam,) = llm.beam_search(PROMPT, BeamSearchParams(beam_width=1, max_tokens=9, early_stopping=True))
    (greedy,) = llm.generate(PROMPT, SamplingParams(temperature=0.0, max_tokens=9, logprobs=0))
    assert beam.outputs[0].token_ids == greedy.outputs[0].token_ids
    assert beam.outputs[0].text == greedy.outputs[0].text
    assert beam.outputs[0].cumulative_logprob == pytest.approx(greedy.outputs[0].cumulative_logprob, abs=1e-4)


def test_a_wide_search_of_a_small_grammar_finds_its_best_texts(llm: LLM):
    texts = ["".join(letters) for letters in itertools.product("ab", repeat=3)]
    grammar = Grammar.from_choices(texts)
    params = BeamSearchParams(beam_width=8, max_tokens=8, length_penalty=0.0)
    (output,) = llm.beam_search([PROMPT], params, grammar=grammar)
    assert sorted(choice.text for choice in output.outputs) == texts
    assert [choice.value for choice in output.outputs] == [choice.text for choice in output.outputs]
    assert all(choice.finish_reason == "stop" and not choice.incomplete for choice in output.outputs)
    sums = [choice.cumulative_logprob for choice in output.outputs]
    assert sums == sorted(sums, reverse=True)
    greedy = SamplingParams(temperature=0.0, logprobs=0, logprobs_mode="masked", max_tokens=8)
    (first,) = llm.generate([PROMPT], greedy, grammar=grammar)
    same = next(choice for choice in output.outputs if choice.token_ids == first.outputs[0].token_ids)
    assert same.cumulative_logprob == pytest.approx(first.outputs[0].cumulative_logprob, abs=1e-4)
    (cut,) = llm.beam_search([PROMPT], BeamSearchParams(beam_width=2, max_tokens=2), grammar=grammar)
    assert all(choice.incomplete and choice.value is None for choice in cut.outputs)


def test_prompts_searched_together_give_what_they_give_alone(llm: LLM):
    prompts = [PROMPT, "x" * 40, "a"]
    params = [BeamSearchParams(beam_width=width, max_tokens=6) for width in (2, 3, 1)]
    together = llm.beam_search(prompts, params)
    for prompt, own, output in zip(prompts, params, together, strict=True):
        (alone,) = llm.beam_search(prompt, own)
        assert [c.token_ids for c in alone.outputs] == [c.token_ids for c in output.outputs]
        assert output.prompt == prompt
        assert len(output.outputs) == own.beam_width

    async def main() -> None:
        async with AsyncLLM.from_llm(LLM.from_parts(llm.runner, llm.tokenizer)) as engine:
            outputs = await engine.beam_search(prompts, params)
            for output, wanted in zip(outputs, together, strict=True):
                assert [c.token_ids for c in output.outputs] == [c.token_ids for c in wanted.outputs]
            with pytest.raises(RequestError, match="the prompt has 600"):
                await engine.beam_search([1] * 600)

    asyncio.run(main())


def test_failures(llm: LLM):
    class Broken:
        def compile(self, vocabulary: Any) -> Any:
            raise GrammarError("no such rule")

    with pytest.raises(GrammarError, match="no such rule"):
        llm.beam_search("a", grammar=Broken())
    fine, long = llm.beam_search(["a", [1] * 600], BeamSearchParams(max_tokens=2))
    assert fine.error is None
    assert "the prompt has 600 tokens" in str(long.error)
    with pytest.raises(RequestError, match=r"allowed: BeamSearchParams\(...\)"):
        llm.beam_search("a", SamplingParams())
    for options, message in (
        ({"beam_width": 65}, "beam_width is 65; allowed: an integer from 1 to 64"),
        ({"length_penalty": float("nan")}, "length_penalty"),
        ({"early_stopping": "soon"}, "True, False or 'never'"),
        ({"max_tokens": 0}, "max_tokens is 0"),
    ):
        with pytest.raises(RequestError, match=message):
            BeamSearchParams(**options)

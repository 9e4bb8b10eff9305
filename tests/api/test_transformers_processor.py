"""GrammarLogitsProcessor inside transformers' own generate, on a tiny model with random weights."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from structgen import Grammar, RequestError, Vocabulary
from structgen.integrations.transformers import GrammarLogitsProcessor

EOS = 256
VOCAB = [bytes([b]) for b in range(256)] + [None]


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=260, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, bos_token_id=None, eos_token_id=EOS, pad_token_id=EOS,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary.from_tokenizer(VOCAB, eos_token_ids=[EOS], size=260)


def texts(model: Any, processor: GrammarLogitsProcessor, **options: Any) -> list[str]:
    prompt = torch.tensor([[72, 105]] * options.pop("rows", 1))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        out = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), logits_processor=[processor], max_new_tokens=40, **options
        )
    return [bytes(t for t in row[2:].tolist() if t < 256).decode() for row in out]


@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": False},
        {"do_sample": True, "temperature": 3.0, "num_return_sequences": 4},
        {"do_sample": False, "num_beams": 4, "num_return_sequences": 3},
        {"do_sample": True, "num_beams": 3, "top_k": 0},
        {"do_sample": True, "rows": 3, "top_k": 0},
    ],
    ids=["greedy", "sampled", "beams", "sampled beams", "batch"],
)
def test_every_finished_row_matches(model: Any, vocabulary: Vocabulary, options: dict[str, Any]) -> None:
    grammar = Grammar.from_regex(r"[a-f]{1,8}(-\d\d)?")
    processor = GrammarLogitsProcessor(grammar.compile(vocabulary))
    for _ in range(3):  # one processor, one call after another
        made = texts(model, processor, **dict(options))
        assert all(grammar.matches(text) for text in made), made
        assert all(processor.complete)


def test_cut_is_known(model: Any, vocabulary: Vocabulary) -> None:
    processor = GrammarLogitsProcessor(Grammar.from_regex(r"[a-f]{100}").compile(vocabulary))
    (text,) = texts(model, processor, do_sample=False)
    assert len(text) == 40
    assert set(text) <= set("abcdef")
    assert processor.complete == [False]


def test_vocabulary_wider_than_the_logits(vocabulary: Vocabulary) -> None:
    processor = GrammarLogitsProcessor(Grammar.from_regex("a").compile(vocabulary))
    with pytest.raises(RequestError, match="100 logits"):
        processor(torch.tensor([[1]]), torch.zeros((1, 100)))


def test_forced_illegal_token_is_refused(vocabulary: Vocabulary) -> None:
    processor = GrammarLogitsProcessor(Grammar.from_regex("ab").compile(vocabulary))
    processor(torch.tensor([[1]]), torch.zeros((1, 260)))
    with pytest.raises(RequestError, match="position 0 of the output"):
        processor(torch.tensor([[1, ord("x")]]), torch.zeros((1, 260)))

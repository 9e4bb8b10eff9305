"""Incremental text against the decoding of all bytes at once."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_tokenizers import smollm2_gguf

from structgen.engine.detokenize import Detokenizer
from structgen.grammars.token_sources import TokenTable
from structgen.grammars.vocabulary import Vocabulary

TOKENS = [
    b"a",
    b" b",
    "é".encode(),
    b"\xc3",
    b"\xa9",
    b"\xf0\x9f",
    b"\x98\x80",
    b"\xe2",
    b"\x82\xac",
    b"\xff",
    None,
    None,
]
SPECIAL = {"<eos>": 10}


def vocabulary(strips: bool = False) -> Vocabulary:
    table = TokenTable(TOKENS, SPECIAL, (10,), None, strips)
    return Vocabulary(table, eos_token_ids=(10,), size=len(TOKENS))


id_streams = st.lists(st.integers(0, len(TOKENS) - 1), max_size=20)


@given(id_streams)
def test_pushes_join_to_the_decoding_of_the_bytes(ids: list[int]) -> None:
    v = vocabulary()
    reader = Detokenizer(v)
    parts = [reader.push(i) for i in ids]
    assert "".join(parts) + reader.flush() == v.decode(ids).decode("utf-8", "replace")


@given(st.text(), st.data())
def test_no_replacement_inside_a_character(text: str, data: st.DataObject) -> None:
    whole = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    bounds = [0, *cuts, len(whole)]
    tokens = [whole[a:b] or None for a, b in pairwise(bounds)]
    reader = Detokenizer(Vocabulary.from_tokenizer(tokens))
    shown = ""
    for i in range(len(tokens)):
        shown += reader.push(i)
        assert text.startswith(shown)
    assert shown + reader.flush() == text


def test_an_unfinished_character_is_held_back_and_replaced_at_the_end() -> None:
    reader = Detokenizer(vocabulary())
    assert [reader.push(i) for i in (0, 5, 6, 7)] == ["a", "", "😀", ""]
    assert reader.flush() == "�"
    assert reader.flush() == ""


def test_special_tokens_are_skipped_or_named() -> None:
    ids = [0, 10, 11, 3, 10, 0]
    quiet, named = Detokenizer(vocabulary()), Detokenizer(vocabulary(), skip_special_tokens=False)
    assert [quiet.push(i) for i in ids] == ["a", "", "", "", "", "�a"]
    assert [named.push(i) for i in ids] == ["a", "<eos>", "", "", "�<eos>", "a"]


def test_leading_space() -> None:
    def text(strips: bool, starts: bool, ids: list[int]) -> str:
        reader = Detokenizer(vocabulary(strips), starts_text=starts)
        return "".join(map(reader.push, ids))

    assert text(True, False, [1, 1]) == " b b"  # goes on from a prompt: the space is part of the answer
    assert text(True, True, [10, 1, 1]) == "b b"
    assert text(True, True, [0, 1]) == "a b"
    assert text(False, True, [1]) == " b"


def test_an_unknown_id_is_an_error() -> None:
    with pytest.raises(IndexError):
        Detokenizer(vocabulary()).push(len(TOKENS))


@pytest.mark.model
def test_real_token_streams() -> None:
    v = Vocabulary.from_tokenizer(smollm2_gguf())
    rng = random.Random()
    for _ in range(300):
        ids = [rng.randrange(v.size) for _ in range(rng.randrange(30))]
        reader = Detokenizer(v)
        text = "".join(map(reader.push, ids)) + reader.flush()
        assert text == v.tokenizer.decode([i for i in ids if v.tokens[i]], skip_special_tokens=False), ids

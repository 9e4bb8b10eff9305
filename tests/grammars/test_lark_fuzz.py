"""Random Lark grammars and texts: our verdict is lark's, and masks are brute force's."""

from __future__ import annotations

import random

import lark
import numpy as np
import pytest
from brute import check_walk
from hypothesis import given, settings
from hypothesis import strategies as st
from lark_random import LETTERS, accepts, grammar, quiet_lark, texts
from reference import Reference

from structgen.errors import GrammarError, UnsatisfiableGrammar
from structgen.grammars import Grammar, Vocabulary, lark_grammar, library
from structgen.grammars.lalr import LalrMachine
from structgen.grammars.machine import Machine


def load(text: str) -> tuple[lark.Lark, Machine | None] | None:
    """lark's parser and our machine (None: no text at all); None when both refuse the grammar, or where
    lark would reduce for ever."""
    try:
        parser = quiet_lark(text)
    except lark.exceptions.LarkError:
        with pytest.raises(GrammarError):
            lark_grammar.machine(text)
        return None
    try:
        machine = lark_grammar.machine(text)
    except UnsatisfiableGrammar:
        return parser, None
    assert isinstance(machine, LalrMachine)
    return None if machine.tables.endless else (parser, machine)


def walks(rng: random.Random, machine: Machine, count: int) -> list[str]:
    """Texts that the machine accepts, as far as short random walks find some."""
    found = []
    for _ in range(count):
        state, text = Reference(machine), ""
        for _ in range(rng.randint(1, 10)):
            for char in rng.sample(LETTERS + " A\n", len(LETTERS) + 3):
                after = state.copy()
                if after.accept(char.encode()):
                    state, text = after, text + char
                    break
            else:
                break
            if state.can_end():
                found.append(text)
    return found


def compare(seed: int, looks: bool) -> None:
    rng = random.Random(seed)
    text = grammar(rng, looks)
    loaded = load(text)
    if loaded is None:
        return
    parser, machine = loaded
    samples = texts(rng, 25)
    if machine is not None:
        samples += walks(rng, machine, 6)
    for sample in samples:
        state = None if machine is None else Reference(machine)
        verdict = state is not None and state.accept(sample.encode()) and state.can_end()
        assert verdict is accepts(parser, sample), f"{sample!r} with\n{text}"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 40))
def test_verdicts_are_larks(seed: int) -> None:
    compare(seed, looks=False)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 40))
def test_verdicts_are_larks_with_lookaround(seed: int) -> None:
    compare(seed, looks=True)


def vocabulary(rng: random.Random, pieces: list[str]) -> Vocabulary:
    tokens: list[bytes | None] = [None, *(bytes([i]) for i in range(256))]
    tokens += ["".join(rng.choices(pieces, k=rng.randint(1, 4))).encode() for _ in range(300)]
    return Vocabulary.from_tokenizer(tokens, eos_token_ids=0, size=len(tokens) + 5)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1 << 40), st.booleans())
def test_masks_are_brute_force(seed: int, looks: bool) -> None:
    rng = random.Random(seed)
    text = grammar(rng, looks)
    loaded = load(text)
    if loaded is None or loaded[1] is None:
        return
    made = Grammar.from_lark(text)
    compiled = made.compile(vocabulary(rng, [*LETTERS, *LETTERS, " ", "\n"]))
    check_walk(made, compiled, rng, steps=3)


PIECES = {
    "sql": ["SELECT", "select", " ", " ", "FROM", "a", "b_1", ",", "(", ")", "'", '"', "=", "<", "AND", "or", "1", "."],
    "json": ["{", "}", "[", "]", '"', ":", ",", "1", "-", ".", "true", "null", "\\", "u", "d8", " "],
    "lisp": ["(", ")", "'", " ", "define", "#t", "1", "-", ".", '"', ",@"],
    "csv": [",", '"', "a", "\n", "\r\n", "é"],
    "iso_datetime": ["2026", "-", "0", "1", "2", "9", "T", ":", "Z", "+", "."],
    "arithmetic": ["1", ".", "e", "+", "-", "^", "(", ")", "x", "f(", ",", " "],
}


@pytest.mark.parametrize("name", sorted(PIECES))
def test_masks_of_the_library_are_brute_force(name: str) -> None:
    rng = random.Random(np.random.default_rng().integers(1 << 30).item())
    made = Grammar.from_lark(library.find(name))
    compiled = made.compile(vocabulary(rng, PIECES[name]))
    assert check_walk(made, compiled, rng, steps=6) > 0

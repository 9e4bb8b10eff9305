"""The matcher against brute force, and its verbs."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from brute import check_walk, legal_tokens
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from reference import Reference, reference_matches

from structgen.errors import GrammarError, GrammarTooComplex
from structgen.grammars import CompiledGrammar, Grammar, Vocabulary, fill_bitmasks, residual
from structgen.grammars.charset import ANY
from structgen.grammars.encoding import JSON_ANY, UTF8
from structgen.grammars.expr import Expr, alt, both, byte_set, literal, neg, rep, seq
from structgen.grammars.machine import Cell, Terminal, Thread
from structgen.grammars.residual import FreshKey, state

EOS = 0


def small_vocabulary(seed: int, extra: int = 600) -> Vocabulary:
    """All bytes, duplicate and byte-less ids, and random pieces of the characters that the grammars here use."""
    rng = random.Random(seed)
    tokens: list[bytes | None] = [None, b'"', b'":1', b'":1,"', b"ab", b"ab", None, b""]
    tokens += [bytes([i]) for i in range(256)]
    alphabet = [b"a", b"b", b"0", b"1", b'"', b"\\", b",", b":", b"{", b"}", b" ", b"u", b"\xc3", b"\xa9", b"\xf0\x9f"]
    tokens += [b"".join(rng.choices(alphabet, k=rng.randrange(1, 7))) for _ in range(extra)]
    return Vocabulary.from_tokenizer(tokens, eos_token_ids=EOS, size=len(tokens) + 37)


@pytest.fixture(scope="module")
def vocab() -> Vocabulary:
    return small_vocabulary(1)


def terminal(expr: Expr) -> Grammar:
    made = state(expr)
    assert made is not None
    return Grammar(Terminal(made))


def compiled(expr: Expr, vocab: Vocabulary) -> CompiledGrammar:
    return terminal(expr).compile(vocab)


AB = byte_set(b"ab")
BODY = rep(JSON_ANY.chars(ANY))
QUOTE = literal(b'"')
TERMINALS = {
    "counted": rep(AB, 2, 5),
    "difference": both(rep(AB), neg(literal(b"abab"))),
    "string": seq(QUOTE, BODY, QUOTE),
    "short string": seq(QUOTE, rep(JSON_ANY.chars(ANY), 2, 9), QUOTE),
    "long counter": seq(rep(AB, 0, 1000), literal(b"0")),
    "large minimum": seq(rep(AB, 700, 1000), literal(b"0")),
    "contradicting counters": both(rep(AB, 6, 6), rep(alt(literal(b"ab"), literal(b"ba")), 3, 700)),
    "words": JSON_ANY.words({"ab": 1, "ab0": 2, "1": 3, "é": 4}, b'"'),
    "words with the empty one": UTF8.words({"ab": 1, "a": 2, "": 3}),
    "ambiguous": seq(literal(b"a"), rep(alt(literal(b"ab"), literal(b"b"), literal(b"a01")), 0, 500), literal(b"b")),
}


@pytest.mark.parametrize("name", TERMINALS)
@pytest.mark.parametrize("seed", range(3))
def test_masks_of_terminals_equal_brute_force(name: str, seed: int) -> None:
    vocab = small_vocabulary(seed)
    grammar = terminal(TERMINALS[name])
    assert check_walk(grammar, grammar.compile(vocab), random.Random(seed), steps=8) > 0


@dataclass(frozen=True)
class Pairs:
    """``{"k":1,"l":1}`` with distinct keys, nested at will in place of 1."""

    seen: frozenset[str]
    phase: str

    @property
    def view(self) -> str:
        return self.phase

    def start(self, cell: Cell) -> tuple[Thread, ...]:
        opened = state(literal(b"{"))
        assert opened is not None
        return (Thread(opened, cell.replace(Pairs(frozenset(), "key"))),)

    def follow(self, cell: Cell, outcome: int, text: bytes | None) -> tuple[Thread, ...]:
        if self.phase == "key":
            key = state(seq(QUOTE, BODY, QUOTE))
            assert key is not None
            return (Thread(FreshKey(key, self.seen, json.loads), cell.replace(Pairs(self.seen, "value"))),)
        if self.phase == "value":
            seen = self.seen if text is None else self.seen | {json.loads(text)}
            colon, nested = state(literal(b":1")), state(literal(b":{"))
            assert colon is not None
            assert nested is not None
            here = cell.replace(Pairs(seen, "next"))
            return (Thread(colon, here), Thread(nested, here.push(Pairs(frozenset(), "key"))))
        if self.phase == "next":
            more, close = state(literal(b",")), state(literal(b"}"))
            assert more is not None
            assert close is not None
            return (
                Thread(more, cell.replace(Pairs(self.seen, "key"))),
                Thread(close, cell.replace(Pairs(self.seen, "end"))),
            )
        return tuple(cell.parent.resume())

    def resume(self, cell: Cell) -> tuple[Thread, ...]:
        return self.follow(cell, 0, None)


class PairsMachine:
    def start(self, bottom: Cell) -> tuple[Thread, ...]:
        return Pairs(frozenset(), "key").start(bottom.push(Pairs(frozenset(), "key")))


@pytest.mark.parametrize("seed", range(6))
def test_masks_under_nesting_and_fresh_keys_equal_brute_force(seed: int) -> None:
    grammar = Grammar(PairsMachine())
    assert check_walk(grammar, grammar.compile(small_vocabulary(seed)), random.Random(seed), steps=25) > 5


def test_a_key_may_not_come_twice_in_any_spelling() -> None:
    grammar = Grammar(PairsMachine())
    assert grammar.matches('{"a":1,"b":1}')
    assert grammar.matches('{"a":{"a":1},"b":1}')
    assert not grammar.matches('{"a":1,"a":1}')
    assert not grammar.matches('{"a":1,"\\u0061":1}')


_leaf = st.sampled_from([literal(b"a"), literal(b"b"), AB, literal(b"ab"), literal(b"0", 3), rep(AB, 1, 3)])
_expr = st.recursive(
    _leaf,
    lambda e: st.one_of(
        st.tuples(e, e).map(lambda p: seq(*p)),
        st.tuples(e, e).map(lambda p: alt(*p)),
        st.tuples(e, e).map(lambda p: both(p[0], neg(p[1]))),
        st.tuples(e, st.integers(0, 3), st.integers(0, 200)).map(lambda p: rep(p[0], p[1], p[1] + p[2])),
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(_expr, st.integers(0, 1000))
def test_random_expressions_equal_brute_force(expr: Expr, seed: int) -> None:
    made = state(expr)
    if made is None:
        return
    grammar = Grammar(Terminal(made))
    check_walk(grammar, grammar.compile(small_vocabulary(seed % 3, 300)), random.Random(seed), steps=5)


@settings(max_examples=100, deadline=None)
@given(_expr, st.text("ab01", max_size=8))
def test_matches_equals_the_reference(expr: Expr, text: str) -> None:
    try:
        made = state(expr)
    except GrammarTooComplex:  # counters in counters under a complement; hypothesis objects if these are many
        reject()
    if made is None:
        return
    assert Grammar(Terminal(made)).matches(text) == reference_matches(Terminal(made), text)


def test_end_tokens_are_legal_exactly_when_the_text_may_end(vocab: Vocabulary) -> None:
    matcher = compiled(seq(literal(b"ab"), rep(literal(b"b"))), vocab).matcher()
    assert not matcher.allows(EOS)
    assert not matcher.accept(EOS)
    assert matcher.accept_text("ab")
    assert matcher.can_end()
    assert matcher.allows(EOS)
    assert not matcher.is_finished
    assert matcher.accept(EOS)
    assert matcher.is_finished
    assert matcher.allowed_tokens().tolist() == [EOS]
    assert not matcher.accept(vocab.tokens.index(b"b"))
    assert not matcher.accept_text("b")


def test_ids_without_bytes_padding_and_duplicates(vocab: Vocabulary) -> None:
    matcher = compiled(rep(AB, 1), vocab).matcher()
    twins = [id for id, data in enumerate(vocab.tokens) if data == b"ab"]
    assert len(twins) >= 2
    assert set(twins) <= set(matcher.allowed_tokens().tolist())
    nothing = [id for id in range(vocab.size) if not vocab.tokens[id]]
    assert vocab.size - 1 in nothing
    for id in [*nothing, -1, vocab.size, vocab.size + 100]:
        assert not matcher.allows(id)
        assert not matcher.accept(id)


def test_rollback_fork_and_verify(vocab: Vocabulary) -> None:
    c = compiled(seq(rep(AB, 4, 4), literal(b"0")), vocab)
    a, b, ab, zero = (vocab.tokens.index(t) for t in (b"a", b"b", b"ab", b"0"))
    matcher = c.matcher()
    assert matcher.verify([a, ab, b, zero, EOS]) == 5
    assert matcher.verify([a, ab, zero]) == 2
    assert matcher.verify([zero]) == 0
    before = matcher.allowed_tokens().tolist()
    assert matcher.accept(a)
    other = matcher.fork()
    assert other.accept(ab)
    assert other.accept(b)
    assert other.allowed_tokens().tolist() != matcher.allowed_tokens().tolist()
    other.rollback(3)
    matcher.rollback(1)
    assert other.allowed_tokens().tolist() == before == matcher.allowed_tokens().tolist()
    with pytest.raises(ValueError, match="fewer were accepted"):
        matcher.rollback(1)


def test_forced_bytes(vocab: Vocabulary) -> None:
    matcher = compiled(seq(literal(b"ab"), alt(literal(b"01"), literal(b"02")), literal(b"b")), vocab).matcher()
    assert matcher.forced_bytes() == b"ab0"
    assert matcher.accept_text("ab01")
    assert matcher.forced_bytes() == b"b"
    assert matcher.accept_text("b")
    assert matcher.forced_bytes() == b""


@pytest.mark.parametrize("dtype", [np.uint32, np.int32])
def test_rows_of_a_batch(vocab: Vocabulary, dtype: type) -> None:
    c = compiled(rep(AB, 1), vocab)
    one, two = c.matcher(), c.matcher()
    assert two.accept_text("a")
    rows = np.full((2, c.words), -1, dtype=np.int64).astype(dtype)
    fill_bitmasks([one, two], rows)
    for matcher, row in zip((one, two), rows, strict=True):
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        assert np.flatnonzero(bits).tolist() == matcher.allowed_tokens().tolist()
    with pytest.raises(GrammarError, match="mask row must be"):
        one.fill_bitmask(np.zeros(c.words + 1, dtype=dtype))
    with pytest.raises(GrammarError, match="mask row must be"):
        one.fill_bitmask(np.zeros(c.words, dtype=np.int64))


def test_torch_rows(vocab: Vocabulary) -> None:
    torch = pytest.importorskip("torch")
    c = compiled(rep(AB, 1), vocab)
    row = torch.zeros(c.words, dtype=torch.int32)
    c.matcher().fill_bitmask(row)
    bits = np.unpackbits(row.numpy().view(np.uint8), bitorder="little")
    assert np.flatnonzero(bits).tolist() == c.matcher().allowed_tokens().tolist()


def test_threads_share_a_compiled_grammar() -> None:
    """Eight threads walk one grammar; their masks equal those of a fresh, single-threaded copy."""
    vocab = small_vocabulary(5)
    shared = Grammar(PairsMachine()).compile(vocab)
    failures: list[str] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        alone = Grammar(PairsMachine()).compile(vocab).matcher()
        matcher = shared.matcher()
        for _ in range(40):
            mask = matcher.allowed_tokens().tolist()
            if mask != alone.allowed_tokens().tolist():
                failures.append(f"seed {seed}")
                return
            choices = [t for t in mask if t != EOS]
            if not choices:
                return
            token = rng.choice(choices)
            matcher.accept(token)
            alone.accept(token)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_tables_restart_when_they_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    from structgen.grammars import matcher as module

    monkeypatch.setattr(module, "MAX_CONFIGS", 12)
    monkeypatch.setattr(module, "MAX_SUMMARIES", 12)
    grammar = Grammar(PairsMachine())
    assert check_walk(grammar, grammar.compile(small_vocabulary(2)), random.Random(2), steps=30) > 5


def test_stores_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """States of a new store have the numbers of old ones; nothing that is remembered may mix them up."""
    pieces = [b'a"', b'b"', b'c"', b'aa"', b'ab"', b'a":', b'b":', b'cc":1']
    vocab = Vocabulary.from_tokenizer([None, *[bytes([i]) for i in range(256)], *pieces], eos_token_ids=0)
    for letter in "abcabc":
        monkeypatch.setattr(residual, "_store", residual.Store())
        schema = {"propertyNames": {"pattern": f"^{letter}"}, "additionalProperties": {"const": 1}, "type": "object"}
        grammar = Grammar.from_json_schema(schema, whitespace="compact", escapes="canonical")
        matcher, state = grammar.compile(vocab).matcher(), Reference(grammar.machine)
        spelled = b'{"%s":1,"' % letter.encode()
        assert matcher.accept_text(spelled)
        assert state.accept(spelled)
        assert set(matcher.allowed_tokens().tolist()) == legal_tokens(state, vocab.tokens), letter


def test_work_of_one_mask_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = Grammar.from_json_schema({"type": "object", "properties": {"a": {"type": "string"}}})
    compiled = grammar.compile(small_vocabulary(0))
    other = compiled.matcher()
    monkeypatch.setattr("structgen.grammars.matcher.MAX_STEP_WORK", 0)
    row = np.zeros(compiled.words, dtype=np.uint32)

    def walk() -> None:
        for byte in b'{"a":"x","':  # somewhere a token ends a terminal and goes on
            other.fill_bitmask(row)
            assert other.accept_text(bytes((byte,)))

    with pytest.raises(GrammarTooComplex, match=r"more than 0 summaries, in _RootFrame.* of the JSON Schema"):
        walk()
    monkeypatch.undo()
    other.fill_bitmask(row)  # nothing was spoilt
    assert row.any()

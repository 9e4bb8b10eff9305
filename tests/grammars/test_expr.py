"""Expressions and encodings, against ``re``, ``json`` and set logic."""

from __future__ import annotations

import json
import random
import re

import pytest
import random_patterns
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from structgen.errors import GrammarTooComplex
from structgen.grammars import regex, residual
from structgen.grammars.bounded import at_most
from structgen.grammars.charset import ANY, CharSet
from structgen.grammars.encoding import JSON_ANY, JSON_CANONICAL, UTF8, utf8_switch
from structgen.grammars.expr import (
    ALL,
    ALL_BYTES,
    EPSILON,
    NEVER,
    Expr,
    alt,
    both,
    byte_set,
    is_empty,
    literal,
    matches,
    neg,
    optional,
    rep,
    seq,
    switch,
)
from structgen.grammars.residual import state

seeds = st.integers(0, 2**32)
NO_SURROGATE = st.characters(exclude_categories=["Cs"])


def expression(rng: random.Random, depth: int) -> tuple[Expr, str]:
    """A random expression over the bytes a, b, c and the same as text for ``re``."""
    if depth == 0 or rng.random() < 0.2:
        text = rng.choice(["a", "b", "ab", "ca", ""])
        if rng.random() < 0.5:
            return literal(text.encode()), text
        some = rng.sample("abc", rng.randint(1, 3))
        return byte_set(map(ord, some)), "[" + "".join(some) + "]"
    parts = [expression(rng, depth - 1) for _ in range(rng.randint(2, 3))]
    kind = rng.randrange(4)
    if kind == 0:
        return seq(*[e for e, _ in parts]), "".join(f"(?:{t})" for _, t in parts)
    if kind == 1:
        return alt(*[e for e, _ in parts]), "|".join(f"(?:{t})" for _, t in parts)
    body, text = parts[0]
    if kind == 2:
        return optional(body), f"(?:{text})?"
    lo, hi = rng.randint(0, 3), rng.choice([None, 3, 4, 6])
    return rep(body, lo, hi), f"(?:{text}){{{lo},{'' if hi is None else hi}}}"


def short_texts(rng: random.Random, count: int) -> list[str]:
    return ["".join(rng.choice("abc") for _ in range(rng.randint(0, 8))) for _ in range(count)]


@given(seeds)
@settings(max_examples=120, deadline=None)
def test_derivatives_agree_with_re(seed: int) -> None:
    rng = random.Random(seed)
    made, pattern = expression(rng, 3)
    compiled = re.compile(pattern)
    for text in short_texts(rng, 20):
        assert matches(made, text.encode()) == bool(compiled.fullmatch(text)), (pattern, text)


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_boolean_operators_are_set_operations(seed: int) -> None:
    rng = random.Random(seed)
    (one, first), (two, second) = expression(rng, 2), expression(rng, 2)
    for text in short_texts(rng, 15):
        data = text.encode()
        in_one, in_two = bool(re.fullmatch(first, text)), bool(re.fullmatch(second, text))
        assert matches(both(one, two), data) == (in_one and in_two)
        assert matches(both(one, neg(two)), data) == (in_one and not in_two)
        assert matches(neg(one), data) == (not in_one)
        assert matches(alt(neg(one), two), data) == (not in_one or in_two)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_a_byte_class_has_one_derivative(seed: int) -> None:
    rng = random.Random(seed)
    source = random_patterns.pattern(rng, 3, anchors=True, looks=True)
    at = _lowered(source, rng.choice([UTF8, JSON_ANY]))
    for _ in range(4):
        covered = 0
        for byte, mask in at.classes():
            assert mask >> byte & 1
            assert not covered & mask
            covered |= mask
            members = [b for b in range(256) if mask >> b & 1]
            for other in rng.sample(members, min(4, len(members))):
                assert at.derive(other) is at.derive(byte)
        assert covered == ALL_BYTES
        at = at.derive(rng.choice(b'ab"\\ \xc3\xe2'))


def _lowered(source: str, encoding: object) -> Expr:
    try:
        re.compile(source)
        return regex.lower(regex.parse(source), encoding)  # type: ignore[arg-type]
    except (re.error, ValueError):
        assume(False)
        raise


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_emptiness_is_found(seed: int) -> None:
    rng = random.Random(seed)
    (one, first), (two, second) = expression(rng, 2), expression(rng, 2)
    difference = both(one, neg(two))
    empty = is_empty(difference)
    assert empty == (state(difference) is None)
    for text in short_texts(rng, 20):
        if empty and re.fullmatch(first, text):
            assert re.fullmatch(second, text)
    assert is_empty(both(one, neg(one)))


@given(seeds, st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_clamping_changes_nothing_within_the_limit(seed: int, limit: int) -> None:
    rng = random.Random(seed)
    body, _ = expression(rng, 2)
    lo = rng.randint(0, 40)
    whole = seq(rep(body, lo, rng.choice([None, lo + rng.randint(0, 40)])), literal(b"c"))
    for text in short_texts(rng, 20):
        one: Expr = whole
        two = whole.clamped(limit)
        for byte in text.encode()[:limit]:
            one, two = one.derive(byte), two.derive(byte)
            assert (one is NEVER) == (two is NEVER)
            assert one.outcomes == two.outcomes


@given(st.integers(0, 9), st.integers(1, 6), seeds)
@settings(max_examples=60, deadline=None)
def test_at_most_is_an_intersection_with_a_length(most: int, limit: int, seed: int) -> None:
    rng = random.Random(seed)
    body = regex.lower(regex.parse(r"a+(?:é?b)*"))
    plain = both(body, rep(UTF8.chars(ANY), 0, most))
    made = at_most(body, most, UTF8, slack=1)
    clamped = made.clamped(limit)
    for _ in range(20):
        data = "".join(rng.choice("aaéb") for _ in range(rng.randint(0, 11))).encode()
        assert matches(made, data) == matches(plain, data)
        at, near = made, clamped
        for byte in data[:limit]:
            at, near = at.derive(byte), near.derive(byte)
            assert (state(at) is None) == (state(near) is None)
            assert at.outcomes == near.outcomes


def test_large_counters_cost_nothing() -> None:
    made = seq(rep(literal(b"ab"), 3, 10**9), literal(b"c"))
    assert matches(made, b"ab" * 500 + b"c")
    assert not matches(made, b"ababc")


def test_long_sequences_do_not_recurse() -> None:
    parts = [alt(byte_set(b"ab"), literal(b"xy"))] * 5000
    made = seq(seq(*parts), literal(b"c"), seq(*parts))
    assert matches(made, b"a" * 5000 + b"c" + b"xy" * 5000)
    assert made.clamped(8).derive(ord("a")) is not NEVER
    many = seq(*[optional(switch([(i % 256, i % 256, EPSILON)])) for i in range(2000)])
    assert matches(many, bytes([1, 5, 255, 0, 7]))


def test_too_many_alternatives_are_refused() -> None:
    with pytest.raises(GrammarTooComplex, match="4096"):
        alt(*[literal(b"%d" % i) for i in range(5000)])


# ------------------------------------------------------------------------------------------------ encodings


@given(st.text(NO_SURROGATE, max_size=6), seeds)
@settings(max_examples=120, deadline=None)
def test_json_spellings_decode_to_the_text(text: str, seed: int) -> None:
    rng = random.Random(seed)
    for encoding in (JSON_ANY, JSON_CANONICAL, UTF8):
        spelled = b"".join(rng.choice(encoding.spellings(char)) for char in text)
        decoded = spelled.decode() if encoding is UTF8 else json.loads(b'"' + spelled + b'"')
        assert decoded == text
        assert matches(encoding.text(text), spelled)
        assert matches(encoding.words({text: 0, text + "x": 0}), spelled)
        assert matches(encoding.any_text, spelled)
        assert matches(rep(encoding.chars(CharSet.of(text))), spelled)
    assert matches(JSON_ANY.text(text), json.dumps(text)[1:-1].encode())
    assert matches(JSON_CANONICAL.text(text), json.dumps(text, ensure_ascii=False)[1:-1].encode())


@given(st.text('ab"\\/u0061dDeE83nt\x00\x1f\x7fé€😀', max_size=12), st.text("a\\u€😀", min_size=1))
@settings(max_examples=150, deadline=None)
def test_json_strings_are_those_that_json_reads(inside: str, some: str) -> None:
    try:
        value = json.loads(f'"{inside}"')
        value.encode()
    except ValueError:
        value = None
    assert matches(JSON_ANY.any_text, inside.encode()) == (value is not None)
    in_set = value is not None and len(value) == 1 and value in some
    assert matches(JSON_ANY.chars(CharSet.of(some)), inside.encode()) == in_set


@given(st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 70000)), max_size=4), seeds)
@settings(max_examples=150, deadline=None)
def test_a_character_set_is_its_characters(ranges: list[tuple[int, int]], seed: int) -> None:
    rng = random.Random(seed)
    chars = CharSet([(lo, min(lo + size, 0x10FFFF)) for lo, size in ranges])
    edges = {c + d for pair in chars.ranges for c in pair for d in (-1, 0, 1)}
    for code in edges | {rng.randrange(0x110000) for _ in range(10)}:
        if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            continue
        inside = any(lo <= code <= lo + size for lo, size in ranges)
        assert (code in chars) == inside
        assert (code in ~chars) != inside
        assert matches(UTF8.chars(chars), chr(code).encode()) == inside
        spelled = json.dumps(chr(code))[1:-1].encode()
        assert matches(JSON_ANY.chars(chars), spelled) == inside
        if spelled.startswith(b"\\u"):
            assert matches(JSON_ANY.chars(chars), spelled.upper().replace(b"\\U", b"\\u")) == inside


@given(st.binary(max_size=5))
@settings(max_examples=150, deadline=None)
def test_any_text_is_valid_utf8(data: bytes) -> None:
    try:
        data.decode()
        valid = True
    except UnicodeDecodeError:
        valid = False
    assert matches(UTF8.any_text, data) == valid


@given(st.lists(st.integers(0, 300), max_size=20), st.lists(st.integers(0, 300), max_size=20))
def test_character_set_algebra(one: list[int], two: list[int]) -> None:
    a, b = CharSet((c, c) for c in one), CharSet((c, c) for c in two)
    assert set(a | b) == set(one) | set(two)
    assert set(a & b) == set(one) & set(two)
    assert set(a - b) == set(one) - set(two)
    assert len(a) == len(set(one))
    assert ~~a == a
    assert bool(a) == bool(one)


def test_surrogates_have_no_spelling() -> None:
    assert utf8_switch(CharSet([(0xD800, 0xDFFF)])) is NEVER
    assert JSON_ANY.chars(CharSet([(0xD800, 0xDFFF)])) is NEVER
    assert not matches(JSON_ANY.any_text, rb"\ud800")
    assert matches(JSON_ANY.any_text, rb"\uD83D\ude00")


def test_equal_expressions_are_one_object() -> None:
    assert seq(literal(b"a"), literal(b"b")) is literal(b"ab")
    assert alt(literal(b"a"), literal(b"b")) is alt(literal(b"b"), literal(b"a"))
    assert neg(neg(literal(b"a"))) is literal(b"a")
    assert both(literal(b"a"), ALL) is literal(b"a")
    assert regex.lower(regex.parse("a(b|c)*")) is regex.lower(regex.parse("a(?:c|b)*?"))


def test_undecided_emptiness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused while a grammar is compiled; in the middle of a text taken for alive, so that nothing legal is lost."""
    store = residual.Store()
    text = rep(byte_set(b"abc"))
    expr = both(seq(text, literal(b"a"), text), neg(seq(text, literal(b"bb"), text)))
    begun = store.state(expr)
    assert begun is not None

    def undecided(self: residual.Store, expr: Expr, fuel: int) -> bool:
        raise GrammarTooComplex("too many states")

    monkeypatch.setattr(residual.Store, "_search", undecided)
    monkeypatch.setattr(residual.Store, "_has_witness", lambda self, expr: False)
    with pytest.raises(GrammarTooComplex):
        residual.Store().state(expr)
    store._alive.clear()
    store._alive_sets.clear()
    after = begun.advance(ord("b"))
    assert after is not None
    assert store.undecided > 0
    with pytest.raises(GrammarTooComplex):
        store.state(both(text, neg(literal(b"ab"))))

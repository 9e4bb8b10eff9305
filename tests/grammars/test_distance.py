"""Shortest completions against breadth-first search over bytes, and walks that they lead to an end."""

from __future__ import annotations

import json
import random
import time
from collections import deque
from typing import Any

import jsonschema_rs
import pytest
from random_patterns import pattern
from random_schemas import schema as random_schema

from structgen.errors import GrammarError
from structgen.grammars import distance, least, library, regex
from structgen.grammars import machine as m
from structgen.grammars.charset import ANY
from structgen.grammars.encoding import JSON_ANY, UTF8
from structgen.grammars.expr import NEVER, Expr, both, literal, matches, neg, rep, tagged
from structgen.grammars.grammar import Grammar
from structgen.grammars.residual import LOCK, Checked, FreshKey, Recorded
from structgen.grammars.vocabulary import Vocabulary


def brute_expr(expr: Expr, fuel: int) -> dict[int, int] | None:
    """Outcome -> length of the shortest string, level by level; None when the fuel ends first."""
    seen, level, found, depth = {expr}, [expr], dict[int, int](), 0
    while level:
        below = []
        for at in level:
            for outcome in at.outcomes:
                found.setdefault(outcome, depth)
            for byte, _ in at.classes():
                fuel -= 1
                after = at.derive(byte)
                if after is not NEVER and after not in seen:
                    seen.add(after)
                    below.append(after)
        level, depth = below, depth + 1
        if fuel < 0:
            return None
    return found


def check_ends(expr: Expr, fuel: int = 500) -> bool:
    """Whether brute force came to an end; raises where it differs."""
    wanted = brute_expr(expr, fuel)
    if wanted is None:
        return False
    found = least.ends(expr)
    assert found == wanted, (expr, found, wanted)
    assert least.bound(expr) <= min(wanted.values(), default=1 << 30)
    for outcome, length in found.items():
        text = least.word(expr, outcome)
        assert len(text) == length
        at = expr
        for byte in text:
            at = at.derive(byte)
        assert outcome in at.outcomes
    return True


def test_expressions():
    rng = random.Random(5)
    compared = 0
    for i in range(160):
        parts: list[Expr] = []
        for _ in range(rng.choice([1, 1, 2, 3])):
            try:
                encoding = JSON_ANY if i % 8 == 0 else UTF8
                parts.append(regex.lower(regex.parse(pattern(rng, 2)), encoding, search=i % 3 == 0))
            except GrammarError:
                continue
        if not parts:
            continue
        expr = both(*parts[:2], *map(neg, parts[2:]))
        if rng.random() < 0.2:
            expr = tagged(parts[0], parts[1:])
        compared += check_ends(expr)
        for byte in b"a0":
            compared += check_ends(expr.derive(byte))
    assert compared > 200


def test_words():
    rng = random.Random(6)
    for _ in range(60):
        texts = {"".join(rng.choices(["a", "b", "l", "é", '"', "\n", "😀"], k=rng.randrange(5))): i for i in range(8)}
        for encoding in (UTF8, JSON_ANY):
            expr = encoding.words(texts, rng.choice([b"", b'"'] if encoding is JSON_ANY else [b""]))
            while expr is not NEVER:
                assert check_ends(expr, 10_000)
                expr = expr.derive(rng.choice([byte for byte, _ in expr.classes()]))


def test_large_counters():
    letters = regex.lower(regex.parse("[a-z]+"), UTF8)
    started = time.perf_counter()
    for expr, length in (
        (rep(literal(b"ab"), 100_000, 200_000), 200_000),
        (both(letters, rep(UTF8.chars(ANY), 70_000)), 70_000),
        (both(letters, rep(UTF8.chars(ANY), 70_000), neg(rep(literal(b"a")))), 70_000),
    ):
        assert least.ends(expr) == {0: length}
        text = least.word(expr, 0)
        assert len(text) == length
    assert time.perf_counter() - started < 2


def byte_choices(threads: tuple[m.Thread, ...]) -> list[int]:
    """One byte of each kind that the threads tell apart; each byte where the text of a terminal matters."""
    masks = {(1 << 256) - 1}
    queue = list(threads)
    while queue:
        thread = queue.pop()
        queue.extend(m.ended(thread))
        residual = thread.residual
        while isinstance(residual, (Checked, FreshKey, Recorded)):
            residual = residual.inner
        classes = [mask for _, mask in residual.expr.classes()]  # type: ignore[attr-defined]
        masks = {a & b for a in masks for b in classes if a & b}
    return [least.nice(mask) for mask in masks]


def brute(threads: tuple[m.Thread, ...], limit: int, fuel: int = 2_500) -> int | None:
    """The length of the shortest completion if it is at most ``limit``; None when the fuel ends first."""
    queue = deque([(threads, 0)])
    seen = {frozenset(threads)}
    while queue:
        at, depth = queue.popleft()
        if m.can_end(at):
            return depth
        if depth == limit:
            continue
        for byte in byte_choices(at):
            fuel -= 1
            after = m.step(at, byte)
            if after and frozenset(after) not in seen:
                seen.add(frozenset(after))
                queue.append((after, depth + 1))
        if fuel < 0:
            return None
    return limit + 1


def random_state(grammar: Grammar, rng: random.Random, steps: int) -> tuple[bytes, tuple[m.Thread, ...]]:
    """After some random legal bytes."""
    threads, data = grammar._start(), b""
    for _ in range(steps):
        choices = byte_choices(threads)
        rng.shuffle(choices)
        for byte in choices:
            after = m.step(threads, byte)
            if after:
                threads, data = after, data + bytes([byte])
                break
        else:
            break
    return data, threads


def check_state(grammar: Grammar, data: bytes, threads: tuple[m.Thread, ...], limit: int = 9) -> bool:
    """Whether it could be compared with brute force; the completion is checked in any case."""
    found = distance.search(threads)
    assert found.way is not None, data
    text = found.way.text()
    assert len(text) == found.way.length >= found.bound
    assert grammar.matches(data + text), (data, text)
    wanted = brute(threads, min(limit, found.way.length - 1))
    if wanted is None:
        return False
    if found.way.exact:
        assert wanted > min(limit, found.way.length - 1), (grammar.schema, data, text, wanted)
    return found.way.exact


def test_random_schemas():
    compared = whole = 0
    for seed in range(260):
        rng = random.Random(seed)
        shape = random_schema(rng, 2)
        try:
            grammar = Grammar.from_json_schema(shape, order=rng.choice(["schema", "any"]), whitespace="compact")
        except GrammarError:
            continue
        with LOCK:
            for steps in (0, 1, 3, 7, 15):
                data, threads = random_state(grammar, rng, steps)
                whole += 1
                compared += check_state(grammar, data, threads, limit=6)
    assert whole > 600
    assert compared > whole / 2


def test_random_regexes():
    compared = 0
    for seed in range(200):
        rng = random.Random(seed)
        try:
            grammar = Grammar.from_regex(pattern(rng, 2))
        except GrammarError:
            continue
        with LOCK:
            for steps in (0, 1, 2, 5):
                data, threads = random_state(grammar, rng, steps)
                compared += check_state(grammar, data, threads)
    assert compared > 300


@pytest.mark.parametrize("name", library.names())
def test_lark_library(name: str):
    grammar = Grammar.from_lark(library.find(name))
    compared = 0
    with LOCK:
        for seed in range(4):
            data, threads = random_state(grammar, random.Random(seed), 3 + 5 * seed)
            compared += check_state(grammar, data, threads, limit=2)
    assert compared


FORTY = {f"key{i}": {"type": "string"} for i in range(40)}


@pytest.mark.parametrize(
    ("shape", "begun", "wanted"),
    [
        ({"properties": FORTY, "required": list(FORTY), "type": "object"}, "", 431),
        ({"properties": FORTY, "required": list(FORTY), "type": "object"}, '{"key3":"a', 422),
        ({"type": "array", "minItems": 5000, "items": {"required": ["a"], "type": "object"}}, "", 5000 * 8 + 1),
        ({"type": "array", "minItems": 5000, "items": {"type": "object"}}, "[{", 4999 * 3 + 2),
        ({"type": "string", "minLength": 100_000}, '"a', 100_000),
        ({"type": "object", "minProperties": 30}, "", None),
        ({"type": "array", "minItems": 20, "uniqueItems": True, "items": {"type": "integer"}}, "", None),
        ({"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "object"}}, "[{}", None),
        ({"not": {"propertyNames": {"not": {"const": "a4d"}}}, "patternProperties": {"\\d+": {"type": "boolean"}},
          "type": "object"}, '{"b":', None),
        (True, "[" * 300, 300),
        ({"$defs": {"n": {"type": "object", "properties": {"k": {"anyOf": [{"$ref": "#/$defs/n"}, {"enum": ["end"]}]}},
          "required": ["k"]}}, "$ref": "#/$defs/n"}, '{"k":{"k":', 7),
        ({"type": "array", "contains": {"required": ["abc", "de"], "type": "object"}, "minContains": 3}, "", 52),
        ({"dependentRequired": {"a": ["b"], "b": ["cc"]}, "type": "object"}, '{"a"', 16),
        ({"type": "object", "patternProperties": {"^x{40}$": {"const": 1}}, "additionalProperties": False,
          "minProperties": 1}, "", 46),
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", ["schema", "any"])
def test_large_demands(shape: Any, begun: str, wanted: int | None, order: str):
    if order == "schema" and begun.startswith('{"key3"'):
        pytest.skip("key3 comes later in this order")
    grammar = Grammar.from_json_schema(shape, order=order)
    with LOCK:
        threads = m.read(grammar._start(), begun.encode())
        started = time.perf_counter()
        way = distance.shortest_completion(threads)
        first = time.perf_counter() - started
        assert way is not None
        started = time.perf_counter()
        again = distance.shortest_completion(threads)
        second = time.perf_counter() - started
    text = begun.encode() + way.text()
    json.loads(text)
    assert len(text) > 20_000 or grammar.matches(text)
    assert first < 3
    if wanted is not None:
        assert (way.exact, way.length) == (True, wanted)
        assert again is not None
        assert again.length == wanted
        assert second < 0.05


SOME_KEY = {"type": "object", "allOf": [
    {"patternProperties": {"^...*a$": {"type": "integer", "multipleOf": 2.5, "minimum": 15}},
     "additionalProperties": False},
    {"anyOf": [{"not": {"patternProperties": {"^cdeb": False}}},
               {"not": {"patternProperties": {"^11": {"not": {"multipleOf": 7}}}}}]},
    {"anyOf": [{"not": {"patternProperties": {"^kwjh": False}}},
               {"not": {"patternProperties": {"7777": {"multipleOf": 30}}}}]},
], "maxProperties": 2, "patternProperties": {"a": {"multipleOf": 10, "not": {"multipleOf": 20}}}}  # fmt: skip
STEPPED = {"type": "object", "required": ["abcd"], "allOf": [
    {"additionalProperties": {"type": "array", "minItems": 2}},
    {"patternProperties": {"a": {"items": {"type": "number", "multipleOf": 2.5, "minimum": 2}}}},
    {"not": {"patternProperties": {"b": {"type": "array", "items": {"multipleOf": 4, "minimum": 2}}}}},
    {"patternProperties": {"c": {"items": {"multipleOf": 7, "minimum": 2}}}},
]}  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "begun"),
    [(SOME_KEY, begun) for begun in ("", "{", '{"ax', '{"xyza":3', '{"hello world, many a":1')]
    + [(STEPPED, begun) for begun in ("", '{"ab', '{"abcd":[35,35],"x', '{"\\u0061bcd":[383', '{"abcd":[35.0')],
)
@pytest.mark.parametrize("order", ["schema", "any"])
def test_keys_of_many_patterns(shape: Any, begun: str, order: str):
    """Which of the patterns a key can match together is found within the budget."""
    grammar = Grammar.from_json_schema(shape, order=order)
    with LOCK:
        way = distance.shortest_completion(m.read(grammar._start(), begun.encode()))
    assert way is not None
    text = begun.encode() + way.text()
    assert grammar.matches(text)
    assert jsonschema_rs.is_valid(shape, json.loads(text))


def test_hundreds_of_required_objects():
    inner = {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "array"}}}
    shape = {"type": "object", "properties": {f"key {i}": inner for i in range(500)}}
    grammar = Grammar.from_json_schema({**shape, "required": list(shape["properties"])})
    with LOCK:
        way = distance.shortest_completion(m.read(grammar._start(), b'{"key \\u003'))
    assert way is not None
    assert grammar.matches(b'{"key \\u003' + way.text())


def test_what_is_undecided_is_none():
    assert distance.search([]).way is None
    grammar = Grammar.from_json_schema({"type": "object", "minProperties": 2000})
    assert distance.search(grammar._start(), fuel=5, more_fuel=5).way is None


SHAPES: list[Any] = [
    True,
    {"type": "object", "required": ["name", "tags"], "properties": {"name": {"type": "string", "format": "date-time"},
     "tags": {"type": "array", "minItems": 2, "uniqueItems": True, "items": {"enum": ["x", "yy", "zzz", 4]}}}},
    {"oneOf": [{"type": "object", "required": ["a"], "properties": {"a": {"minLength": 3, "type": "string"}}},
               {"type": "object", "required": ["b"], "properties": {"b": {"multipleOf": 7, "minimum": 100}}}]},
    {"type": "array", "items": {"type": "object", "minProperties": 2}, "minItems": 2},
    {"not": {"type": ["string", "null"]}, "type": ["string", "array", "integer", "null"]},
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_steered_walks_end(number: int, synthetic_vocabulary: Vocabulary):
    """Random tokens, then the way to the end: strictly closer with each token, and valid."""
    grammar = Grammar.from_json_schema(SHAPES[number], order="any")
    compiled = grammar.compile(synthetic_vocabulary)
    ends = set(synthetic_vocabulary.eos_token_ids)
    for seed in range(12):
        rng = random.Random(seed)
        matcher = compiled.matcher()
        data = b""
        for _ in range(rng.randrange(60)):
            allowed = sorted(set(matcher.allowed_tokens().tolist()) - ends)
            if not allowed:
                break
            token = rng.choice(allowed)
            assert matcher.accept(token)
            data += synthetic_vocabulary.tokens[token] or b""
        steering = distance.Steering(matcher)
        first = matcher.shortest_completion()
        assert first is not None
        written = b""
        while not matcher.is_finished:
            left = matcher.shortest_completion()
            assert left is not None
            assert len(left) + len(written) <= len(first)
            token = steering.next_token()
            assert token is not None
            assert matcher.accept(token)
            written += synthetic_vocabulary.tokens[token] or b""
        assert grammar.matches(data + written)
        json.loads(data + written)


def test_steering_without_the_bytes_of_the_shortest_way():
    """The vocabulary has no "0": another way is taken."""
    tokens: list[bytes | None] = [None, b"[", b"]", b",", b"17", b"5"]
    vocabulary = Vocabulary.from_tokenizer(tokens, eos_token_ids=0)
    grammar = Grammar.from_json_schema({"type": "array", "items": {"type": "integer"}, "minItems": 2})
    matcher = grammar.compile(vocabulary).matcher()
    steering = distance.Steering(matcher)
    text = b""
    while not matcher.is_finished:
        token = steering.next_token()
        assert token is not None
        assert matcher.accept(token)
        text += tokens[token] or b""
    assert grammar.matches(text)
    assert matches(literal(b"[5,5]"), text)

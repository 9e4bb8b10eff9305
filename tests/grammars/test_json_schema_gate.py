"""``on_unsupported="gate"``: what is not written as an automaton is checked when a value closes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from brute import check_walk
from random_schemas import documents, root, spelled

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar
from structgen.grammars import Grammar, Vocabulary
from structgen.grammars.schema import expand

MANY = {"type": "object", "allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(20)]}


def test_too_many_alternatives() -> None:
    with pytest.raises(GrammarTooComplex, match="alternatives"):
        assert Grammar.from_json_schema(MANY).machine
    grammar = Grammar.from_json_schema(MANY, on_unsupported="gate")
    assert len(grammar.report.gated) > 10
    assert all(pointer.startswith("#/allOf/") and pointer.endswith("/anyOf") for pointer in grammar.report.gated)
    value = {f"{'ab'[i % 2]}{i}": i for i in range(20)}
    assert grammar.matches(json.dumps(value))
    del value["b3"]
    assert not grammar.matches(json.dumps(value))


CONTRADICTING = {"patternProperties": {f"^[a-z]*{c}": {"const": i} for i, c in enumerate("abcdefghi")}}
CONTAINING = {"allOf": [{"contains": {"const": i}, "minContains": 3, "maxContains": 9} for i in range(6)]}
CROSSED = {"allOf": [{"anyOf": [{"minLength": i, "pattern": f"a{i}{j}"} for j in range(9)]} for i in range(9)]}


@pytest.mark.parametrize(
    ("limited", "limit"),
    [(CONTRADICTING, "patternProperties"), (CONTAINING, "contains"), (CROSSED, "alternatives"), (MANY, "alternatives")],
    ids=["patterns", "contains", "alternatives", "alternatives of objects"],
)
@pytest.mark.parametrize(
    ("around", "pointer"),
    [
        (lambda s: s, "#"),
        (lambda s: {"type": "object", "properties": {"x": {"items": s}}}, "#/properties/x/items"),
        (lambda s: {"$defs": {"a": s}, "items": {"anyOf": [{"const": 1}, {"$ref": "#/$defs/a"}]}}, "#/"),
    ],
    ids=["root", "below", "referenced"],
)
def test_limits_are_met_before_the_first_text(
    limited: Any, limit: str, around: Callable[[Any], Any], pointer: str
) -> None:
    """What is beyond a limit at some depth is refused when the grammar is made, not in the middle of a text."""
    with pytest.raises(GrammarTooComplex, match=limit) as caught:
        Grammar.from_json_schema(around(limited))
    assert caught.value.pointer is not None
    assert caught.value.pointer.startswith(pointer)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so low that nearly every combinator is gated."""
    monkeypatch.setattr(expand, "MAX_ALTERNATIVES", 1)
    monkeypatch.setattr(expand, "MAX_GATED", 0)


@pytest.mark.usefixtures("few")
def test_verdicts() -> None:
    seed = random.SystemRandom().randrange(1 << 40)
    rng = random.Random(seed)
    gated = accepted = 0
    while gated < 40:
        schema = root(rng)
        try:
            grammar = Grammar.from_json_schema(
                schema, on_unsupported="gate", order="any", whitespace="any", format_assertion=False
            )
        except (UnsatisfiableGrammar, GrammarTooComplex):
            continue
        if not grammar.report.gated:
            continue
        gated += 1
        validator = jsonschema.Draft202012Validator(schema)
        for data in documents(rng, schema):
            valid = validator.is_valid(data)
            accepted += valid
            text = spelled(rng, data)
            assert grammar.matches(text) == valid, (seed, json.dumps(schema), text)
    assert accepted > 30


@pytest.mark.usefixtures("few")
def test_masks(synthetic_vocabulary: Vocabulary) -> None:
    seed = random.SystemRandom().randrange(1 << 40)
    rng, compared = random.Random(seed), 0
    while compared < 25:
        schema: Any = root(rng)
        try:
            grammar = Grammar.from_json_schema(schema, on_unsupported="gate", order=rng.choice(["schema", "any"]))
            if not grammar.report.gated:
                continue
        except GrammarError:
            continue
        try:
            compared += check_walk(grammar, grammar.compile(synthetic_vocabulary), rng, 8)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {json.dumps(schema)}: {error}") from error

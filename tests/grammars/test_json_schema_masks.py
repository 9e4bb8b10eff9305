"""Masks of JSON Schemas against brute force over a vocabulary with every oddity."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from brute import check_walk
from random_schemas import root

from structgen.errors import GrammarError
from structgen.grammars import Grammar, Vocabulary

SCHEMAS: list[Any] = [
    {"type": "object"},
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2, "maxProperties": 3},
    {
        "patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "string"}},
        "type": "object",
        "additionalProperties": False,
    },
    {"patternProperties": {"^(a|ab|a,)$": True}, "additionalProperties": False, "type": "object"},
    {"propertyNames": {"maxLength": 2}, "type": "object", "minProperties": 2},
    {
        "properties": {"a": {"type": "integer"}, "ab": {"type": "string"}},
        "required": ["ab"],
        "dependentRequired": {"a": ["b"]},
        "type": "object",
    },
    {
        "anyOf": [
            {
                "type": "object",
                "properties": {"a": {"const": t}, "b": s},
                "required": ["a"],
                "additionalProperties": False,
            }
            for t, s in (("ab", {"type": "integer"}), ("a", {"type": "string"}), (1, {"type": "array"}))
        ]
    },
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "contains": {"const": "ab"}, "maxContains": 2, "items": {"type": "string"}},
    {"type": "string", "minLength": 1, "maxLength": 3},
    {"type": "number", "minimum": -0.5, "exclusiveMaximum": 120, "multipleOf": 0.5},
]


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: json.dumps(s)[:40])
def test_chosen(schema: Any, order: str, synthetic_vocabulary: Vocabulary) -> None:
    rng = random.Random()
    grammar = Grammar.from_json_schema(schema, order=order, whitespace=rng.choice(["bounded", "any", "pretty"]))
    check_walk(grammar, grammar.compile(synthetic_vocabulary), rng, 12)


def test_random(synthetic_vocabulary: Vocabulary) -> None:
    seed = random.SystemRandom().randrange(1 << 40)
    rng, compared = random.Random(seed), 0
    while compared < 150:
        schema = root(rng)
        try:
            grammar = Grammar.from_json_schema(
                schema, order=rng.choice(["schema", "any"]), whitespace=rng.choice(["bounded", "compact"])
            )
        except GrammarError:
            continue
        try:
            compared += check_walk(grammar, grammar.compile(synthetic_vocabulary), rng, 10)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {json.dumps(schema)}: {error}") from error

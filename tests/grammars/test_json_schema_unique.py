"""Items that must differ: masks of tokens that hold several items, and no dead ends where values run out."""

from __future__ import annotations

import itertools
import json
import random
import re
from typing import Any

import jsonschema
import pytest
from brute import check_walk
from random_schemas import walk

from structgen.grammars import Grammar, Vocabulary
from structgen.grammars import machine as m
from structgen.grammars.json_schema import machine

ITEMS: list[Any] = [
    True,
    {"type": "string"},
    {"type": ["string", "null", "boolean"]},
    {"type": "number"},
    {"type": ["integer", "string"], "minimum": 0, "maximum": 11},
    {"type": "string", "maxLength": 2},
    {"type": "string", "pattern": "^[ab]{1,3}$"},
    {"type": "string", "pattern": "^[a0]"},
    {"type": "string", "format": "date"},
    {"enum": ["a", "ab", "b", 1, 12, None]},
    {"anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "boolean"}}]},
    {"type": ["object", "string"], "additionalProperties": {"type": "null"}},
]
MORE: list[dict[str, Any]] = [{}, {}, {"minItems": 2}, {"maxItems": 3}, {"prefixItems": [{"type": "boolean"}, True]}]


@pytest.fixture(scope="module")
def items_vocabulary() -> Vocabulary:
    """Tokens that begin, hold and end several items."""
    rng = random.Random(1)
    pieces = [*'""ab,,01[]{} .', "null", "true", "0e", '":', "\\u006"]
    tokens = {bytes((byte,)) for byte in range(256)}
    tokens |= {"".join(rng.choices(pieces, k=rng.randrange(2, 8))).encode() for _ in range(500)}
    tokens |= {b'","', b'", "', b'"a","', b'",null,', b'"],["', b"1,1", b'a",0', b'"a","b","', b'"a","a"', b"null,null"}
    ends: list[bytes | None] = [None]
    return Vocabulary.from_tokenizer([*ends, *sorted(tokens)], eos_token_ids=[0], size=len(tokens) + 1)


def schemas() -> list[Any]:
    pairs = zip(ITEMS, itertools.cycle(MORE), strict=False)
    return [{"type": "array", "uniqueItems": True, "items": item, **more} for item, more in pairs]


@pytest.mark.parametrize("schema", schemas(), ids=json.dumps)
def test_masks(schema: Any, items_vocabulary: Vocabulary) -> None:
    rng = random.Random()
    for numbers in ("any", "plain"):
        whitespace = rng.choice(["any", "bounded", "compact"])
        grammar = Grammar.from_json_schema(schema, numbers=numbers, whitespace=whitespace)
        compiled = grammar.compile(items_vocabulary)
        assert check_walk(grammar, compiled, rng, 6) > 0
        for _ in range(3):
            check_walk(grammar, compiled, rng, 4, jump=rng.randrange(3, 12))


@pytest.mark.parametrize("schema", schemas(), ids=json.dumps)
def test_no_dead_ends(schema: Any) -> None:
    rng = random.Random()
    validator = jsonschema.Draft202012Validator(schema)
    for numbers in ("any", "plain"):
        made, _ = machine(schema, whitespace="compact", numbers=numbers)
        for _ in range(12):
            text = walk(rng, made)
            if text is not None and not re.search(r"[0-9.eE+-]{13}|[0-9][eE]", text):
                assert validator.is_valid(json.loads(text)), text


@pytest.mark.parametrize(
    ("items", "begun", "refused", "accepted"),
    [
        ({"maxLength": 1, "type": "string"}, '["a","b","', ["a", "b", "\\u0061"], ["c", '"']),
        ({"type": "number"}, "[0,1,", ["0e", "1]", "0,", "0.0]"], ["0.1", "10]", "-1", "1e1"]),
        ({"type": ["null", "string"]}, '["null",null,', ["n"], ['"n']),
        ({"enum": ["ab", "ac"]}, '["ab","', ["ab"], ["ac"]),
        ({"pattern": "^[ab]{2}$", "type": "string"}, '["aa","ab","', ["a"], ["b"]),
    ],
)
def test_what_runs_out(items: Any, begun: str, refused: list[str], accepted: list[str]) -> None:
    made, _ = machine({"type": "array", "uniqueItems": True, "items": items}, whitespace="compact", numbers="any")
    threads = m.read(m.start(made), begun.encode())
    assert threads
    for text in refused:
        assert not m.read(threads, text.encode()), text
    for text in accepted:
        assert m.read(threads, text.encode()), text


def test_readable_is_read() -> None:
    made, _ = machine({"type": "array", "items": {"enum": ["a", "ab", 1]}}, whitespace="compact")
    threads = m.start(made)
    pieces = ['"', "a", "b", ",", "1", "[", "]"]
    texts = ["".join(each).encode() for n in range(1, 5) for each in itertools.product(pieces, repeat=n)]
    random.Random(2).shuffle(texts)
    found = set(m.readable(threads, texts))
    assert found == {text for text in texts if m.read(threads, text)}
    assert b'["ab' in found

"""A sample of masks against brute force on real vocabularies; ``benchmarks/mask_oracle.py`` is the full product."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from brute import check_walk
from real_tokenizers import NAMES

from structgen.grammars import Grammar, Vocabulary, library

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "n": {"type": "integer", "minimum": -50, "maximum": 5000},
        "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"enum": ["a", "ab", "é"]}, "maxItems": 3},
    },
    "required": ["name"],
    "additionalProperties": {"type": "string", "pattern": "^[a-z]+$"},
}
GRAMMARS: dict[str, Callable[[], Grammar]] = {
    "schema": lambda: Grammar.from_json_schema(SCHEMA, order="any"),
    "regex": lambda: Grammar.from_regex(r"(\w+@\w+\.(com|org)|\d{4}-\d\d-\d\d|[^\n]{3,40}!)"),
    "arithmetic": lambda: Grammar.from_lark(library.find("arithmetic")),
    "sql": lambda: Grammar.from_lark(library.find("sql")),
}


@pytest.mark.parametrize("which", GRAMMARS)
@pytest.mark.parametrize("name", NAMES)
def test_masks_equal_brute_force(name: str, which: str, real_vocabulary: Callable[[str], Vocabulary]) -> None:
    vocab, grammar = real_vocabulary(name), GRAMMARS[which]()
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    try:
        check_walk(grammar, grammar.compile(vocab), rng, steps=1, jump=rng.randrange(8))
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error

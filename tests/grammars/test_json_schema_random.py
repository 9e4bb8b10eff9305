"""Random schemas: verdicts against two validators, and walks that must never get stuck."""

from __future__ import annotations

import json
import os
import random
import re
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from random_schemas import documents, root, spelled, walk

from structgen.errors import GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars import machine as m
from structgen.grammars.json_schema import machine

ROUNDS = int(os.environ.get("STRUCTGEN_RANDOM_ROUNDS", "250"))


def valid(schema: Any, data: Any) -> bool:
    """The verdict of both validators, which must agree."""
    one = jsonschema.Draft202012Validator(schema).is_valid(data)
    two = jsonschema_rs.Draft202012Validator(schema).is_valid(data)
    assert one == two, (schema, data)
    return one


def accepts(made: m.Machine, text: str) -> bool:
    threads = m.read(m.start(made), text.encode())
    return bool(threads) and m.can_end(threads)


def seeds() -> list[int]:
    return [random.SystemRandom().randrange(1 << 40) for _ in range(4)]


@pytest.mark.parametrize("seed", seeds())
def test_verdicts_and_walks(seed: int) -> None:
    rng = random.Random(seed)
    built = refused = finished = 0
    for i in range(ROUNDS):
        schema = root(rng)
        whitespace = rng.choice(["any", "any", "bounded", "compact"])
        order = "any" if i % 2 else "schema"
        where = f"seed {seed}, round {i}, order {order}: {json.dumps(schema)}"
        try:
            made, _ = machine(schema, order=order, whitespace=whitespace)
        except (UnsupportedGrammar, GrammarTooComplex):
            refused += 1
            continue
        except UnsatisfiableGrammar:
            for data in documents(rng, schema, 4):
                assert not valid(schema, data), (where, data)
            continue
        built += 1
        if order == "any":
            blanks = ("",) if whitespace == "compact" else ("", "", " ", "\n  ")
            for data in documents(rng, schema):
                text = spelled(rng, data, blanks)
                assert accepts(made, text) == valid(schema, data), (where, text)
        for _ in range(3):
            text = walk(rng, made)
            # Long numbers and exponents overflow the validators' floats, not ours.
            if text is not None and not re.search(r"[0-9.eE+-]{13}|[0-9][eE]", text):
                finished += 1
                assert valid(schema, json.loads(text)), (where, text)
    assert built > ROUNDS // 2
    assert refused < ROUNDS // 3
    assert finished > ROUNDS // 4

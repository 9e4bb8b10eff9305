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
from random_schemas import documents, in_draft, root, spelled, walk

from structgen.errors import GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars import machine as m
from structgen.grammars.json_schema import machine

ROUNDS = int(os.environ.get("STRUCTGEN_RANDOM_ROUNDS", "250"))


FORMATS = jsonschema.FormatChecker(("date", "ipv4"))
VALIDATORS: dict[str, tuple[Any, Any]] = {
    "4": (jsonschema.Draft4Validator, jsonschema_rs.Draft4Validator),
    "6": (jsonschema.Draft6Validator, jsonschema_rs.Draft6Validator),
    "7": (jsonschema.Draft7Validator, jsonschema_rs.Draft7Validator),
    "2019-09": (jsonschema.Draft201909Validator, jsonschema_rs.Draft201909Validator),
    "2020-12": (jsonschema.Draft202012Validator, jsonschema_rs.Draft202012Validator),
}


def valid(schema: Any, data: Any, draft: str = "2020-12") -> bool | None:
    """The verdict of both validators; None where they differ (jsonschema has faults in unevaluated*, of 2019-09
    most)."""
    two: bool = VALIDATORS[draft][1](schema, validate_formats=True).is_valid(data)
    try:
        one = VALIDATORS[draft][0](schema, format_checker=FORMATS).is_valid(data)
    except TypeError:
        return two
    return one if one == two else None


def accepts(made: m.Machine, text: str) -> bool:
    threads = m.read(m.start(made), text.encode())
    return bool(threads) and m.can_end(threads)


def seeds() -> list[int]:
    return [random.SystemRandom().randrange(1 << 40) for _ in range(4)]


@pytest.mark.parametrize("seed", seeds())
def test_verdicts_and_walks(seed: int) -> None:
    rng = random.Random(seed)
    built = refused = finished = judged = unjudged = 0
    for i in range(ROUNDS):
        draft = rng.choice(["4", "6", "7", "2019-09", "2020-12", "2020-12", "2020-12"])
        plain = root(rng)
        schema = in_draft(plain, draft)
        whitespace = rng.choice(["any", "any", "bounded", "compact"])
        order = "any" if i % 2 else "schema"
        where = f"seed {seed}, round {i}, order {order}: {json.dumps(schema)}"
        try:
            made, _ = machine(
                schema, draft=draft, order=order, whitespace=whitespace, numbers=rng.choice(["any", "plain"])
            )
        except (UnsupportedGrammar, GrammarTooComplex):
            refused += 1
            continue
        except UnsatisfiableGrammar:
            for data in documents(rng, plain, 4):
                assert not valid(schema, data, draft), (where, data)
            continue
        built += 1
        if order == "any":
            blanks = ("",) if whitespace == "compact" else ("", "", " ", "\n  ")
            for data in documents(rng, plain):
                text, wanted = spelled(rng, data, blanks), valid(schema, data, draft)
                judged, unjudged = judged + 1, unjudged + (wanted is None)
                assert wanted is None or accepts(made, text) == wanted, (where, text)
        for _ in range(3):
            text = walk(rng, made)
            # Long numbers and exponents overflow the validators' floats, not ours.
            if text is not None and not re.search(r"[0-9.eE+-]{13}|[0-9][eE]", text):
                finished += 1
                assert valid(schema, json.loads(text), draft) is not False, (where, text)
    assert built > ROUNDS // 2
    assert refused < ROUNDS // 10
    assert finished > ROUNDS // 4
    assert unjudged < judged // 20

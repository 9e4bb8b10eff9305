r"""Patterns of pydantic (Rust's regex crate, or Python's re) as JSON Schema: pydantic's own verdict is the oracle.

JSON Schema reads ``\w``, ``\d`` and ``.`` more narrowly; so whatever the schema takes pydantic must take, and over
ASCII the two must agree.
"""

from __future__ import annotations

import json
import random
import re
from typing import Annotated, Any

import pydantic
import pytest
from pydantic import ConfigDict, Field
from random_schemas import walk

from structgen import Grammar
from structgen.errors import GrammarTooComplex, UnsupportedGrammar
from structgen.grammars.pytypes.dialects import to_ecma
from structgen.grammars.types import schema_of

ALPHABET = [*"abkKAxyz09_ -.@é\t\\]^Ω٣中²ⓐßⅧ", "\u0300", "\ufeff", "\x85", "\x1c", "\u200c", "\u2028"]

RUST = [
    r"^\d{2}$", r"^\D\W\S$", r"^\s.$", r"(?i)^ab$", r"\Aab?\z", r"^(?P<x>a)b$", r"^[[:alpha:]]+$", r"^[^\w]$", r"^\w+$",
    r"^\pL\p{Greek}?$", r"^\P{Lu}$", r"^[a-z&&[^aeiou]]+$", r"^[a-z--[k-z]]+$", r"^[\w--a]$", r"^[a-c[x-z]]+$",
    r"^[[:digit:]_]$", r"(?x) ^ a b # comment", r"^[\w-]+$", r"^[^\s@]+$", r"^[\W_]$", r"^[^\W_]+$", r"^[^\d]$",
    r"^\x{e9}$", r"^\u{e9}$", r"^\x41\t?$", r"^[]a]+$", r"^[\]a^-]+$", r"^a.k$", r"(?s)^a.k$", r"^(?:a|b){1,2}$",
    r"^a*?b$", r"\bk\b", r"^\Bk?", r"^a\z", r"^[\d\s]$", r"^(?:(?:a)b)?$", r"^\p{L}\p{Nd}$", r"^[\x00-\x7f]*$",
    r"(?m)^k$", "ab|k",
]  # fmt: skip
PYTHON = [
    r"^\d{2}$", r"^\D\W\S$", r"^(?P<x>a)b$", r"\Aab?\Z", r"^(?=a).b", r"^(?!a).$", r"^(?!\w)[\s\S]$", r"^(?!\d)\w+$",
    r"a(?!b)", r"(?<=a)b", r"(?<!\w)k", r"^[\W_]$", r"^[^\W\d]$", r"^\u00e9$", r"^[\ba]$", r"^\101$", r"(?#comment)^a$",
    r"^.$", r"b$", r"\bk", r"^(?i:A)$", r"^(?!.*k$)a.*$", r"(?a)^\W$", r"(?a)^\s$", r"(?a)^[\w\s]$", r"(?x)^ a [ ] b $",
]  # fmt: skip


@pytest.mark.parametrize(("engine", "pattern"), [*(("rust", p) for p in RUST), *(("python", p) for p in PYTHON)])
def test_patterns(engine: str, pattern: str) -> None:
    seed = random.SystemRandom().randrange(1 << 40)
    rng = random.Random(seed)
    target: Any = Annotated[str, Field(pattern=pattern if engine == "rust" else re.compile(pattern))]
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(target)
    try:
        grammar = Grammar.from_type(target)
    except UnsupportedGrammar:
        assert "(?i:" in pattern
        return
    ours = schema_of(target)["pattern"]

    def wanted(text: str) -> bool:
        try:
            adapter.validate_python(text)
        except pydantic.ValidationError:
            return False
        return True

    for _ in range(60):
        characters = ALPHABET if rng.random() < 0.5 else "abk0_ -"
        text = "".join(rng.choice(characters) for _ in range(rng.randrange(4)))
        got = grammar.matches(json.dumps(text, ensure_ascii=False))
        where = f"seed {seed}: {pattern!r} as {ours!r} on {text!r}"
        assert wanted(text) or not got, where
        if text.isascii() and "\x1c" not in text:
            assert got == wanted(text), where
    for _ in range(3):
        try:
            member = walk(rng, grammar.machine, 40)
        except GrammarTooComplex:
            break
        if member is not None:
            assert wanted(json.loads(member)), f"seed {seed}: {pattern!r} as {ours!r} has {member}"


def test_flags_of_a_compiled_pattern() -> None:
    for flags, good, bad in [
        (re.IGNORECASE, "AB", "A"),
        (re.VERBOSE, "ab", "a b"),
        (re.DOTALL, "ab", "a"),
        (re.ASCII, "ab", "é"),
    ]:
        target = Annotated[str, Field(pattern=re.compile("^a b$" if flags == re.VERBOSE else "^ab$", flags))]
        grammar = Grammar.from_type(target)
        assert grammar.matches(json.dumps(good))
        assert not grammar.matches(json.dumps(bad))


def test_the_engine_is_a_setting() -> None:
    class Python(pydantic.BaseModel):
        model_config = ConfigDict(regex_engine="python-re")
        a: Annotated[str, Field(pattern=r"^(?!x)a\Z")]

    grammar = Grammar.from_type(Python)
    assert grammar.matches('{"a": "a"}')
    assert not grammar.matches('{"a": "xa"}')


@pytest.mark.parametrize(
    ("pattern", "engine"),
    [
        (r"\b{start}a", "rust"), (r"\<a", "rust"), ("(?i)[a-z&&[^a]]", "rust"), ("a(?i)b", "rust"), ("(?-u:a)", "rust"),
        (r"(?i)\P{Lu}", "rust"), (r"\p{Nonsense}", "rust"), ("(?>a)b", "python"), ("(a)?(?(1)b|c)", "python"),
    ],
)  # fmt: skip
def test_what_has_no_form_is_refused(pattern: str, engine: Any) -> None:
    with pytest.raises(UnsupportedGrammar, match="at character"):
        to_ecma(pattern, engine)

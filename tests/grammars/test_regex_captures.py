"""Backreferences, conditionals and atomic groups against ``re``; random pairs (``STRUCTGEN_ALL=1``: 50,000)."""

from __future__ import annotations

import os
import random
import re
import sys
import time
import warnings

import pytest
import random_patterns

from structgen.errors import GrammarError, GrammarTooComplex, UnsupportedGrammar
from structgen.grammars import regex
from structgen.grammars.expr import Expr, matches

PAIRS = 50_000 if os.environ.get("STRUCTGEN_ALL") else 6_000


def python(source: str, flags: int = 0) -> Expr:
    return regex.lower(regex.parse(source, flags, ordered=False))


@pytest.mark.parametrize("captures", [False, True])
def test_random_pairs_agree_with_re(captures: bool) -> None:
    """Patterns with everything in them, texts along their paths and beside them."""
    rng = random.Random()
    pairs = matched = patterns = refused = 0
    while pairs < PAIRS // 2:
        source = random_patterns.pattern(
            rng, rng.randint(1, 4), anchors=True, looks=True, captures=[0] if captures else None
        )
        flags = rng.choice([0, 0, re.I, re.S, re.I | re.A])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                oracle = re.compile(source, flags)
        except re.error:
            continue
        patterns += 1
        try:
            made = python(source, flags)
        except UnsupportedGrammar:
            refused += 1
            continue
        for _ in range(12):
            text = random_patterns.near(rng, source) if rng.random() < 0.7 else random_patterns.text(rng)
            expected = random_patterns.patient(lambda: bool(oracle.fullmatch(text)))  # noqa: B023
            if expected is None:
                break
            pairs, matched = pairs + 1, matched + expected
            assert matches(made, text.encode()) == expected, (source, flags, text)
    assert matched > pairs / 5
    assert refused < patterns / 25


SOURCES = [
    r"(a|b)x\1", r"(['\"])(?:(?!\1).)*\1", r"(?P<q>a|ab)(?P=q)c", r"(a)?b(?(1)c|d)", r"(<)?a(?(1)>)",
    r"(?:(a|b)\1)*c", r"(a|b)+x\1", r"(?:(a)|b)*x\1", r"(?:(a)|b)+(?(1)x|y)", r"(a|ab)(c|bcd)\2\1", r"((a|b)\2)\1",
    r"(a|)*x\1y", r"(?i)(k|ſ)\1", r"(?i:(a|b))\1", r"(a|b)(?i:\1)", r"(?=(a|ab))\1c", r"(?=(a+))\1b", r"(?!(a)\1)a*",
    r"(?>(a|ab))\1", r"(a)(b\1)\2", r"(a?)\1b\1", r"(a)|\1b", r"(a){2,3}\1", r"(a|b){1,2}(?<=\1)c",
    r"(?:(a)(?=.*\1))+a", r"(.)?(?(1)a|b)", r"(\d{4})(-)?(\d\d)(?(2)-)(\d\d)", r"(a*)?(?(1)b|c)", r"(ab|cd)(?:x\1)+",
    r"(a(?=b)|b)\1", r"(^a|b)\1", r"(a\b|b)x?\1", r"((?(1)a|b))c", r"(?:(?(1)a|(b)))?c", r"(?(1)a|b)(c)?",
    r"(a|b)??x(?(1)\1|c)",
]  # fmt: skip
ATOMIC = [
    "(?>(?:a|ab)*)c", "(?>a*?)b", "(?>a??b?)b", "(?>(?:ab?)+)b", "(?>(?:a|b)*?c)c", "(?>a{1,3}b?)b", "(?:a|ab){2}+c",
    "(?:a|ab)++c", "(?:a*b)*+a", "(?>(?>a|ab)c|abd)", "(?>(?:a|ab)(?:c|bcd))d", "(?>.*?,){2}b", "(?>(a|ab)?)b",
    "(?:a?b??)?+b", "(?<=(?>a|b))b", "(?>(?=a)ab|a)b", "(?>a{2,4}?)a", "(?:ab?){1,3}+b", "a(?>bc|b)c",
    "(?>(?:a|b|ab){1,3})c", "(?>\\b|a)a",
]  # fmt: skip
ALPHABET = ["a", "b", "c", "x", "'", '"', "k", "s", "K", "\u212a", "-", "1", "1234", "<", ">", ","]


@pytest.mark.parametrize("source", SOURCES if sys.version_info < (3, 11) else SOURCES + ATOMIC)
def test_agrees_with_re(source: str) -> None:
    rng = random.Random()
    made, oracle = python(source), re.compile(source)
    few = [c for c in ALPHABET if c in source.lower()] + ["a", "b", rng.choice(ALPHABET)]
    for _ in range(150):
        near = rng.random() < 0.5
        text = random_patterns.near(rng, source) if near else "".join(rng.choices(few, k=rng.randint(0, 7)))
        assert matches(made, text.encode()) == bool(oracle.fullmatch(text)), (source, text)


@pytest.mark.parametrize(
    ("source", "column", "says"),
    [
        (r"x(\w+)\s\1", 9, r"group 1 \(column 2\) can match texts without end"),
        (r"(\w)\1", 5, "more than 1,000 different texts"),
        (r"(a{0,2000})\1", 12, "different texts"),
        (r"(a{9000})\1", 10, "more than 5,000 characters"),
        (r"(?P<n>a*)(?P=n)", 10, "without end"),
        (r"((?(1)a|b))*c", 2, "in one turn of a repeat and set in an earlier one"),
        (r"(?:(a|b)|\1c)*", 10, "in one turn of a repeat and set in an earlier one"),
        (r"(?:(a)|b){3}\1", 13, "in some turns only"),
        (r"(?=.*(a|b))\1", 12, "order of matching"),
    ],
)
def test_refusals_give_the_reason(source: str, column: int, says: str) -> None:
    with pytest.raises(UnsupportedGrammar, match=says) as caught:
        regex.parse(source, ordered=False)
    assert (caught.value.line, caught.value.column) == (1, column)


def test_lexers_keep_the_order_of_paths() -> None:
    tree = regex.parse(r"(?P<q>ab|a)x(?P=q)")
    assert isinstance(tree, regex.Alternate)
    assert [regex.literal_text(item) for item in tree.items] == ["abxab", "axa"]
    with pytest.raises(UnsupportedGrammar, match="order of matching counts"):
        regex.parse(r"(?:(?P<q>a|b)c*|(?P<r>c))*?(?P=q)")
    with pytest.raises(UnsupportedGrammar, match="by number"):
        regex.parse(r"(a)\1")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="atomic groups are new in Python 3.11")
def test_what_is_refused_of_atomic_groups() -> None:
    for source in ("(?>(?:|a)*?)b", "(?>(?:a|ab){1,40})c", "(?>(?:(?:a|ab){1,30}c?){1,30})d"):
        with pytest.raises((UnsupportedGrammar, GrammarTooComplex)):
            regex.parse(source)


def test_expansions_are_bounded() -> None:
    began = time.process_time()
    words = "|".join(f"w{i}" for i in range(900))
    made = python(rf"({words})=\1")
    assert matches(made, b"w17=w17")
    assert not matches(made, b"w17=w18")
    for source in (r"([ab]{9})" * 12 + "".join(rf"\{i}" for i in range(1, 13)), rf"({words})({words})(\1\2)\3"):
        with pytest.raises(GrammarError):
            python(source)
    assert time.process_time() - began < 10

"""How many texts a language has: the quick answers against an enumeration."""

from __future__ import annotations

import itertools
import random

import pytest

from structgen.grammars import formats, regex
from structgen.grammars.charset import ANY
from structgen.grammars.encoding import JSON_ANY
from structgen.grammars.expr import Expr, both, matches, neg, rep
from structgen.grammars.schema import languages

ALPHABET = 'a1" '
PATTERNS = (
    "^$", "^a$", "^a?$", "^[a1]$", "^[a1 ]{2}$", "^[a1]{0,3}$", "^(a|a1){1,2}$", "^a{2,4}$", "^(a|1)(1|a1)$", '^"?a$',
    '^[" ]{1,2}$', "^a{1,2}[1 ]?$", "^(aa|a)(1)?$",
)  # fmt: skip


def lowered(pattern: str) -> Expr:
    return regex.lower(regex.parse(pattern, dialect="ecma"), JSON_ANY, search=True)


def spelled(text: str) -> bytes:
    return text.replace('"', '\\"').encode()


def texts(expr: Expr) -> set[str]:
    every = ("".join(chars) for n in range(5) for chars in itertools.product(ALPHABET, repeat=n))
    return {text for text in every if matches(expr, spelled(text))}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_more_than_there_are(pattern: str) -> None:
    expr = lowered(pattern)
    assert languages.raw(expr) <= len(texts(expr)) == languages.distinct(expr, 1_000)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("wanted", [1, 2, 3, 5, 9])
def test_enough(pattern: str, wanted: int) -> None:
    expr = lowered(pattern)
    assert languages.holds(expr, wanted) is (len(texts(expr)) >= wanted)
    assert min(languages._found(expr, wanted), wanted) <= len(texts(expr))


def test_enough_of_a_format() -> None:
    assert languages._found(formats.expr("email", JSON_ANY), 20) == 20


@pytest.mark.parametrize("pattern", PATTERNS)
def test_without_words(pattern: str) -> None:
    rng = random.Random(pattern)
    expr = lowered(pattern)
    words = rng.sample(["", "a", "a1", "1", "aa", '"', " "], 3)
    left = both(expr, neg(JSON_ANY.words(dict.fromkeys(words, 0))))
    assert languages.raw(left) <= len(texts(expr) - set(words)) == languages.distinct(left, 1_000)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_with_lengths(pattern: str) -> None:
    expr = lowered(pattern)
    for lo in range(4):
        for hi in range(lo, 5):
            bounded = both(expr, rep(JSON_ANY.chars(ANY), lo, hi))
            known = {text for text in texts(expr) if lo <= len(text) <= hi}
            assert languages.raw(bounded) <= len(known) == languages.distinct(bounded, 1_000)
            assert languages.sized(expr, lo, hi) <= len(known)


def test_lengths_at_a_glance() -> None:
    name = lowered("^[a-zA-Z0-9](-?[a-zA-Z0-9])*$")
    assert languages.raw(both(name, rep(JSON_ANY.chars(ANY), 0, 39))) == languages.MANY
    assert languages.raw(both(lowered("a"), rep(JSON_ANY.chars(ANY), 1, 10))) == languages.MANY


@pytest.mark.parametrize(
    ("pattern", "least"),
    [("^[ab]{30}$", languages.MANY), ("^[a-z]{2}$", 676), ("^[ab]*$", languages.MANY), ("^(x|y{3,9})$", 7)],
)
def test_told_at_a_glance(pattern: str, least: int) -> None:
    assert languages.raw(lowered(pattern)) >= least


@pytest.mark.parametrize("pattern", PATTERNS)
def test_spare(pattern: str) -> None:
    """Whatever begins a spare text must go on to one that is not taken."""
    expr = lowered(pattern)
    known = texts(expr)
    for text in sorted(known):
        for others in (0, 1, 3):
            if languages.is_spare(expr, text, others):
                for n in range(len(text) + 1):
                    assert len([each for each in known if each.startswith(text[:n])]) > others + 1


def test_spare_where_there_are_enough() -> None:
    body = lowered("^[a-z]{1,255}$")
    assert languages.is_spare(body, "temperature", 100)
    assert not languages.is_spare(body, "a" * 255, 0)
    assert not languages.is_spare(lowered("^\\d{4}$"), "1234", 0)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("", True), ("^[ab]*$", True), ("^a{1,255}$", False), ("^(a|b+)$", False), ("^a+b?$", False), ("^a+b*$", True)],
)
def test_endless(pattern: str, expected: bool) -> None:
    assert languages.endless(lowered(pattern)) is expected

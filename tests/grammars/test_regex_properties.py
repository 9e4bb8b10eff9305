r"""``\p{...}`` in the Python dialect against the ``regex`` package, whose syntax it is."""

from __future__ import annotations

import random
import re
import unicodedata

import pytest

from structgen.errors import UnsupportedGrammar
from structgen.grammars import properties, regex
from structgen.grammars.charset import CharSet
from structgen.grammars.expr import matches

oracle = pytest.importorskip("regex")
EVERY = "".join(map(chr, range(0x110000)))


def same_release() -> bool:
    from importlib.metadata import metadata

    return f"supports Unicode {properties.version()}." in str(metadata("regex").get_payload())


NAMES = [
    "Lu", "uppercase letter", "L", "L&", "LC", "Nd", "digit", "punct", "Cn", "Assigned", "C", "Any", "ASCII", "Greek",
    "IsGreek", "InGreek", "InBasicLatin", "Han", "Zyyy", "Unknown", "Alphabetic", "alpha", "IsAlphabetic",
    "White_Space", "XIDS", "Uppercase", "lower", "Emoji", "Ideographic", "alnum", "sc=Latin", "Script: Cyrillic",
    "scx=Deva", "scx=Zyyy", "gc=Lu", "General_Category=Symbol", "Block=Arrows", "blk=No_Block", "Uppercase=No",
    "Alphabetic=T", "^Lu", "^Greek",
]  # fmt: skip


@pytest.mark.skipif(not same_release(), reason="the table and the regex package follow other Unicode releases")
@pytest.mark.parametrize("name", NAMES)
def test_sets_are_those_of_regex(name: str) -> None:
    for flags in (0, re.I):
        spans = [(m.start(), m.end() - 1) for m in oracle.finditer(rf"\p{{{name}}}+", EVERY, oracle.I if flags else 0)]
        tree = regex.parse(rf"\p{{{name}}}", flags)
        assert isinstance(tree, regex.Chars)
        assert tree.chars == CharSet(spans), (name, flags)


def test_every_name_of_the_table_is_found() -> None:
    for kind, name in properties._read()[1]:
        prefix = "" if kind == "binary" else kind
        assert properties.find(prefix or name, name if prefix else None) is not None


PIECES = [
    r"\p{Lu}", r"\p{Ll}+", r"\P{L}", r"[\p{N}_]", r"[^\p{Lu}\d]", r"\pL", r"\PN?", r"\p{Greek}*", r"[\P{Greek}]", "a",
    r"(?i:\p{Lu})", r"(?a:\p{L})", r"(?a:\P{L})", r"\p{^Lu}", r"(\p{Lu})?", r"(?<=\p{L})", r"(?!\p{Nd})", r"\\p",
    "(?x: \\p{Ll} # \\p{nothing}\n )",
]  # fmt: skip
TEXT = "aAéÉłŁσΣςΩ1٣_ -ǅ\\p"


def test_patterns_agree_with_regex() -> None:
    rng = random.Random()
    for _ in range(300):
        source = "".join(rng.choices(PIECES, k=rng.randint(1, 4)))
        made, wanted = regex.lower(regex.parse(source, ordered=False)), oracle.compile(source)
        for _ in range(12):
            text = "".join(rng.choices(TEXT, k=rng.randint(0, 4)))
            assert matches(made, text.encode()) == bool(wanted.fullmatch(text)), (source, text)


def test_categories_agree_with_the_running_python() -> None:
    """For characters that its release knows, save the few whose category was corrected since."""
    for name in ("Lu", "Ll", "Nd", "Po", "Zs", "Sc"):
        mine = properties.find(name)
        known = [c for c in range(0x3000) if unicodedata.category(chr(c)) != "Cn"]
        assert sum((unicodedata.category(chr(c)) == name) != (c in mine) for c in known) <= 2, name


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (r"\p{Grek }\p{Greec}", "'Greec'.*similar: .*GREEK"),
        (r"\p{Letterr}", "similar: LETTER"),
        (r"\p{Script=Latn1}", "'Script=Latn1'.*SCRIPT=LATN"),
        (r"\p{Alphabetic=Maybe}", "Alphabetic=Maybe"),
        (r"[\p{}]", "no Unicode property ''"),
    ],
)
def test_unknown_names_are_refused_with_similar_ones(source: str, says: str) -> None:
    with pytest.raises(UnsupportedGrammar, match=says):
        regex.parse(source)

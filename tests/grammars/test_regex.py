"""Regular expressions against ``re``, and what is refused."""

from __future__ import annotations

import json
import random
import re
import sys
import time
from pathlib import Path

import pytest
import random_patterns
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference import reference_matches

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars import choices, regex, unicode
from structgen.grammars.charset import CharSet
from structgen.grammars.encoding import JSON_ANY
from structgen.grammars.expr import Expr, matches

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases" / "cases.jsonl"
seeds = st.integers(0, 2**32)


def compiled(source: str, flags: int = 0) -> re.Pattern[str]:
    try:
        return re.compile(source, flags)
    except re.error:
        assume(False)
        raise


def python(source: str, flags: int = 0, *, search: bool = False) -> Expr:
    return regex.lower(regex.parse(source, flags, ordered=False), search=search)


def ecma(source: str) -> Expr:
    return regex.lower(regex.parse(source, dialect="ecma"), search=True)


def finds(oracle: re.Pattern[str], text: str) -> bool:
    r"""``oracle.search``, tried at every place: CPython's own scan for a first character reads ``(?a:\W)``
    at the front of a pattern without its flag, and overlooks matches."""
    return any(oracle.match(text, at) for at in range(len(text) + 1))


@pytest.mark.parametrize("search", [False, True])
@pytest.mark.parametrize(("anchors", "looks"), [(False, False), (True, False), (True, True)])
@given(seed=seeds)
@settings(max_examples=80, deadline=None)
def test_agrees_with_re(seed: int, anchors: bool, looks: bool, search: bool) -> None:
    rng = random.Random(seed)
    source = random_patterns.pattern(rng, rng.randint(1, 4), anchors=anchors, looks=looks)
    flags = rng.choice([0, 0, re.I, re.S, re.M, re.I | re.A])
    oracle = compiled(source, flags)
    try:
        made = python(source, flags, search=search)
    except UnsupportedGrammar:
        assert "(?>" in source or "+" in source
        return
    for _ in range(12):
        text = random_patterns.text(rng)
        expected = random_patterns.patient(lambda: finds(oracle, text) if search else bool(oracle.fullmatch(text)))  # noqa: B023
        if expected is None:
            break
        assert matches(made, text.encode()) == expected, (source, flags, text)


@given(seed=seeds)
@settings(max_examples=80, deadline=None)
def test_json_strings_hold_the_same_language(seed: int) -> None:
    rng = random.Random(seed)
    source = random_patterns.pattern(rng, 3, anchors=True, looks=True)
    oracle = compiled(source)
    try:
        made = regex.lower(regex.parse(source), JSON_ANY)
    except UnsupportedGrammar:
        return
    for _ in range(8):
        text = random_patterns.text(rng)
        spelled = b"".join(rng.choice(JSON_ANY.spellings(char)) for char in text)
        assert matches(made, spelled) == bool(oracle.fullmatch(text)), (source, spelled)


@given(st.characters(exclude_categories=["Cs"]), seeds)
@settings(max_examples=80, deadline=None)
def test_one_character_classes(char: str, seed: int) -> None:
    rng = random.Random(seed)
    other = chr(rng.choice([ord(char) ^ 32, ord(char) + 1, *range(0x20, 0x180)]) % 0xD800)
    lo, hi = sorted([re.escape(char), re.escape(other)], key=lambda c: ord(c[-1]))
    other = re.escape(other)
    for source in (re.escape(char), f"[{lo}-{hi}]", f"[^{other}]", f"[^\\W{other}]", r"\w", r"\s"):
        for flags in (0, re.I, re.A, re.I | re.A):
            made = python(source, flags)
            for text in {char, other[-1], char.lower()[0], char.upper()[0], "K", "\u212a", "ſ", "s", "İ", "i", "ı"}:
                assert matches(made, text.encode()) == bool(re.fullmatch(source, text, flags)), (source, flags, text)


def test_unicode_tables_are_those_of_re() -> None:
    every = "".join(map(chr, range(0x110000)))
    for name, source in (("digit", r"\d+"), ("space", r"\s+"), ("word", r"\w+")):
        spans = [(m.start(), m.end() - 1) for m in re.finditer(source, every)]
        assert unicode.category(name) == CharSet(spans)
    cased = {c for c in every if c.lower() != c or c.upper() != c}
    assert max(map(ord, cased)) < 0x20000, "unicode.py looks for cased characters below"
    for char in random.sample(sorted(cased), 150):
        likes = {c for c in cased if {c.lower(), c.upper()} & {char.lower(), char.upper()}} | {char}
        found = unicode.ignore_case(CharSet.of(char), False)
        for like in likes:
            assert (ord(like) in found) == bool(re.fullmatch(re.escape(char), like, re.I)), (char, like)


ANCHORED = [
    ("^a|b$", ["a", "b"], ["c", "ab"]),
    ("(^a|^b)c", ["ac", "bc"], ["c"]),
    ("a^b|cd", ["cd"], ["ab", "a^b"]),
    ("(^|x)y", ["y", "xy"], ["xxy"]),
    ("(?:^a)*b", ["b", "ab"], ["aab"]),
    ("ab$", ["ab"], ["ab\n"]),
    ("ab$\n", ["ab\n"], ["ab"]),
    (r"ab\Z\n?", ["ab"], ["ab\n"]),
    ("(?m)a$\n^b", ["a\nb"], ["ab"]),
    ("(?:^$){2}", [""], ["a"]),
    ("(?!stop)[a-z]+", ["go", "sto"], ["stop", "stopper"]),
    (r"(?:(?!END).)*END", ["fooEND", "END"], ["fooENDEND"]),
    (r'"(?:[^"\\\n]|\\.)*?(?<!\\)(?:\\\\)*?"', ['"a"', r'"a\"b"', '""', r'"\\"'], ['"a', r'"a\""b', "a"]),
    (r"\bfoo\b(?= bar).*", ["foo bar"], ["foobar", "foo"]),
]


@pytest.mark.parametrize(("source", "accepted", "rejected"), ANCHORED)
def test_anchors_and_lookaround(source: str, accepted: list[str], rejected: list[str]) -> None:
    machine = regex.machine(source)
    for text in accepted + rejected:
        assert reference_matches(machine, text) == bool(re.fullmatch(source, text))
    assert all(reference_matches(machine, text) for text in accepted)
    assert not any(reference_matches(machine, text) for text in rejected)


ECMA = [
    (r"^\d{3}$", ["123"], ["1234", "123\n", "١٢٣"]),
    (r"^\w+$", ["aZ_9"], ["é"]),
    (r"^\s$", ["\ufeff", "\u00a0", " "], ["\x1c", "a"]),
    (r"^.$", ["a", "\x85", "😀"], ["\n", "\r", "\u2028"]),
    (r"^[^]$", ["\n", "a"], [""]),
    (r"[]|b", ["b"], ["", "a"]),
    (r"^a\/b\-c$", ["a/b-c"], ["ab"]),
    (r"^\cA\x41\u0042\u{43}\0$", ["\x01ABC\0"], ["ABC"]),
    (r"^[\w-]+$", ["a-b"], ["a b"]),
    (r"^[\W\d]$", ["-", "1", "é"], ["a"]),
    (r"^[a\]\\^-]+$", ["]a\\^-"], ["b"]),
    (r"^[\b]$", ["\b"], ["b"]),
    (r"^(?<year>\d{4})$", ["2024"], ["24"]),
    (r"^\p{Lu}\p{Ll}+\P{L}?$", ["Éa", "Łódź!"], ["ab", "A", "Ab1x"]),
    (r"^\ud83d\ude00$", ["😀"], ["?"]),
    (r"^{,2}x{$", ["{,2}x{"], ["xx"]),
    (r"\bfoo\b", ["a foo b", "éfoo"], ["foob"]),
    (r"(?<=a+)b", ["xaab"], ["b"]),
    (r"(?i)^ab$", ["AB"], ["abc"]),
    (r"^(?P<x>a)(?i:b)$", ["aB"], ["Ab"]),
    (r"^(?=.*\d)(?=.*[a-z]).{4,}$", ["ab12"], ["abcd", "a1"]),
    (r"^[&&||~~[-]$", ["&", "|", "-", "[", "~"], ["a"]),
]


@pytest.mark.parametrize(("source", "accepted", "rejected"), ECMA)
def test_ecma_dialect(source: str, accepted: list[str], rejected: list[str]) -> None:
    made = ecma(source)
    for text in accepted:
        assert matches(made, text.encode()), text
    for text in rejected:
        assert not matches(made, text.encode()), text


@given(seed=seeds)
@settings(max_examples=80, deadline=None)
def test_ecma_means_what_python_means_where_they_agree(seed: int) -> None:
    rng = random.Random(seed)
    parts = ["a", "b+", "[a-c]", "[^a]", "(?:ab|c)*", "^", "(?=a)", "(?!b)", "a{1,2}?", r"\x41", "(?<!a)", "[a-]", "x?"]
    source = "".join(rng.choice(parts) for _ in range(rng.randint(1, 6)))
    oracle = compiled(source)
    for _ in range(10):
        text = random_patterns.text(rng)
        assert matches(ecma(source), text.encode()) == bool(oracle.search(text)), (source, text)


@pytest.mark.parametrize(
    ("source", "dialect", "kind", "column", "says"),
    [
        (r"([a-d])=\1", "python", UnsupportedGrammar, 9, "by number"),
        (r"(<)?a(?(1)>|;)", "python", UnsupportedGrammar, 6, "by number"),
        (r"[a\p{Lo}]\p{Lower_Letter}", "python", UnsupportedGrammar, 10, "similar: LOWERCASELETTER"),
        (r"[\p{Lu}-z]", "python", GrammarError, 2, "bound of a range"),
        ("a(b", "python", GrammarError, 2, "unterminated subpattern"),
        ("*a", "python", GrammarError, 1, "nothing to repeat"),
        ("(?<=a+)b", "python", GrammarError, 1, "fixed-width"),
        ("a{1,99999999999}", "python", GrammarTooComplex, 1, "too large"),
        ("(" * 3000 + "a" + ")" * 3000, "python", GrammarTooComplex, 1, "groups in groups"),
        ("(?:" * 120 + "a" + "b)*" * 120, "python", GrammarTooComplex, 1, "levels"),
        (r"a\Z", "ecma", GrammarError, 2, "not an escape"),
        (r"\a", "ecma", GrammarError, 1, "not an escape"),
        (r"\p{Script=Greec}", "ecma", UnsupportedGrammar, 1, "similar: SCRIPT=GREEK"),
        (r"a\p{Greek}", "ecma", UnsupportedGrammar, 2, "Script=Greek"),
        (r"(a+)-\1", "ecma", UnsupportedGrammar, 6, r"group 1 \(column 1\) can match texts without end"),
        ("a++", "ecma", GrammarError, 3, "possessive"),
        ("(?>a)", "ecma", GrammarError, 1, "atomic"),
        ("(?m)a$", "ecma", GrammarError, 1, "no group that begins"),
        ("a(?x: b)", "ecma", GrammarError, 2, "flags"),
        ("a(?i-i: b)", "ecma", GrammarError, 2, "flags"),
        ("[b-a]", "ecma", GrammarError, 4, "in order"),
        ("a[b", "ecma", GrammarError, 2, "not closed"),
        (r"\/(a", "ecma", GrammarError, 3, "unterminated"),
        (r"\k<x>(?<y>a)", "ecma", GrammarError, 1, "no group named"),
        ("(?<a>b)(?<a>c)", "ecma", GrammarError, 8, "two groups"),
        ("a{3,1}", "ecma", GrammarError, 2, "out of order"),
        ("a{1,99999999999}", "ecma", GrammarTooComplex, 2, "too large"),
        ("(" * 3000 + "a" + ")" * 3000, "ecma", GrammarTooComplex, 1, "groups"),
        ("a)", "ecma", GrammarError, 2, "unmatched"),
        ("^*", "ecma", GrammarError, 2, "nothing to repeat"),
        ("a\\", "ecma", GrammarError, 2, "lone backslash"),
    ],
)  # fmt: skip
def test_refusals_name_the_place(
    source: str, dialect: regex.Dialect, kind: type[GrammarError], column: int, says: str
) -> None:
    with pytest.raises(GrammarError, match=says) as caught:
        regex.parse(source, dialect=dialect)
    assert type(caught.value) is kind
    assert (caught.value.line, caught.value.column) == (1, column)


def test_the_line_is_named_too() -> None:
    with pytest.raises(GrammarError) as caught:
        regex.parse("(?x)a\n b [c")
    assert (caught.value.line, caught.value.column) == (2, 4)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="atomic groups are new in Python 3.11")
def test_atomic_groups_keep_their_first_match_only() -> None:
    sources = ("a++b|(?>x|xy)z", "(?>a|ab)c", "a*+a|b", "(?>a*?)b", "(?:ab){1,2}+ab", "x(?>a?)a", "(?>(?:a|ab)*)b")
    for source in sources:
        made = python(source)
        for text in ("aab", "xz", "xyz", "a", "ac", "abc", "aa", "b", "ab", "ababab", "abab", "xa", "xaa"):
            assert matches(made, text.encode()) == bool(re.fullmatch(source, text)), (source, text)
    with pytest.raises(UnsupportedGrammar, match="empty before other ways"):
        regex.parse("(?>(?:|a)*?)b")


@pytest.mark.parametrize("source", ["a^b", "(?=a)b", "[^\\s\\S]", "a(?!)"])
def test_what_nothing_matches_is_refused(source: str) -> None:
    with pytest.raises(UnsatisfiableGrammar):
        regex.machine(source)


def test_what_is_not_text_is_refused() -> None:
    with pytest.raises(GrammarError, match="str"):
        regex.machine(b"a")  # type: ignore[arg-type]


def test_many_words_and_huge_bounds_are_cheap() -> None:
    began = time.process_time()
    words = [f"word{i}" for i in range(2000)]
    for prefix in ("", "(?i)"):
        made = python(prefix + "|".join(words))
        assert all(matches(made, word.encode()) for word in words[:50])
        assert not matches(made, b"word20000")
    assert matches(python("a{1,1000000000}"), b"a" * 100)
    made = python("(?:ab|a|b){0,500}x")
    assert matches(made, b"ab" * 500 + b"x")
    assert not matches(made, b"b" * 501 + b"x")
    assert matches(python("a?" * 3000), b"a" * 2999)
    assert matches(python("(?:a*)*" * 50 + "c"), b"a" * 50 + b"c")
    assert time.process_time() - began < 5


def test_the_deepest_pattern_can_be_read() -> None:
    source = "a"
    while True:
        deeper = f"(?:{source}b|c)*"
        try:
            regex.parse(deeper)
        except GrammarTooComplex:
            break
        source = deeper
    made = python(source)
    assert matches(made, b"cab" + b"b" * 5) == bool(re.fullmatch(source, "cab" + "b" * 5))


def test_order_and_laziness_are_kept_in_the_tree() -> None:
    tree = regex.parse("(a|b|cd)+?(?<!x)$")
    assert isinstance(tree, regex.Concat)
    repeat, look, anchor = tree.items
    assert isinstance(repeat, regex.Repeat)
    assert repeat.lazy
    assert isinstance(repeat.body, regex.Alternate)
    assert [regex.literal_text(item) for item in repeat.body.items] == ["a", "b", "cd"]
    assert isinstance(look, regex.Look)
    assert look.behind
    assert look.negated
    assert anchor == regex.Anchor("end_nl")


# ------------------------------------------------------------------------------------------------- choices


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), min_size=1, max_size=6),
    st.text("ab", max_size=4),
)
def test_choices_are_exactly_the_texts(texts: list[str], other: str) -> None:
    machine = choices.machine(texts)
    for text in [*texts, *(t + "a" for t in texts), *(t[:-1] for t in texts), other]:
        assert reference_matches(machine, text) == (text in texts)


def test_choices_that_cannot_be() -> None:
    with pytest.raises(UnsatisfiableGrammar, match="empty"):
        choices.machine([])
    for wrong in ("abc", 3, [1], ["a", None], ["\ud800"], {"a"}):
        with pytest.raises(GrammarError):
            choices.machine(wrong)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------- cases


@pytest.mark.skipif(not CASES.exists(), reason="the collection of reported cases is not here")
def test_reported_cases() -> None:
    cases = [json.loads(line) for line in CASES.open(encoding="utf-8")]
    seen = 0
    for case in cases:
        if case["kind"] != "regex":
            continue
        seen += 1
        began = time.process_time()
        try:
            machine = regex.machine(case["grammar"])
        except GrammarError:
            assert "clear compile error" in case["expect"], case["id"]
            continue
        accept = case["accept"] + [eval(text) for text in case.get("accept_py", [])]
        reject = case["reject"] + [eval(text) for text in case.get("reject_py", [])]
        for text in accept:
            assert reference_matches(machine, text), (case["id"], text)
        for text in reject:
            assert not reference_matches(machine, text), (case["id"], text)
        assert time.process_time() - began < 2, case["id"]
    assert seen

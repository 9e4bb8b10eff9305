"""Lark grammars: what decides between terminals, errors, limits."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from lark_random import accepts, quiet_lark
from reference import Reference, reference_matches

from structgen.errors import GrammarError, GrammarTooComplex, UnsatisfiableGrammar, UnsupportedGrammar
from structgen.grammars import lark_grammar
from structgen.grammars.lalr import LalrMachine
from structgen.grammars.machine import Bottom, Cell, can_end, read, start

# name, grammar, alphabet: all texts over the alphabet up to length 5 are compared with lark
KINDS = {
    "keyword in a name": ('start: "if" N | N "="\nN: /[a-z]+/\n%ignore " "', "if x="),
    "keyword of another case": ('start: "IF"i N | N "="\nN: /[a-z]+/i\n%ignore " "', "iFf ="),
    "keyword with a priority": ('start: IF N | N "="\nIF.2: "if"\nN: /[a-z]+/\n%ignore " "', "if x="),
    "ignored pattern with a keyword": ('start: "a" "ab" "c" | "c" "c"\nW: /[a-b]+/\n%ignore W', "abc"),
    "contextual": ('start: "a" N | "b" M\nN: /[ab]+/\nM: /b/', "ab"),
    "longest is not first": ("start: (A | B)+\nA.2: /a/\nB: /aa+b/", "ab"),
    "order of alternatives": ('start: A "c"\nA: /a|ab/', "abc"),
    "lazy": ('start: S S\nS: /<.*?>/', "<>a"),
    "lazy with an escape": ('start: S+\nS: /"(.|\\\\.)*?(?<!\\\\)(\\\\\\\\)*?"/', '"\\a'),
    "word boundary": ('start: A B\nA: /a\\b/\nB: /\\bb|-b/', "ab-"),
    "lookahead at the end": ('start: (A | B)+\nA: /a(?=bb)/\nB: /ab?|b/', "ab"),
    "lookahead that outlives its terminal": ('start: (A | B | "c")+\nA: /a(?!b*c)/\nB: /b|aa/', "abc"),
    "nested lookahead": ('start: (A | "b" | "c" )+\nA: /a(?!b(?!c))/', "abc"),
    "reserved words": ('start: N+\nN: /(?!(?:ab|b)\\b)[ab]+/\n%ignore " "', "ab "),
    "empty turns": ("start: A B?\nA: /c(|a)+/\nB: /ab?/", "abc"),
    "end of text": ('start: A+ B?\nA: /a(?!$)/\nB: /a/', "a\nb"),
    "start of a line": ('start: (A | B)+\nA: /(?m:^)a/\nB: /b|\\n/', "ab\n"),
    "ignored terminal that is needed": ('start: "a" W "b" | "c"\nW: " "\n%ignore W', "abc "),
    "rule that never ends": ('start: "a" | "b" loop\nloop: "c" loop', "abc"),
    "shift is preferred": ('start: "a"? "a" "b"?', "ab"),
    "right recursion": ('start: "a" start | "b"\n', "ab"),
    "nullable rules": ('start: x y "c"\nx: "a"?\ny: "b"*', "abc"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_short_text(kind: str) -> None:
    text, alphabet = KINDS[kind]
    machine, parser = lark_grammar.machine(text), quiet_lark(text)
    count = 0
    for length in range(6 if len(alphabet) < 5 else 5):
        for letters in itertools.product(alphabet, repeat=length):
            sample = "".join(letters)
            verdict = accepts(parser, sample)
            assert reference_matches(machine, sample) is verdict, repr(sample)
            count += verdict
    assert count


@pytest.mark.parametrize("lexer", ["basic", "contextual", "auto"])
def test_lexers(lexer: str) -> None:
    text = 'start: "a" "-" N | "b" "-" M\nN: /[ab]+/\nM: /b+c?/'
    machine = lark_grammar.machine(text, lexer=lexer)
    parser = quiet_lark(text, lexer="contextual" if lexer == "auto" else lexer)
    for sample in ("a-a", "a-ab", "a-bb", "b-b", "b-bc", "b-a", "a-a-", "a-b"):
        assert reference_matches(machine, sample) is accepts(parser, sample), sample


def test_a_prefix_that_cannot_be_completed_is_dead() -> None:
    dead = [
        ('start: "a" | "b" loop\nloop: "c" loop', ["b", "bc"]),
        ('start: "a" | "b" T "d"\nT: /c+/\n%ignore T', ["b", "bc"]),
        ('start: "a" | "<" BODY ">"\nBODY: /[^\\n]+/', ["<", "<x"]),
        ('start: "a" | "b" T\nT: /c(?<!c)d/', ["b"]),
    ]
    for text, prefixes in dead:
        machine = lark_grammar.machine(text)
        assert reference_matches(machine, "a")
        for prefix in prefixes:
            assert not Reference(machine).accept(prefix.encode()), (text, prefix)


def test_long_right_recursion() -> None:
    machine = lark_grammar.machine('start: "a" start | "b"')
    threads = read(start(machine, Cell(Bottom(), None)), b"a" * 30_000)
    assert threads
    assert not can_end(threads)
    assert can_end(read(threads, b"b"))


def test_reductions_without_end_are_refused() -> None:
    """Priorities decide between two empty rules, and the winner comes again: before an "x", lark piles up ``e``."""
    machine = lark_grammar.machine('start: e start | f "x" | "y"\ne.2:\nf:')
    assert isinstance(machine, LalrMachine)
    assert machine.tables.endless
    assert reference_matches(machine, "y")
    for sample in ("x", "", "yx", "xy"):
        assert not reference_matches(machine, sample)


@pytest.mark.parametrize(
    "text",
    [
        'start: b | "a"\nb: start',
        'start: start | "a"',
        'start: b "c"\nb: b | "a"',
        'start: b "c"\nb: c | "a"\nc: b',
    ],
)
def test_circular_rules(text: str) -> None:
    """A rule that derives itself: lark stops at the first reduction that reaches the start."""
    parser, machine = quiet_lark(text), lark_grammar.machine(text)
    for sample in ("", "a", "aa", "ac", "acc", "x", "yx", "yyx", "xy", "c"):
        assert reference_matches(machine, sample) == accepts(parser, sample), sample


def test_machines_are_kept() -> None:
    text = 'start: "kept"'
    assert lark_grammar.machine(text) is lark_grammar.machine(text)
    assert lark_grammar.machine(text) is not lark_grammar.machine(text, lexer="basic")


def test_relative_import(tmp_path: Path) -> None:
    (tmp_path / "parts.lark").write_text("WORD: /[a-z]+/\n")
    machine = lark_grammar.machine("start: WORD\n%import .parts.WORD", source=str(tmp_path / "main.lark"))
    assert reference_matches(machine, "ab")
    with pytest.raises(GrammarError, match=r"%import.*nothing"):
        lark_grammar.machine("start: WORD\n%import .nothing.WORD", source=str(tmp_path / "main.lark"))


ERRORS = [
    ("start: foo\n", GrammarError, "'foo' used but not defined", 1),
    ("start: \"a\"\n  b c\n", GrammarError, None, 2),
    ('start: "a"\nstart: "b"\n', GrammarError, "start", 1),
    ("start: A\nA: /a*/\n", GrammarError, "terminal A can match the empty text", 2),
    ("start: A\n\nA: /(a/\n", GrammarError, None, None),
    ("start: a | b\na: A\nb: A\nA: \"x\"\n", GrammarError, "Reduce/Reduce", None),
    ("start: A\n\nA: /(a)\\1/\n", UnsupportedGrammar, "terminal A.*backreference", 3),
    ("start: A\nA: /(?<=ab)c/\n", UnsupportedGrammar, "terminal A.*lookbehind", 2),
    ("start: A _IN\nA: /a/\n%declare _IN\n", UnsupportedGrammar, "_IN.*postlex", 3),
    ("start: x\nx: \"a\" x\n", UnsatisfiableGrammar, "no text", 1),
    ("start: A A\nA: /.+/\n", UnsatisfiableGrammar, "no text", 1),
    ("start: A\nA: /a{1,900000}/\n", GrammarTooComplex, "terminal A", None),
]


@pytest.mark.parametrize(("text", "kind", "message", "line"), ERRORS)
def test_errors_name_the_place(text: str, kind: type[GrammarError], message: str | None, line: int | None) -> None:
    with pytest.raises(kind) as caught:
        lark_grammar.machine(text)
    assert type(caught.value) is kind
    if message:
        assert re.search(message, str(caught.value), re.DOTALL), str(caught.value)
    if line:
        assert caught.value.line == line, str(caught.value)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(GrammarTooComplex):
        lark_grammar.machine("start: " + "(" * 20_000 + '"x"' + ")" * 20_000)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"strat": "x"}, GrammarError, "did you mean 'start'"),
        ({"parser": "cyk"}, GrammarError, "'lalr'"),
        ({"lexer": "dynamic"}, GrammarError, "'basic'"),
        ({"parser": "earley"}, UnsupportedGrammar, "earley"),
        ({"postlex": "python"}, UnsupportedGrammar, "postlex"),
        ({"start": "missing"}, GrammarError, "missing"),
    ],
)
def test_options(options: dict[str, str], kind: type[GrammarError], message: str) -> None:
    with pytest.raises(kind, match=message):
        lark_grammar.machine('start: "a"', **options)  # type: ignore[arg-type]


SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "cases"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of reported cases is not here")
def test_reported_grammars() -> None:
    """Reported inputs whose truth is lalr; what we refuse must be refused with a reason."""
    checked = 0
    for line in (SHARED / "cases.jsonl").read_text().strip().split("\n"):
        case = json.loads(line)
        if case["kind"] != "lark" or case.get("no_oracle") or case.get("postlex"):
            continue
        text = case["grammar"]
        if case.get("form") == "python":
            scope: dict[str, str] = {}
            exec(text, scope)
            text = scope["G"]
        checked += same_as_lark(text, case["accept"] + case["reject"])
    for path in sorted((SHARED / "lark_grammars").glob("*.lark")):
        samples = []
        for kind in ("accept", "reject"):
            found = path.with_name(f"{path.stem}.{kind}.txt").read_text()
            samples += found.split("\n===\n") if "\n===\n" in found else found.split("\n")
        checked += same_as_lark(path.read_text(), samples)
    assert checked > 250


def same_as_lark(text: str, samples: list[str]) -> int:
    try:
        machine = lark_grammar.machine(text)
    except UnsupportedGrammar:
        return 0
    except UnsatisfiableGrammar:
        return len(samples) if not any(accepts(quiet_lark(text), s) for s in samples) else pytest.fail(text)
    except GrammarError:
        with pytest.raises(Exception):  # noqa: B017 - lark raises AssertionError too
            quiet_lark(text)
        return 0
    parser = quiet_lark(text)
    for sample in samples:
        assert reference_matches(machine, sample) is accepts(parser, sample), (text, sample)
    return len(samples)

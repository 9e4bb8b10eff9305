"""The grammar library: it loads in lark without conflicts, and both of us agree on every sample."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import lark
import pytest
import sqlglot
from lark_random import accepts, quiet_lark
from reference import reference_matches

from structgen.errors import GrammarError
from structgen.grammars import lark_grammar, library

SAMPLES = Path(__file__).parents[1] / "data" / "languages"
CASES = [(name, kind) for name in library.names() for kind in ("accept", "reject")]


def samples(name: str, kind: str) -> list[str]:
    text = (SAMPLES / f"{name}.{kind}.txt").read_bytes().decode().removesuffix("\n")
    return text.split("\n===\n") if "\n===\n" in text else text.split("\n")


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_samples(name: str, kind: str) -> None:
    machine, parser = lark_grammar.machine(library.find(name)), quiet_lark(library.find(name))
    found = samples(name, kind)
    assert len(found) >= 6
    for text in found:
        assert accepts(parser, text) is (kind == "accept"), f"lark on {text!r}"
        assert reference_matches(machine, text) is (kind == "accept"), text


@pytest.mark.parametrize("name", library.names())
def test_grammars_have_a_header_and_no_conflicts(name: str, caplog: pytest.LogCaptureFixture) -> None:
    text = library.find(name)
    assert text.startswith("// ")
    with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
        quiet_lark(text, debug=True)
    assert not [r for r in caplog.records if "onflict" in r.getMessage()]


def test_names_and_find() -> None:
    assert library.names() == ["arithmetic", "csv", "iso_datetime", "json", "lisp", "sql"]
    assert library.find("sql.lark") == library.find("sql")
    with pytest.raises(GrammarError, match=r"did you mean 'sql'.*|arithmetic, csv"):
        library.find("sqll")


TERMS = {
    "NAME": ["a", "b1", "users", "Total", "id", "count", "left_x", "selects", "date"],
    "NUMBER": ["1", "2.5", "1e3"],
    "INT": ["1", "20"],
    "STRING": ["'x'", "''", "'it''s'"],
    "QUOTED": ['"q"', '"a""b"', '"from"'],
    "TYPE": ["int", "varchar", "decimal", "timestamp"],
    "COMPARE": ["<", "<>", "!=", ">="],
    "MINUS": ["-"],
}


def sentence(parser: lark.Lark, rng: Random) -> list[str]:
    """A random sentence of sql.lark, as the texts of its tokens."""
    rules = defaultdict(list)
    for rule in parser.rules:
        rules[rule.origin.name].append(rule.expansion)
    height: dict[str, int] = {}
    while len(height) < len(rules):
        for name, bodies in rules.items():
            heights = [max((height.get(s.name, 99) for s in b if not s.is_term), default=0) for b in bodies]
            if min(heights) < 99:
                height.setdefault(name, min(heights) + 1)
    words: list[str] = []
    queue: list[tuple[object, int]] = [(rules["start"][0][0], rng.randint(4, 20))]
    while queue:
        symbol, fuel = queue.pop(0)
        if symbol.is_term:  # type: ignore[attr-defined]
            pattern = parser.get_terminal(symbol.name).pattern  # type: ignore[attr-defined]
            spelled = [pattern.value] if pattern.type == "str" else [symbol.name, symbol.name.lower()]  # type: ignore[attr-defined]
            words.append(rng.choice(TERMS.get(symbol.name, spelled)))  # type: ignore[attr-defined]
            continue
        bodies = rules[symbol.name]  # type: ignore[attr-defined]
        if fuel <= 0:
            cost = [max((height[s.name] for s in body if not s.is_term), default=0) for body in bodies]
            bodies = [body for body, c in zip(bodies, cost, strict=True) if c == min(cost)]
        queue[:0] = [(s, fuel - 1) for s in rng.choice(bodies)]
    return words


def test_sql_is_what_sqlglot_reads() -> None:
    seed = Random().randrange(1 << 32)
    rng = Random(seed)
    text = library.find("sql")
    machine, parser = lark_grammar.machine(text), quiet_lark(text)
    counts: Counter[str] = Counter()
    while counts["spaced"] < 60:
        words = sentence(parser, rng)
        if len(words) > 60:
            continue
        spaced = " ".join(words)
        glued = words[0] + "".join(rng.choice(["", " ", "\n"]) + w for w in words[1:])
        assert accepts(parser, spaced), (seed, spaced)
        for kind, sql in (("spaced", spaced), ("glued", glued)):
            verdict = accepts(parser, sql)
            assert reference_matches(machine, sql) is verdict, (seed, sql)
            if verdict:
                sqlglot.parse_one(sql)
                counts[kind] += 1

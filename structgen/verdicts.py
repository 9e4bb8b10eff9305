"""Verdicts: whether a text satisfies a grammar, and if not, where it first goes wrong and what was allowed there."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structgen.grammars.grammar import Grammar
    from structgen.grammars.schema.expectation import Demand
    from structgen.grammars.schema.position import Position

# What may follow is found by trying each character; longer texts would make that slow.
_LONGEST_FOR_HINTS = 2000
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[^\s,:{}\[\]"]+', re.DOTALL)
_MOST_DEMANDS = 6


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the grammar says about one text.

    Attributes:
        name: what the text is called: a file, or the text itself, shortened.
        accepted: the whole text satisfies the grammar.
        offset: characters that a text of the grammar may begin with; all of them when the text only ends early.
        start: index of the token that goes wrong at ``offset``.
        what: what is wrong there.
        expected: what may stand there, in words; empty when that is not known.
        expected_as: what the words are: ``"one of the keys "``, or "".
        pointer: JSON pointer of the value that is being written there; None for texts that are not JSON.
        demands: the keywords of a JSON Schema that the value does not satisfy.
        note: what else is to be said of it, or "".
    """

    text: str
    accepted: bool
    name: str = ""
    offset: int = 0
    start: int = 0
    what: str = ""
    expected: tuple[str, ...] = ()
    expected_as: str = ""
    pointer: str | None = None
    demands: tuple[Demand, ...] = field(default=())
    note: str = ""

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.offset) + 1

    @property
    def column(self) -> int:
        return self.offset - (self.text.rfind("\n", 0, self.offset) + 1) + 1

    @property
    def byte(self) -> int:
        return len(self.text[: self.offset].encode("utf-8", "surrogatepass"))

    def describe(self) -> str:
        """The verdict, with the offending line and a caret under the place."""
        note = f"\n  note: {self.note}" if self.note else ""
        if self.accepted:
            return f"accepted  {self.name}{note}"
        wanted = f"; expected {self._words}" if self.expected else ""
        where = f"line {self.line}, column {self.column}"
        if self.pointer is not None:
            where += f", byte {self.byte}, {f'in {self.pointer}' if self.pointer else 'at the root'}"
        said = "".join(f"\n  see {_demand(each)}" for each in self.demands[:_MOST_DEMANDS])
        return f"refused   {self.name}\n  {where}: {self.what}{wanted}\n{self._excerpt()}{said}{note}"

    @property
    def _words(self) -> str:
        return self.expected_as + _or(self.expected)

    def _excerpt(self) -> str:
        """The line, at most 100 characters of it, and below it the token (``~``) and the place (``^``)."""
        line = self.text.split("\n")[self.line - 1]
        first = max(0, self.column - 61)
        begun = min(max(self.column - 1 - (self.offset - self.start), first), self.column - 1)
        mark = " " * (begun - first) + "~" * (self.column - 1 - begun) + "^"
        shown = line[first : first + 100].replace("\t", " ").replace("\r", " ")
        return f"  | {shown}\n  | {mark}"

    @property
    def details(self) -> dict[str, Any]:
        """What ``--json`` prints of it."""
        made: dict[str, Any] = {"name": self.name, "text": self.text, "accepted": self.accepted}
        if not self.accepted:
            made |= {"line": self.line, "column": self.column, "byte": self.byte, "wrong": self.what}
            made |= {"expected": self._words, "allowed": list(self.expected)}
        if self.pointer is not None:
            made |= {"pointer": self.pointer, "demands": [each.pointer for each in self.demands]}
        return made | ({"note": self.note} if self.note else {})


def _demand(demand: Demand) -> str:
    from structgen.grammars.schema.naming import shown

    return f"{demand.pointer}: {shown(demand.value, 70)}"


def _or(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}" if words else ""


def judge(grammar: Grammar, text: str) -> Verdict:
    """The grammar's verdict on a text."""
    called = shortened(text)
    data = text.encode("utf-8", "surrogatepass")
    taken = data[: grammar.prefix_length(data)]
    if len(taken) == len(data) and grammar.matches(data):
        return Verdict(text, True, called)
    offset = len(taken.decode("utf-8", "ignore"))
    if grammar.report is not None:
        return _json_verdict(grammar, text, called, offset)
    expected = _characters(grammar, text[:offset])
    what = f"{text[offset]!r} cannot stand here" if offset < len(text) else "the text ends too early"
    if offset == len(text) and not expected:
        what = "the text is not complete"
    return Verdict(text, False, called, offset, offset, what, expected)


# -------------------------------------------------------------------------------------------------- JSON texts


def _json_verdict(grammar: Grammar, text: str, name: str, offset: int) -> Verdict:
    from structgen.grammars.schema.expectation import Demand, Probe, demands, places_at
    from structgen.grammars.schema.position import KEY, VALUE, position

    probe = Probe(grammar.machine, grammar.report.places)
    at = position(text[:offset])
    before = probe.read(probe.start(), _bytes(text[: at.start]))
    if at.role == VALUE and text[at.start : offset].strip('"') and text[offset : offset + 1] in ("", *" \t\n\r,}]"):
        # A number, true, false or null is whole here, if it may be: what is wrong comes after it.
        after = probe.read(before, _bytes(text[at.start : offset] + " "))
        closed = position(text[:offset] + " ")
        if after and closed.start == offset + 1:
            at, before = dataclasses.replace(closed, start=offset), after
    expected = tuple(probe.expected(before, at))
    what = _what(text, offset, at, probe.missing(before, at))
    begun = text[at.start : offset]
    if begun and at.role in (VALUE, KEY) and "stands twice" not in what:
        inside = probe.after(probe.read(before, _bytes(begun)))
        if inside:
            what += f": after {shortened(begun, 20)} may come {_listed(inside)}"
    keys = at.role == KEY and bool(expected) and expected[0].startswith('"')
    value = _written(text, at)
    root = grammar.report.places[0]
    said = [] if value is _UNKNOWN else demands(places_at(root, at.path), value)
    if not said and value is not _UNKNOWN and at.path and isinstance(at.path[-1], int):
        around = places_at(root, at.path[:-1])
        said = [Demand(f"{place.pointer}/uniqueItems", True) for place in around if place.rules.unique]
    return Verdict(
        text,
        False,
        name,
        offset,
        at.start,
        what,
        expected,
        ("one of the keys " if len(expected) > 1 else "the key ") if keys else "",
        at.pointer,
        tuple(said),
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _what(text: str, offset: int, at: Position, missing: list[str]) -> str:
    """What is wrong at ``offset``."""
    char = text[offset : offset + 1]
    if missing and (at.role == "next" or at.first) and char in ("", "}"):
        return f"the object lacks {_keys(missing)}"
    if not char:
        return "the text ends too early"
    token = _TOKEN.match(text, at.start)
    if at.role == "key" and char == "}" and not at.first:
        return "there is a comma before '}'"
    if at.role == "next" and char == ",":
        return f"no more {'keys' if at.container == '{' else 'items'} may follow"
    if token is not None and at.role in ("key", "value"):
        value = _parsed(token[0])
        if at.role == "key" and isinstance(value, str):
            return f"the key {shortened(token[0])} {'stands twice' if value in at.keys else 'is not allowed here'}"
        if at.role == "value" and value is not _UNKNOWN:
            return f"{shortened(token[0])} is not allowed here"
    return f"{char!r} cannot stand here"


_UNKNOWN = object()


def _written(text: str, at: Position) -> Any:
    """The value that the text has at a position, or ``_UNKNOWN``."""
    value = _parsed(text)
    if value is _UNKNOWN:
        token = _TOKEN.match(text, at.start)
        return _UNKNOWN if token is None or at.role != "value" else _parsed(token[0])
    for step in at.path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return _UNKNOWN
    return value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError):  # no JSON, or a number beyond Python's
        return _UNKNOWN


def _listed(characters: list[str]) -> str:
    blank = ("a blank",) if " " in characters else ()
    return _or((*([ranges] if (ranges := _ranges([c for c in characters if c not in " \\"])) else []), *blank))


def _keys(keys: list[str]) -> str:
    shown = ", ".join(json.dumps(key, ensure_ascii=False) for key in keys[:6])
    more = f" and {len(keys) - 6} more" if len(keys) > 6 else ""
    return f"the key{'s' if len(keys) > 1 else ''} {shown}{more}"


# ------------------------------------------------------------------------------------------------- other texts


def _characters(grammar: Grammar, begin: str) -> tuple[str, ...]:
    """The characters that may follow, in short."""
    if len(begin) > _LONGEST_FOR_HINTS:
        return ()
    before = begin.encode("utf-8", "surrogatepass")
    candidates = [chr(c) for c in (*range(0x21, 0x7F), 0x20, 0x0A, 0x09)]
    legal = [c for c in candidates if grammar.prefix_length(before + c.encode()) > len(before)]
    if len(legal) == len(candidates):
        return ("any character",)
    if not legal:
        return ("the end of the text",) if grammar.matches(begin) else ()
    pieces = [_ranges([c for c in legal if c > " "])]
    if any(c <= " " for c in legal):
        pieces.append("a blank")
    if grammar.matches(begin):
        pieces.append("the end")
    return tuple(piece for piece in pieces if piece)


def _ranges(characters: list[str]) -> str:
    """Characters in order, with runs of three and more written as ranges: ``" 0-9 a-z _``."""
    runs: list[list[str]] = []
    for c in characters:
        if runs and ord(c) == ord(runs[-1][-1]) + 1:
            runs[-1].append(c)
        else:
            runs.append([c])
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else " ".join(run) for run in runs)


def shortened(text: str, most: int = 60) -> str:
    """A text on one line, cut when it is long."""
    flat = text.replace("\n", "\\n") or "(empty)"
    return flat if len(flat) <= most else f"{flat[: most - 3]}..."

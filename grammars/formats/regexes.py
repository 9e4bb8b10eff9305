r"""The format ``regex``: the patterns of ECMA-262 (edition 11 and later, 21.2.1, with the ``u`` flag) as an automaton.

What a pattern opens it must close, so groups are a stack; what it refers to it must define, so group names and
numbers are remembered until then. Choices: a backreference looks at most ``MAX_AHEAD`` groups ahead; names are
unique (later editions allow the same name in two alternatives); modifiers ``(?i:...)`` and the ``v`` flag's classes
are of later editions too. Engines read a pattern without the flag more leniently; what is taken here is good in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from structgen.grammars.charset import ANY, EMPTY, MAX_CODE_POINT, CharSet
from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import Expr
from structgen.grammars.formats import escapes
from structgen.grammars.formats.escapes import HEX, LEAD, TRAIL, joined
from structgen.grammars.lifted import UNSURE, Position, lifted

MAX_AHEAD = 99

_SYNTAX = CharSet.of("^$\\.*+?()[]{}|")
_PLAIN = ANY - _SYNTAX
_ESCAPABLE = _SYNTAX | CharSet.of("/")
_DIGITS = CharSet.range("0", "9")
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_KNOWN = CharSet.range("0", "9") | CharSet.range("A", "Z") | CharSet.range("a", "z")
_LETTERS = CharSet.range("A", "Z") | CharSet.range("a", "z")
_NO_NAMES: frozenset[str] = frozenset()


class Context(NamedTuple):
    """What holds outside the part being read.

    Attributes:
        nest: open parentheses, innermost last: "g" for groups, "a" for assertions (which cannot be repeated).
        groups: capturing groups so far.
        wanted: the highest number referred to.
        names: names of groups so far.
        missing: names referred to that no group has yet.
    """

    nest: str = ""
    groups: int = 0
    wanted: int = 0
    names: frozenset[str] = _NO_NAMES
    missing: frozenset[str] = _NO_NAMES

    @property
    def complete(self) -> bool:
        """Whether every reference has its group."""
        return self.wanted <= self.groups and not self.missing

    def forgotten(self) -> Context:
        return Context(self.nest, wanted=0 if self.complete else 1)


_NOTHING = Context()
_ENDING = frozenset({"none", "atom", "lazy", "zero", "number"})
_Moves = list[tuple[CharSet, Position | None]]


@dataclass(frozen=True)
class Pattern(Position):
    """Inside a pattern.

    Attributes:
        mode: what is being read; the methods of that name say what may come next.
        data: what of it must be remembered.
    """

    mode: str
    data: Any = None
    context: Context = _NOTHING
    forgetful: bool = False

    @property
    def ends(self) -> bool:
        return self.mode in _ENDING and not self.context.nest and self.context.complete

    def moves(self) -> Sequence[tuple[CharSet, Position | None]]:
        return _moves(self)

    def after(self, char: int) -> Position | None:
        if self.mode in ("name", "behind"):
            kind, text = self.data or ("(", "")
            return self._to("name", (kind, text + chr(char)))
        return self._to("member", (char, False))

    def loose(self) -> Position | None:
        if self.forgetful:
            return None
        return Pattern(self.mode, _forgotten(self.mode, self.data), self.context.forgotten(), forgetful=True)

    @property
    def nearest(self) -> int:
        context = self.context
        named = sum(len(name) + 5 for name in context.missing)
        unnamed = max(context.wanted - context.groups - len(context.missing), 0)
        return (self.mode not in _ENDING) + len(context.nest) + named + 2 * unnamed

    def completion(self, at_least: int = 0) -> str:
        at, text = self, ""
        while at.mode not in _ENDING:
            char = at._towards_end()
            text += char
            after = next(to for chars, to in at.moves() if ord(char) in chars)
            after = at.after(ord(char)) if after is None else after
            assert isinstance(after, Pattern)
            at = after
        context = at.context
        groups = "".join(f"(?<{name}>)" for name in sorted(context.missing))
        groups += "()" * (context.wanted - context.groups - len(context.missing))
        more = at_least - len(text) - len(groups) - len(context.nest)
        return text + "a" * more + ")" * len(context.nest) + groups

    def _towards_end(self) -> str:
        """A character after which fewer ones are needed than before it."""
        moves = self.moves()
        if self.mode in ("name", "reference", "behind") and self.data is not None:
            return ">" if any(ord(">") in chars for chars, _ in moves) else "a"
        if self.mode == "property" and self.data[2]:
            read = self.data[2][1:]
            names = escapes.property_names()[self.data[1]]
            return min((name for name in names if name.startswith(read)), key=len)[len(read)]
        for char in ")" if self.mode == "open" else "]}d:=a":
            if any(ord(char) in chars for chars, _ in moves):
                return char
        return chr(moves[0][0].ranges[0][0])

    def clamped(self, limit: int) -> Position:
        nest = self.context.nest
        if len(nest) <= limit + 1:
            return self
        return Pattern(self.mode, self.data, self.context._replace(nest=nest[-limit - 1 :]), self.forgetful)

    def _to(self, mode: str, data: Any = None, **changed: Any) -> Pattern:
        context = self.context._replace(**changed) if changed else self.context
        if self.forgetful:
            data = _forgotten(mode, data, fresh=True)
        return Pattern(mode, data, context, self.forgetful)

    # ------------------------------------------------------------------------------------- terms

    def none(self) -> _Moves:
        """Before a term: nothing to repeat."""
        nest = self.context.nest
        opened = UNSURE if self.forgetful and not self.context.complete else self._to("open")
        found: _Moves = [
            (CharSet.of("^$|"), self._to("none")),
            (CharSet.of("("), opened),
            (CharSet.of("["), self._to("class")),
            (CharSet.of("\\"), self._to("escape")),
            (_PLAIN | CharSet.of("."), self._to("atom")),
        ]
        if nest:
            found.append((CharSet.of(")"), self._to("atom" if nest[-1] == "g" else "none", nest=nest[:-1])))
        return found

    def atom(self) -> _Moves:
        """Behind what may be repeated."""
        return [*self.none(), (CharSet.of("*+?"), self._to("lazy")), (CharSet.of("{"), self._to("least", ""))]

    def lazy(self) -> _Moves:
        """Behind a quantifier."""
        return [*self.none(), (CharSet.of("?"), self._to("none"))]

    def zero(self) -> _Moves:
        r"""Behind ``\0``."""
        return [(chars - _DIGITS, to) for chars, to in self.atom()]

    def number(self) -> _Moves:
        """In the digits of a backreference."""
        found = [(chars - _DIGITS, to) for chars, to in self.atom()]
        for digit in range(10):
            char = CharSet.of(str(digit))
            if self.forgetful:
                found.append((char, UNSURE))
            elif self.data * 10 + digit <= self.context.groups + MAX_AHEAD:
                found.append((char, self._reference(self.data * 10 + digit)))
        return found

    def _reference(self, number: int) -> Position:
        return self._to("number", number, wanted=max(self.context.wanted, number))

    def open(self) -> _Moves:
        """Behind a parenthesis."""
        context = self.context
        inside = self._to("none", nest=context.nest + "g", groups=context.groups + (not self.forgetful)).none()
        if self.forgetful and not context.complete:
            inside = [(chars, UNSURE) for chars, _ in inside]
        return [*inside, (CharSet.of("?"), self._to("kind"))]

    def kind(self) -> _Moves:
        nest = self.context.nest
        return [
            (CharSet.of(":"), self._to("none", nest=nest + "g")),
            (CharSet.of("=!"), self._to("none", nest=nest + "a")),
            (CharSet.of("<"), self._to("behind")),
        ]

    def behind(self) -> _Moves:
        """Behind ``(?<``."""
        return [(CharSet.of("=!"), self._to("none", nest=self.context.nest + "a")), *self._to("name", ("(", "")).name()]

    # ------------------------------------------------------------------------------------- quantifiers

    def least(self) -> _Moves:
        found = self._digits("least", self.data)
        if self.data:
            found.append((CharSet.of("}"), self._to("lazy")))
            found.append((CharSet.of(","), self._to("most", (self.data, ""))))
        return found

    def most(self) -> _Moves:
        least, most = self.data
        found: _Moves = []
        for chars, to in self._digits("most", most):
            assert isinstance(to, Pattern)
            found.append((chars, self._to("most", (least, to.data))))
        if not most or (len(most), most) >= (len(least), least):
            found.append((CharSet.of("}"), self._to("lazy")))
        return found

    def _digits(self, mode: str, read: str) -> _Moves:
        """One more digit of a number without leading zeros."""
        if read in ("", "0"):
            return [(CharSet.of(digit), self._to(mode, digit)) for digit in "0123456789"]
        return [(CharSet.of(digit), self._to(mode, read + digit)) for digit in "0123456789"]

    # ------------------------------------------------------------------------------------- escapes

    def escape(self) -> _Moves:
        atom = self._to("atom")
        found: _Moves = [
            (CharSet.of("dDsSwWfnrtv") | _ESCAPABLE, atom),
            (CharSet.of("bB"), self._to("none")),
            (CharSet.of("pP"), self._to("property", (None, "binary gc", ""))),
            (CharSet.of("c"), self._to("control", None)),
            (CharSet.of("x"), self._to("two", (None, ""))),
            (CharSet.of("u"), self._to("unicode", (None, ""))),
            (CharSet.of("k"), self._to("reference")),
            (CharSet.of("0"), self._to("zero")),
        ]
        if self.forgetful:
            return [*found, (CharSet.of("123456789"), UNSURE)]
        return [*found, *((CharSet.of(str(digit)), self._reference(digit)) for digit in range(1, 10))]

    def reference(self) -> _Moves:
        return [(CharSet.of("<"), self._to("name", ("k", "")))]

    def name(self) -> _Moves:
        """In the name of a group (``(``) or of a reference (``k``)."""
        kind, text = self.data
        if self.forgetful:
            found: _Moves = [(escapes.id_continue() if text else escapes.id_start(), self._to("name", (kind, "a")))]
            found.append((CharSet.of("\\>" if text else "\\"), UNSURE))
            return found
        found = [(escapes.id_continue() if text else escapes.id_start(), None)]
        found.append((CharSet.of("\\"), self._to("spelled", (kind, text, ""))))
        if text and not (kind == "(" and text in self.context.names):
            found.append((CharSet.of(">"), self._named(kind, text)))
        return found

    def _named(self, kind: str, text: str) -> Position:
        context = self.context
        if kind == "k":
            missing = context.missing if text in context.names else context.missing | {text}
            return self._to("atom", missing=missing)
        return self._to(
            "none", nest=context.nest + "g", groups=context.groups + 1, names=context.names | {text},
            missing=context.missing - {text},
        )

    def spelled(self) -> _Moves:
        r"""In a ``\u`` of a name."""
        kind, text, read = self.data
        allowed = escapes.id_continue() if text else escapes.id_start()
        if self.forgetful:
            return [(CharSet.of(char), UNSURE) for char in escapes.spellable(read, allowed)]
        found: _Moves = []
        for char, code in escapes.spellable(read, allowed).items():
            to = self._to("spelled", (kind, text, read + char)) if code is None else self._to(
                "name", (kind, text + chr(code))
            )
            found.append((CharSet.of(char), to))
        return found

    def property(self) -> _Moves:
        place, kinds, read = self.data
        if not read.startswith("{"):
            return [(CharSet.of("{"), self._to("property", (place, kinds, "{")))]
        found: _Moves = []
        for char, kinds_left in escapes.property_chars(kinds, read[1:]).items():
            if char == "}":
                to: Position | None = self._to("atom") if place is None else self._to("set")
            elif char == "=":
                to = self._to("property", (place, kinds_left, "{"))
            else:
                to = self._to("property", (place, kinds, read + char))
            found.append((CharSet.of(char), to))
        return found

    # A value escape knows its place: None outside of classes, else the state of the class before it:
    # ("member", lead or None): a new member, or the other half of the pair that ``lead`` begins;
    # ("end", low, lead or None): the end of a range that begins with ``low``, or the other half of such an end.

    def control(self) -> _Moves:
        if self.data is None:
            return [(_LETTERS, self._to("atom"))]
        return [
            (CharSet([(char, char)]), to) for char in _LETTERS if (to := self._value(self.data, char % 32)) is not None
        ]

    def two(self) -> _Moves:
        place, read = self.data
        return self._hexadecimal("two", place, read, 2)

    def unicode(self) -> _Moves:
        place, read = self.data
        found = self._hexadecimal("unicode", place, read, 4)
        if not read and escapes.reaches(place, 0, MAX_CODE_POINT):
            found.append((CharSet.of("{"), self._to("braced", (place, ""))))
        return found

    def _hexadecimal(self, mode: str, place: Any, read: str, digits: int) -> _Moves:
        found: _Moves = []
        for digit in HEX:
            text = (read + digit).lower() if place is not None else "0" * (len(read) + 1)
            if len(text) == digits:
                to = self._value(place, int(text, 16), unit=digits == 4)
                if to is not None:
                    found.append((CharSet.of(digit), to))
            elif self._possible(place, text, digits):
                found.append((CharSet.of(digit), self._to(mode, (place, text))))
        return found

    def _possible(self, place: Any, text: str, digits: int) -> bool:
        lo, hi = int(text.ljust(digits, "0"), 16), int(text.ljust(digits, "f"), 16)
        if place is None or place[0] == "member":
            return True
        _, low, lead = place
        if digits == 4:
            if lead is not None and hi >= TRAIL[0] and lo <= TRAIL[1]:
                if joined(lead, min(hi, TRAIL[1])) >= low:
                    return True
            elif lead is None and hi >= LEAD[0] and lo <= LEAD[1] and joined(min(hi, LEAD[1]), TRAIL[1]) >= low:
                return True
        return bool(hi >= low if lead is None else lead >= low)

    def braced(self) -> _Moves:
        place, read = self.data
        found: _Moves = []
        for digit in HEX:
            text = (read + digit).lower().lstrip("0") or "0"
            if place is None:
                text = escapes.brief(text)
            if int(text, 16) <= MAX_CODE_POINT and escapes.reaches(place, int(text, 16), MAX_CODE_POINT):
                found.append((CharSet.of(digit), self._to("braced", (place, text))))
        if read and (to := self._value(place, int(read, 16))) is not None:
            found.append((CharSet.of("}"), to))
        return found

    def _value(self, place: Any, code: int, *, unit: bool = False) -> Position | None:
        r"""Behind an escape for ``code``; ``unit``: written ``\uXXXX``, so it may be half of a pair."""
        if place is None:
            return self._to("atom")
        is_lead = unit and LEAD[0] <= code <= LEAD[1]
        is_trail = unit and TRAIL[0] <= code <= TRAIL[1]
        if place[0] == "member":
            lead = place[1]
            if lead is not None and is_trail:
                return self._to("member", (joined(lead, code), False))
            return self._to("member", (code, is_lead))
        _, low, lead = place
        if lead is not None:
            if is_trail:
                return self._to("members") if joined(lead, code) >= low else None
            return self._to("member", (code, is_lead)) if lead >= low else None
        if is_lead:
            return self._to("half", (low, code)) if code >= low or joined(code, TRAIL[1]) >= low else None
        return self._to("members") if code >= low else None

    # ------------------------------------------------------------------------------------- classes

    def class_(self) -> _Moves:
        return [*self.members(), (CharSet.of("^"), self._to("members"))]

    def members(self) -> _Moves:
        """In a class, where a member or a range may begin."""
        return self._members(None, ("member", None), CharSet.of("^") if self.mode == "class" else EMPTY)

    def _members(self, dash: Position | None, place: Any, less: CharSet = EMPTY) -> _Moves:
        plain = ANY - CharSet.of("]\\") - less
        escape = self._to("class escape", place)
        if self.forgetful:
            found: _Moves = [
                (_KNOWN, None),
                (plain - _KNOWN - CharSet.of("-"), self._to("member", None)),
                (CharSet.of("-"), self._to("member", None) if dash is None else dash),
                (CharSet.of("\\"), escape if place[1] is None else UNSURE),
            ]
            return [*found, (CharSet.of("]"), self._to("atom"))]
        if dash is not None:
            found = [(plain - CharSet.of("-"), None), (CharSet.of("-"), dash)]
        else:
            found = [(plain, None)]
        return [*found, (CharSet.of("\\"), escape), (CharSet.of("]"), self._to("atom"))]

    def member(self) -> _Moves:
        """Behind a character of a class."""
        if self.data is None:
            return self._members(UNSURE, ("member", None))
        code, lead = self.data
        return self._members(self._to("range", code), ("member", code if lead else None))

    def nul(self) -> _Moves:
        r"""Behind ``\0`` in a class, a member."""
        return [(chars - _DIGITS, to) for chars, to in self._to("member", (0, False)).member()]

    def nul_end(self) -> _Moves:
        r"""Behind ``\0`` in a class, the end of a range."""
        return [(chars - _DIGITS, to) for chars, to in self.members()]

    def set(self) -> _Moves:
        r"""Behind ``\d`` and its like in a class."""
        return self._members(self._to("set dash"), ("member", None))

    def set_dash(self) -> _Moves:
        return [(CharSet.of("]"), self._to("atom"))]

    def range(self) -> _Moves:
        """Behind the dash of a range that begins with ``data``."""
        low = self.data
        return [
            (CharSet([(low, MAX_CODE_POINT)]) - CharSet.of("]\\"), self._to("members")),
            (CharSet.of("]"), self._to("atom")),
            (CharSet.of("\\"), self._to("class escape", ("end", low, None))),
        ]

    def half(self) -> _Moves:
        """Behind a range whose end may be the first half of a pair."""
        low, lead = self.data
        place = ("end", low, lead)
        if lead < low:
            return [(CharSet.of("\\"), self._to("class escape", place))]
        return self._members(None, place)

    def class_escape(self) -> _Moves:
        place = self.data
        if self.forgetful and place[0] == "member" and place[1] is None:
            member = self._to("member", None)
            return [
                (CharSet.of("dDsSwW"), self._to("set")),
                (CharSet.of("pP"), self._to("property", (place, "binary gc", ""))),
                (_ESCAPABLE | CharSet.of("-bfnrtv"), member),
                (CharSet.of("cxu0"), UNSURE),
            ]
        found: _Moves = []
        if place[0] == "member" or (place[2] is not None and place[2] >= place[1]):
            found.append((CharSet.of("dDsSwW"), self._to("set")))
            found.append((CharSet.of("pP"), self._to("property", (place, "binary gc", ""))))
        values = {**{ord(char): code for char, code in _CONTROLS.items()}, ord("b"): 8, ord("-"): ord("-")}
        values.update((char, char) for char in _ESCAPABLE)
        for char, code in values.items():
            if (to := self._value(place, code)) is not None:
                found.append((CharSet([(char, char)]), to))
        if (to := self._value(place, 0)) is not None:
            assert isinstance(to, Pattern)
            found.append((CharSet.of("0"), self._to("nul" if to.mode == "member" else "nul end")))
        if any(self._value(place, code) is not None for code in range(1, 27)):
            found.append((CharSet.of("c"), self._to("control", place)))
        if self._possible(place, "", 2):
            found.append((CharSet.of("x"), self._to("two", (place, ""))))
        found.append((CharSet.of("u"), self._to("unicode", (place, ""))))
        return found


def _forgotten(mode: str, data: Any, fresh: bool = False) -> Any:
    """What a loose twin keeps of it. Behind a letter or digit just read (``fresh``) it knows that one: most dashes
    stand there."""
    if mode == "number":
        return 0
    if mode == "name":
        return (data[0], "a" if data[1] else "")
    if mode == "member":
        return data if data and (data[1] or (fresh and data[0] in _KNOWN)) else None
    return data


@lru_cache(maxsize=4096)
def _moves(at: Pattern) -> Sequence[tuple[CharSet, Position | None]]:
    found: _Moves = at.class_() if at.mode == "class" else getattr(at, at.mode.replace(" ", "_"))()
    joined: dict[Position, CharSet] = {}
    made: _Moves = []
    for chars, to in found:
        if not chars:
            continue
        if to is None:
            made.append((chars, None))
        else:
            joined[to] = joined[to] | chars if to in joined else chars
    made += [(chars, to) for to, chars in joined.items()]
    return made


def regex(encoding: Encoding) -> Expr:
    """Patterns of ECMA-262."""
    return lifted(Pattern("none"), encoding)

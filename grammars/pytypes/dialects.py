r"""Patterns of pydantic rewritten for JSON Schema, which reads them as ECMA-262.

pydantic matches with Rust's ``regex`` crate, or with Python's ``re`` (compiled patterns, ``regex_engine``). What both
the original and ECMA-262's reading take is kept: where the two differ (``\w`` is Unicode there and ASCII here, ``\W``
the other way round) the rewritten pattern is in both. ``\A``, ``\z``, ``\Z``, verbose patterns, ``[[:alpha:]]``,
``[a&&b]``, ``\pL``, flags and named groups become what ECMA-262 has for them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Literal

from structgen.errors import UnsupportedGrammar
from structgen.grammars import properties
from structgen.grammars.charset import ANY, CharSet
from structgen.grammars.pattern import Chars
from structgen.grammars.regex import parse

_HEADS = ("(?=", "(?!", "(?<=", "(?<!", "(?P<", "(?<", "(?P=", "(?>", "(?(", "(?")

Engine = Literal["rust", "python"]

# What Rust or Python count as a word character, a digit, a space; ECMA-262's own set is inside, U+FEFF aside.
_WORD = r"\w\p{Alphabetic}\p{M}\p{N}\p{Pc}\p{Cn}\u200c\u200d"
_DIGIT = r"\d\p{Nd}\p{Cn}"
_SPACE = r"\s\x1c-\x1f\x85"
_WIDE = {"w": _WORD, "d": _DIGIT, "s": _SPACE, "W": r"\W", "D": r"\D", "S": r"\S\ufeff"}
"""Inside a class: at least what the original and ECMA-262 take."""
_NARROW = {"w": r"\w", "d": r"\d", "s": r"[^\S\ufeff]", "W": f"[^{_WORD}]", "D": f"[^{_DIGIT}]", "S": f"[^{_SPACE}]"}
"""On its own: at most what both take."""
_RUST_WORD = r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]"
_PYTHON_WORD = r"[\p{L}\p{N}_]"
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-\/:-@\[-`\{-~",
    "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_CONTROLS = {"a": r"\x07", "t": r"\t", "n": r"\n", "v": r"\v", "f": r"\f", "r": r"\r"}
_HEX = re.compile(r"\\(?:[xuU]\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")


def to_ecma(pattern: str | re.Pattern[str], engine: Engine = "rust") -> str:
    """``pattern`` for JSON Schema.

    Raises:
        UnsupportedGrammar: a construct that has no form there.
    """
    flags = ""
    if isinstance(pattern, re.Pattern):
        engine = "python"
        flags = "".join(c for c, flag in (("i", re.I), ("m", re.M), ("s", re.S), ("x", re.X)) if pattern.flags & flag)
        ascii_only = bool(pattern.flags & re.A)
        pattern = pattern.pattern
    else:
        ascii_only = False
    return _Rewriter(pattern, engine, flags, ascii_only).run()


class _Rewriter:
    def __init__(self, pattern: str, engine: Engine, flags: str, ascii_only: bool) -> None:
        self.pattern = pattern
        self.engine = engine
        self.at = 0
        self.flags = set(flags)
        self.ascii_only = ascii_only
        self.ignore_case = "i" in flags
        self.negative = 0  # how many negative lookarounds are around

    def run(self) -> str:
        body = self._sequence(set(self.flags))
        if self.at < len(self.pattern):
            raise self._unsupported("an unbalanced parenthesis")
        return "(?i)" + body if self.ignore_case else body

    def _sequence(self, flags: set[str]) -> str:
        """Up to a closing parenthesis, or the end."""
        made = []
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            char = self.pattern[self.at]
            if char == "(":
                made.append(self._group(flags))
            elif char == "\\":
                made.append(self._escape())
            elif char == "[":
                made.append(self._class())
            else:
                self.at += 1
                if char == "." and "s" in flags:
                    made.append(r"[\s\S]")
                elif char == "." and self.negative:
                    made.append(r"[^\n]")  # ECMA-262's dot leaves out more line ends
                elif char == "^" and "m" in flags:
                    made.append(r"(?<![^\n])")
                elif char == "$":
                    made.append(self._end(flags))
                elif "x" in flags and char.isspace():
                    continue
                elif "x" in flags and char == "#":
                    end = self.pattern.find("\n", self.at)
                    self.at = len(self.pattern) if end < 0 else end + 1
                else:
                    made.append(char)
        return "".join(made)

    def _end(self, flags: set[str]) -> str:
        if "m" in flags:
            return r"(?![^\n])"
        # Python's $ also stands before a last line end; only under a negation must that be kept.
        return r"(?=\n?$)" if self.engine == "python" and self.negative else "$"

    def _group(self, flags: set[str]) -> str:
        rest = self.pattern[self.at :]
        if rest.startswith("(?#"):
            self.at += rest.index(")") + 1
            return ""
        if found := _FLAGS.match(rest):
            return self._flags(found, flags)
        head = next((h for h in _HEADS if rest.startswith(h)), "(")
        if head == "(?P=":
            name = rest[4 : rest.index(")")]
            self.at += len(name) + 5
            return rf"\k<{name}>"
        if head in ("(?>", "(?(", "(?"):
            raise self._unsupported(f"a group that begins with {rest[:3]!r}")
        self.at += len(head)
        opened = head
        if head in ("(?P<", "(?<"):
            end = self.pattern.index(">", self.at)
            opened = f"(?<{self.pattern[self.at : end]}>"
            self.at = end + 1
        negative = head in ("(?!", "(?<!")
        self.negative += negative
        body = self._sequence(set(flags))
        self.negative -= negative
        self.at += 1
        return f"{opened}{body})"

    def _flags(self, found: re.Match[str], flags: set[str]) -> str:
        on, off, end = found[1], found[2] or "", found[3]
        known = "imsxU" if self.engine == "rust" else "imsxau"
        for letter in on + off:
            if letter not in known:
                raise self._unsupported(f"the flag {letter!r}")
        self.at += len(found[0])
        if "a" in on:
            self.ascii_only = True
        whole = self.at == len(found[0]) and end == ")"
        if "i" in on and whole:
            self.ignore_case = True
        elif "i" in on + off and not (self.ignore_case and "i" in on):
            raise self._unsupported("the flag i for a part of it")
        if end == ")":
            flags |= set(on)
            flags -= set(off)
            return ""
        body = self._sequence((flags | set(on)) - set(off))
        self.at += 1
        return f"(?:{body})"

    # ------------------------------------------------------------------------------------------- escapes

    def _escape(self) -> str:
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter and letter in "wdsWDS":
            self.at += 2
            return self._shorthand(letter)
        special: dict[str, Callable[[], str]] = {
            "A": lambda: "^",
            "z": lambda: "$",
            "Z": lambda: "$",
            "b": lambda: self._boundary(True),
            "B": lambda: self._boundary(False),
        }
        if letter == "z" and self.engine == "python":
            raise self._unsupported(r"\z")
        if letter in special and letter:
            if self.engine == "rust" and self.pattern[self.at + 2 : self.at + 3] == "{":
                raise self._unsupported(rf"\{letter}{{...}}")
            self.at += 2
            return special[letter]()
        if letter in ("<", ">") and self.engine == "rust":
            raise self._unsupported(rf"\{letter}")
        if letter.isdigit() and letter != "0":
            self.at += 2
            return "\\" + letter
        return self._literal()

    def _literal(self) -> str:
        """One character, or a property, spelled for ECMA-262; also inside a class."""
        rest = self.pattern[self.at :]
        letter = rest[1:2]
        if letter in _CONTROLS:
            self.at += 2
            return _CONTROLS[letter]
        if found := _HEX.match(rest):
            self.at += len(found[0])
            return _code(int(next(g for g in found.groups() if g), 16))
        if letter in ("p", "P"):
            return self._property(rest)
        if letter == "0" and (found := re.match(r"\\0([0-7]{0,2})", rest)):
            self.at += len(found[0])
            return _code(int(found[1] or "0", 8))
        if not letter or (letter.isalnum() and letter.isascii()):
            raise self._unsupported(f"the escape {rest[:2]!r}")
        self.at += 2
        return _code(ord(letter)) if letter.isalnum() or letter in "_ #&~<>%@\"'`!,:;=" else "\\" + letter

    def _property(self, rest: str) -> str:
        found = re.match(r"\\[pP](?:\{(\^?)([^{}]*)\}|([A-Za-z]))", rest)
        if not found:
            raise self._unsupported(r"a \p without its property")
        self.at += len(found[0])
        negated = (rest[1] == "P") != bool(found[1])
        name, value = found[2] or found[3], None
        if match := re.match(r"([^=:!]+)(!?[=:])(.+)", name):
            name, value = match[1], match[3]
            negated ^= match[2].startswith("!")
        try:
            chars = properties.find(name, value)
        except LookupError as error:
            raise self._unsupported(f"the property {found[0]!r} ({error})") from error
        if self.ignore_case and (negated or name.lower() in ("lu", "ll", "lt", "upper", "lower")):
            raise self._unsupported(f"{found[0]} with the flag i")
        spelled = name if value is None else f"{name}={value}"
        try:
            properties.find(name, value, ecma=True)
        except LookupError:
            if value is not None:
                return _spell(~chars if negated else chars)
            spelled = f"sc={name}"
        return rf"\{'P' if negated else 'p'}{{{spelled}}}"

    def _shorthand(self, letter: str) -> str:
        if self.ascii_only:
            return _ascii(letter)
        return f"[{_WIDE[letter]}]" if self.negative else _NARROW[letter]

    def _boundary(self, here: bool) -> str:
        word = r"\w" if self.ascii_only else _RUST_WORD if self.engine == "rust" else _PYTHON_WORD
        if here:
            return f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))"
        some = r"(?:(?<=[\s\S])|(?=[\s\S]))" if self.engine == "python" and sys.version_info < (3, 14) else ""
        return f"(?:(?<={word})(?={word})|(?<!{word})(?!{word}){some})"  # older re: never in an empty text

    # ------------------------------------------------------------------------------------------- classes

    def _class(self) -> str:
        begin = self.at
        self.at += 1
        negated = self.pattern[self.at : self.at + 1] == "^"
        self.at += negated
        inner: list[str] = []
        aside: list[str] = []  # alternatives beside the class
        first = True
        while True:
            if self.at >= len(self.pattern):
                self.at = begin
                raise self._unsupported("a class that is not closed")
            rest = self.pattern[self.at :]
            char = rest[0]
            if char == "]" and not first:
                break
            first = False
            if self.engine == "rust" and (found := re.match(r"\[:(\^?)([a-z]+):\]", rest)):
                if found[1] or found[2] not in _POSIX:
                    raise self._unsupported(f"the class {found[0]!r}")
                inner.append(_POSIX[found[2]])
                self.at += len(found[0])
            elif self.engine == "rust" and (char == "[" or rest[:2] in ("&&", "--", "~~")):
                self.at = begin
                return self._algebra()
            elif char == "\\" and rest[1:2] and rest[1:2] in "wdsWDS":
                self.at += 2
                self._shorthand_in_class(rest[1], negated, inner, aside)
            elif char == "\\" and rest[1:2] == "b" and self.engine == "python":
                self.at += 2
                inner.append(r"\x08")
            elif char == "\\":
                inner.append(self._literal())
            elif "x" in self.flags and self.engine == "rust" and char.isspace():
                self.at += 1
            else:
                self.at += 1
                inner.append(rf"\{char}" if char in "[^]" else char)
        self.at += 1
        text = "".join(inner)
        if negated:
            return f"[^{text}]" if text else r"[\s\S]"
        choices = ([f"[{text}]"] if text else []) + aside
        return choices[0] if len(choices) == 1 else f"(?:{'|'.join(choices)})"

    def _shorthand_in_class(self, letter: str, negated: bool, inner: list[str], aside: list[str]) -> None:
        if self.ascii_only:
            chosen = _ascii(letter)
            if chosen.startswith("["):
                if negated:
                    raise self._unsupported(rf"\{letter} in a negated class of an ASCII pattern")
                aside.append(chosen)
            else:
                inner.append(chosen)
        elif negated == bool(self.negative):
            narrow = _NARROW[letter]
            if not narrow.startswith("["):
                inner.append(narrow)
            elif not negated:
                aside.append(narrow)
            else:
                raise self._unsupported(rf"\{letter} in a negated class under a negative lookaround")
        else:
            inner.append(_WIDE[letter])

    def _algebra(self) -> str:
        """A class of Rust's with classes inside (``[a-z&&[^aeiou]]``), as one set of ranges."""
        if self.ignore_case:
            raise self._unsupported("a class with classes inside and the flag i")
        return _spell(self._set())

    def _set(self) -> CharSet:
        self.at += 1
        negated = self.pattern[self.at : self.at + 1] == "^"
        self.at += negated
        found, pending = CharSet(()), None
        operand = CharSet(())
        first = True
        while True:
            if self.at >= len(self.pattern):
                raise self._unsupported("a class that is not closed")
            rest = self.pattern[self.at :]
            if rest[0] == "]" and not first:
                self.at += 1
                break
            first = False
            if rest[:2] in ("&&", "--", "~~"):
                found, pending, operand = _combine(found, pending, operand), rest[:2], CharSet(())
                self.at += 2
            elif posix := re.match(r"\[:(\^?)([a-z]+):\]", rest):
                if posix[2] not in _POSIX:
                    raise self._unsupported(f"the class {posix[0]!r}")
                each = _read_class(_POSIX[posix[2]])
                operand |= ~each if posix[1] else each
                self.at += len(posix[0])
            elif rest[0] == "[":
                operand |= self._set()
            elif rest[0] == "\\" and rest[1:2] and rest[1:2] in "wdsWDS":
                self.at += 2
                operand |= _rust_set(rest[1])
            else:
                operand |= self._range()
        found = _combine(found, pending, operand)
        return ~found if negated else found

    def _range(self) -> CharSet:
        low = self._member()
        if self.pattern[self.at : self.at + 1] == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", "-", ""):
            self.at += 1
            high = self._member()
            if len(low) == len(high) == 1:
                return CharSet([(low.ranges[0][0], high.ranges[0][0])])
            raise self._unsupported("a range between sets")
        return low

    def _member(self) -> CharSet:
        if self.pattern[self.at] == "\\":
            return _read_class(self._literal())
        self.at += 1
        return CharSet.of(self.pattern[self.at - 1])

    def _unsupported(self, what: str) -> UnsupportedGrammar:
        return UnsupportedGrammar(
            f"the pattern {self.pattern!r} ({'Rust' if self.engine == 'rust' else 'Python'} regex) has {what}, "
            f"which JSON Schema's patterns do not have, at character {self.at + 1}"
        )


def _ascii(letter: str) -> str:
    """What a flag ``a`` makes of a shorthand; ECMA-262's space has more."""
    return {"s": r"[\t-\r ]", "S": r"[^\t-\r ]"}.get(letter, "\\" + letter)


def _combine(left: CharSet, operator: str | None, right: CharSet) -> CharSet:
    if operator is None:
        return left | right
    if operator == "&&":
        return left & right
    return left - right if operator == "--" else (left - right) | (right - left)


def _rust_set(letter: str) -> CharSet:
    if letter.lower() == "w":
        names = ("Alphabetic", "M", "Nd", "Pc")
        chars = CharSet.of("\u200c\u200d")
        for name in names:
            chars |= properties.find(name)
    else:
        chars = properties.find("Nd" if letter.lower() == "d" else "White_Space")
    return ANY - chars if letter.isupper() else chars


def _read_class(text: str) -> CharSet:
    """The set that the inside of a class of ECMA-262 stands for."""
    tree = parse(f"[{text}]", dialect="ecma")
    assert isinstance(tree, Chars)
    return tree.chars


def _code(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\u{{{code:x}}}"


def _spell(chars: CharSet) -> str:
    inner = "".join(_code(lo) + (f"-{_code(hi)}" if hi > lo else "") for lo, hi in chars.ranges)
    return f"[{inner}]"

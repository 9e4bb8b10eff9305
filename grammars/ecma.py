r"""ECMA-262 patterns (JSON Schema ``pattern``) rewritten into the Python dialect.

Read as ECMA-262 with the ``u`` flag says, and more leniently where a pattern without it has one plain
meaning: ``{`` and ``]`` may stand for themselves, punctuation may be escaped. Python's spellings
``(?P<name>...)`` and a leading ``(?i)`` are taken too, since schemas written for Python hold them. An escaped
letter that ECMA-262 does not define (``\A``, ``\Z``, ``\a``) is an error.

Differences that the rewriting settles: ``\d``, ``\w`` and ``\b`` are ASCII, ``\s`` is ECMA's white space, ``$``
is the very end of the text, ``[]`` is empty and ``[^]`` is any character.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from structgen.errors import GrammarError, UnsupportedGrammar
from structgen.grammars import unicode
from structgen.grammars.charset import CharSet

_CLASSES = {"d": unicode.ASCII_DIGIT, "w": unicode.ASCII_WORD, "s": unicode.ECMA_SPACE}
_CONTROLS = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_LONG_NAMES = {
    "Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll",
    "Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M",
    "Combining_Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc", "Enclosing_Mark": "Me",
    "Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
    "Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd",
    "Open_Punctuation": "Ps", "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi", "Final_Punctuation":
    "Pf", "Other_Punctuation": "Po", "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Separator": "Z", "Space_Separator": "Zs",
    "Line_Separator": "Zl", "Paragraph_Separator": "Zp", "Other": "C", "Control": "Cc", "cntrl": "Cc",
    "Format": "Cf", "Surrogate": "Cs", "Private_Use": "Co", "Unassigned": "Cn",
}  # fmt: skip
_SHORT_NAMES = frozenset(_LONG_NAMES.values())


def to_python(pattern: str) -> tuple[str, list[int]]:
    """The same language in the Python dialect, and for each of its characters (and the end) the place in
    ``pattern`` that it comes from.

    Raises:
        GrammarError: not a pattern of ECMA-262. UnsupportedGrammar: a Unicode property other than a general
            category.
    """
    return _Rewriter(pattern).run()


class _Rewriter:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.made: list[str] = []
        self.origin: list[int] = []

    def run(self) -> tuple[str, list[int]]:
        steps: dict[str, Callable[[], None]] = {"\\": self._escape, "[": self._class, "(": self._group}
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char in steps:
                steps[char]()
            elif char == "$":
                self._emit(r"\Z", 1)
            elif char in "*+?}" and self.pattern[self.at + 1 : self.at + 2] == "+":
                raise self._error(self.at + 1, "nothing to repeat: ECMA-262 has no possessive quantifiers")
            elif char == "{" and not re.compile(r"\{\d+(,\d*)?\}").match(self.pattern, self.at):
                self._emit(r"\{", 1)
            else:
                self._emit(char, 1)
        self.origin.append(len(self.pattern))
        return "".join(self.made), self.origin

    def _emit(self, text: str, taken: int) -> None:
        self.made.append(text)
        self.origin += [self.at] * len(text)
        self.at += taken

    def _error(self, position: int, message: str, kind: type[GrammarError] = GrammarError) -> GrammarError:
        before = self.pattern[:position]
        return kind(
            f"pattern {self.pattern!r} (ECMA-262): {message}",
            line=before.count("\n") + 1, column=position - before.rfind("\n"),
        )

    def _group(self) -> None:
        rest = self.pattern[self.at : self.at + 4]
        flags = re.compile(r"\(\?([A-Za-z]*)-?([A-Za-z]*)[:)]").match(self.pattern, self.at)
        if flags and not set(flags[1] + flags[2]) <= {"i", "s"}:
            raise self._error(
                self.at, f"the flags of {flags[0]!r} are not supported in a pattern (i and s are)", UnsupportedGrammar
            )
        if rest.startswith("(?<") and rest[3:4] not in ("=", "!"):
            self._emit("(?P<", 3)
        elif rest.startswith("(?>"):
            raise self._error(self.at, "ECMA-262 has no atomic groups")
        elif rest.startswith(("(?(", "(?#")):
            raise self._error(self.at, f"ECMA-262 has no group that begins with {rest[:3]!r}")
        else:
            self._emit("(", 1)

    def _escape(self) -> None:
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter in ("b", "B"):
            self._emit(f"(?a:\\{letter})", 2)
        elif letter.isdigit() and letter != "0":
            self._emit("\\" + letter, 2)  # a backreference, refused later with its place
        elif letter == "k" and (name := re.compile(r"\\k<(\w+)>").match(self.pattern, self.at)):
            self._emit(f"(?P={name[1]})", len(name[0]))
        else:
            chars, taken = self._atom(in_class=False)
            self._emit(_spell(chars), taken)

    def _atom(self, in_class: bool) -> tuple[CharSet, int]:
        """The characters that the escape here stands for, and its length."""
        letter = self.pattern[self.at + 1 : self.at + 2]
        rest = self.pattern[self.at :]
        if letter.lower() in _CLASSES and letter:
            chars = _CLASSES[letter.lower()]
            return (~chars if letter.isupper() else chars), 2
        if letter in _CONTROLS:
            return CharSet.of(_CONTROLS[letter]), 2
        if letter == "c" and (found := re.match(r"\\c([A-Za-z])", rest)):
            return CharSet.of(chr(ord(found[1]) % 32)), 3
        if letter == "x" and (found := re.match(r"\\x([0-9A-Fa-f]{2})", rest)):
            return CharSet.of(chr(int(found[1], 16))), 4
        if letter == "u":
            return self._unicode(rest)
        if letter in ("p", "P"):
            return self._property(rest, letter == "P")
        if letter == "0" and not rest[2:3].isdigit():
            return CharSet.of("\0"), 2
        if letter == "b" and in_class:
            return CharSet.of("\b"), 2
        if not letter:
            raise self._error(self.at, "the pattern ends in a lone backslash")
        if letter.isalnum():
            raise self._error(self.at, f"\\{letter} is not an escape of ECMA-262")
        return CharSet.of(letter), 2

    def _unicode(self, rest: str) -> tuple[CharSet, int]:
        if pair := re.match(r"\\u([Dd][89ABab][0-9A-Fa-f]{2})\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})", rest):
            code = 0x10000 + ((int(pair[1], 16) - 0xD800) << 10) + int(pair[2], 16) - 0xDC00
            return CharSet([(code, code)]), 12
        found = re.match(r"\\u(?:([0-9A-Fa-f]{4})|\{([0-9A-Fa-f]+)\})", rest)
        if not found or int(found[1] or found[2], 16) > 0x10FFFF:
            raise self._error(self.at, r"\u must be followed by four hexadecimal digits or {a code point}")
        code = int(found[1] or found[2], 16)
        return CharSet([(code, code)]), len(found[0])

    def _property(self, rest: str, negated: bool) -> tuple[CharSet, int]:
        found = re.match(r"\\[pP]\{([^{}]*)\}", rest)
        if not found:
            raise self._error(self.at, r"\p must be followed by {a property}")
        name = found[1]
        for prefix in ("General_Category=", "gc="):
            name = name.removeprefix(prefix)
        if name in ("Any", "ASCII"):
            chars = unicode.ASCII if name == "ASCII" else ~CharSet(())
        else:
            short = _LONG_NAMES.get(name, name)
            if short not in _SHORT_NAMES:
                raise self._error(
                    self.at, f"the Unicode property {found[1]!r} is not built (general categories such as "
                    f"\\p{{L}} are, by Unicode {unicodedata.unidata_version})", UnsupportedGrammar,
                )
            parts = ("Lu", "Ll", "Lt") if short == "LC" else (short,)
            chars = CharSet(r for part in parts for r in unicode.general_category(part).ranges)
        return (~chars if negated else chars), len(found[0])

    def _class(self) -> None:
        """A bracketed class, emitted as one set of ranges."""
        begin = self.at
        self.at += 1
        negated = self.pattern[self.at : self.at + 1] == "^"
        self.at += negated
        ranges: list[tuple[int, int]] = []
        low: CharSet | None = None  # the character before a dash, while its range is open
        while True:
            if self.at >= len(self.pattern):
                raise self._error(begin, "a class is not closed with ]")
            char = self.pattern[self.at]
            if char == "]":
                break
            chars, taken = self._atom(in_class=True) if char == "\\" else (CharSet.of(char), 1)
            if low is not None:
                if len(low) != 1 or len(chars) != 1 or low.ranges[0][0] > chars.ranges[0][0]:
                    raise self._error(self.at, "the bounds of a range must be two characters in order")
                ranges.append((low.ranges[0][0], chars.ranges[0][0]))
                low = None
            elif self._dash_follows(self.at + taken):
                low = chars
                taken += 1
            else:
                ranges += chars.ranges
            self.at += taken
        taken, self.at = self.at + 1 - begin, begin
        self._emit(_spell(CharSet(ranges), negated), taken)

    def _dash_follows(self, at: int) -> bool:
        return self.pattern[at : at + 1] == "-" and self.pattern[at + 1 : at + 2] not in ("]", "")


def _spell(chars: CharSet, negated: bool = False) -> str:
    """A set in the Python dialect."""
    if not chars:
        return r"[\s\S]" if negated else r"(?!)"
    if len(chars) == 1 and not negated:
        return re.escape(chr(chars.ranges[0][0]))
    inner = "".join(f"{_code(lo)}-{_code(hi)}" if lo < hi else _code(lo) for lo, hi in chars.ranges)
    return f"[{'^' if negated else ''}{inner}]"


def _code(code: int) -> str:
    return f"\\U{code:08x}"

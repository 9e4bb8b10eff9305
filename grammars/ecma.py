r"""ECMA-262 patterns (JSON Schema ``pattern``): text -> syntax tree.

A pattern is read as ECMA-262 says with the ``u`` flag (22.2.1). If that fails, it is read by the grammar of Annex B
(B.1.2), which engines use without the flag: ``{``, ``}`` and ``]`` may stand for themselves, any punctuation may be
escaped (``\_``, ``\-``), ``[\w-.]`` is no range, lookaheads may be repeated, ``\101`` is octal. This is
``new RegExp(p, "u")``, else ``new RegExp(p)``, with three differences in the second reading, each for what an author
means: characters are code points, not UTF-16 units; ``\p{...}``, ``\u{...}`` keep their meaning; and an escaped
letter without one (``\A``, ``\Z``, ``\a``) is an error, not the letter. Python's spellings ``(?P<name>...)``,
``(?P=name)`` and a leading ``(?i)`` are taken there too, which are errors in every engine.

``\d``, ``\w`` and ``\b`` are ASCII, ``\s`` is ECMA's white space, ``$`` is the very end of the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from structgen.errors import GrammarError, GrammarTooComplex, UnsupportedGrammar
from structgen.grammars import properties, unicode
from structgen.grammars.charset import ANY, CharSet
from structgen.grammars.pattern import (
    EMPTY,
    NOTHING,
    Alternate,
    Anchor,
    Backref,
    Chars,
    Concat,
    Fold,
    Group,
    Look,
    Node,
    alternate,
    concat,
    look,
    repeat,
)

MAX_GROUPS_DEEP = 200
MAX_COUNT = 2**31 - 1

_CLASSES = {"d": unicode.ASCII_DIGIT, "w": unicode.ASCII_WORD, "s": unicode.ECMA_SPACE}
_CONTROLS = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_QUANTIFIER = re.compile(r"(?:([*+?])|\{([0-9]+)(?:(,)([0-9]*))?\})(\??)")
_GROUP_NAME = re.compile(r"\(\?P?<([^\W\d]\w*|\$\w*)>")
_CODE = r"\\u(?:([0-9A-Fa-f]{4})|\{([0-9A-Fa-f]+)\})"
_PAIR = re.compile(r"\\u([Dd][89ABab][0-9A-Fa-f]{2})\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")


class Pattern(NamedTuple):
    """What ``parse`` read: the tree, and where each group and the first use of each begins."""

    node: Node
    groups: dict[int, int]
    uses: dict[int, int]


def parse(pattern: str) -> Pattern:
    """The syntax tree of ``pattern``; groups and backreferences are still in it.

    Raises:
        GrammarError: not a pattern of ECMA-262. GrammarTooComplex: nested too deeply, or a count too large.
        UnsupportedGrammar: a Unicode property that is not known.
    """
    try:
        return _Reader(pattern, unicode_mode=True).run()
    except GrammarTooComplex:
        raise
    except GrammarError:
        return _Reader(pattern, unicode_mode=False).run()


class _Flags(NamedTuple):
    i: bool = False
    m: bool = False
    s: bool = False


class _Reader:
    """One reading of a pattern: recursive descent over its characters."""

    def __init__(self, pattern: str, unicode_mode: bool) -> None:
        self.pattern = pattern
        self.strict = unicode_mode
        self.at = 0
        self.deep = 0
        self.names = self._group_names()
        self.total = self._count_groups()
        self.opened = 0
        self.groups: dict[int, int] = {}
        self.uses: dict[int, int] = {}
        self.closed: set[int] = set()
        self.in_lookbehind = 0

    def run(self) -> Pattern:
        flags = _Flags()
        if not self.strict and self.pattern.startswith("(?i)"):
            self.at, flags = 4, _Flags(i=True)
        node = self._disjunction(flags)
        if self.at < len(self.pattern):
            raise self._error(self.at, "unmatched )")
        return Pattern(node, self.groups, self.uses)

    def _error(self, position: int, message: str, kind: type[GrammarError] = GrammarError) -> GrammarError:
        before = self.pattern[:position]
        shown = repr(self.pattern)
        return kind(
            f"pattern {shown if len(shown) <= 80 else shown[:77] + '...'} (ECMA-262): {message}",
            line=before.count("\n") + 1, column=position - before.rfind("\n"),
        )

    def _next(self, text: str) -> bool:
        """Whether ``text`` comes here; it is taken."""
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    # -- groups are numbered before they are read, since \2 may come first

    def _openers(self) -> list[re.Match[str]]:
        scan = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\((?!\?)|\(\?P?<(?![=!])[^>]*>", re.DOTALL)
        return [found for found in scan.finditer(self.pattern) if found[0].startswith("(")]

    def _count_groups(self) -> int:
        return len(self._openers())

    def _group_names(self) -> dict[str, int]:
        names: dict[str, int] = {}
        for number, found in enumerate(self._openers(), 1):
            if named := _GROUP_NAME.fullmatch(found[0]):
                if named[1] in names:
                    raise self._error(found.start(), f"two groups are named {named[1]!r}")
                names[named[1]] = number
        return names

    # -- grammar

    def _disjunction(self, flags: _Flags) -> Node:
        self.deep += 1
        if self.deep > MAX_GROUPS_DEEP:
            raise GrammarTooComplex(
                f"a pattern (ECMA-262) is nested too deeply (limit: {MAX_GROUPS_DEEP} groups); flatten its groups",
                line=1, column=1,
            )
        branches = [self._alternative(flags)]
        while self._next("|"):
            branches.append(self._alternative(flags))
        self.deep -= 1
        return alternate(branches)

    def _alternative(self, flags: _Flags) -> Node:
        terms: list[Node] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            begin = self.at
            atom, repeatable = self._atom(flags)
            terms.append(self._quantified(atom, repeatable, begin))
        return concat(terms)

    def _quantified(self, atom: Node, repeatable: bool, begin: int) -> Node:
        found = _QUANTIFIER.match(self.pattern, self.at)
        if not found:
            if self.strict and self.pattern[self.at : self.at + 1] == "{":
                raise self._error(self.at, "{ does not begin a quantifier; write \\{")
            return atom
        if not repeatable:
            raise self._error(self.at, f"nothing to repeat: {self.pattern[begin : self.at]} is a place, not a text")
        lo, hi = (0, None) if found[1] == "*" else (1, None) if found[1] == "+" else (0, 1)
        if not found[1]:
            lo = int(found[2])
            hi = lo if not found[3] else int(found[4]) if found[4] else None
            if hi is not None and hi < lo:
                raise self._error(self.at, "the numbers of a quantifier are out of order")
            if max(lo, hi or 0) > MAX_COUNT:
                raise self._error(self.at, f"a count is too large (limit: {MAX_COUNT})", GrammarTooComplex)
        self.at = found.end()
        again = _QUANTIFIER.match(self.pattern, self.at)
        if again:
            what = ": ECMA-262 has no possessive quantifiers" if again[1] == "+" else ""
            raise self._error(self.at, f"nothing to repeat{what}")
        return repeat(atom, lo, hi, bool(found[5]))

    def _atom(self, flags: _Flags) -> tuple[Node, bool]:
        """The atom or assertion here, and whether it may be repeated."""
        char = self.pattern[self.at]
        if char in "^$":
            self.at += 1
            return self._anchor(char, flags), False
        if char == "(":
            return self._group(flags)
        if char == "[":
            return self._class(flags), True
        if char == "\\":
            return self._escape(flags)
        if char == ".":
            self.at += 1
            return Chars(ANY if flags.s else ~unicode.ECMA_NEWLINE), True
        if found := _QUANTIFIER.match(self.pattern, self.at):
            raise self._error(self.at, f"nothing to repeat before {found[0]}")
        if self.strict and char in "{}]":
            raise self._error(self.at, f"a lone {char}; write \\{char}")
        self.at += 1
        return self._one(CharSet([(ord(char), ord(char))]), flags), True

    def _one(self, chars: CharSet, flags: _Flags) -> Node:
        return Chars(unicode.closed(chars, self._fold(flags)))

    def _fold(self, flags: _Flags) -> Fold:
        return "" if not flags.i else "ecma_unicode" if self.strict else "ecma"

    def _anchor(self, char: str, flags: _Flags) -> Node:
        anchor = Anchor("start" if char == "^" else "end")
        if not flags.m:
            return anchor
        return Alternate((anchor, Look(Chars(unicode.ECMA_NEWLINE), char == "^", False)))

    def _group(self, flags: _Flags) -> tuple[Node, bool]:
        begin = self.at
        for opener, behind, negated in (
            ("(?=", False, False), ("(?!", False, True), ("(?<=", True, False), ("(?<!", True, True),
        ):  # fmt: skip
            if self._next(opener):
                self.in_lookbehind += behind
                body = self._closed(begin, flags)
                self.in_lookbehind -= behind
                return look(body, behind, negated), not behind and not self.strict
        if self._next("(?:"):
            return self._closed(begin, flags), True
        if found := re.compile(r"\(\?([a-z]*)(-?)([a-z]*):").match(self.pattern, self.at):
            self.at = found.end()
            return self._closed(begin, self._modified(flags, found, begin)), True
        if not self.strict and (found := re.compile(r"\(\?P=(\w+)\)").match(self.pattern, self.at)):
            self.at = found.end()
            return self._reference(found[1], begin, flags), True
        if self.pattern.startswith("(?", self.at):
            named = _GROUP_NAME.match(self.pattern, self.at)
            if not named or (self.strict and self.pattern.startswith("(?P", self.at)):
                raise self._error(begin, self._no_group(self.pattern[begin : begin + 3]))
            self.at = named.end()
        else:
            self.at += 1
        self.opened += 1
        index = self.opened
        self.groups[index] = begin
        body = self._closed(begin, flags)
        self.closed.add(index)
        return Group(index, body), True

    def _no_group(self, begins: str) -> str:
        if begins == "(?>":
            return "ECMA-262 has no atomic groups; (?=(...))\\1 is one"
        if begins == "(?<":
            return "a group's name is (?<name>, letters and digits"
        return f"ECMA-262 has no group that begins with {begins!r}"

    def _modified(self, flags: _Flags, found: re.Match[str], begin: int) -> _Flags:
        add, remove = found[1], found[3]
        both = add + remove
        if not set(both) <= set("ims") or len(set(both)) < len(both) or (found[2] and not both):
            raise self._error(begin, f"the flags of {found[0]!r} must be some of i, m and s, each once")
        return flags._replace(**dict.fromkeys(add, True), **dict.fromkeys(remove, False))

    def _closed(self, begin: int, flags: _Flags) -> Node:
        body = self._disjunction(flags)
        if not self._next(")"):
            raise self._error(begin, "missing ), unterminated subpattern")
        return body

    # -- escapes

    def _escape(self, flags: _Flags) -> tuple[Node, bool]:
        begin = self.at
        letter = self.pattern[begin + 1 : begin + 2]
        if letter in ("b", "B") and letter:
            self.at += 2
            word = unicode.ASCII_WORD
            return boundary(unicode.closed(word, self._fold(flags)) if self.strict else word, letter == "B"), False
        if letter.isdigit() and letter.isascii() and letter != "0":
            number = re.compile(r"[0-9]+").match(self.pattern, begin + 1)
            assert number is not None
            if int(number[0][:9]) <= self.total:
                self.at = number.end()
                return self._reference(int(number[0]), begin, flags), True
            if self.strict:
                raise self._error(begin, f"\\{number[0]} refers to a group that does not exist")
        if letter == "k" and (self.strict or self.names):
            found = re.compile(r"\\k<([^>]*)>").match(self.pattern, begin)
            if not found:
                raise self._error(begin, r"\k must be followed by <the name of a group>")
            self.at = found.end()
            return self._reference(found[1], begin, flags), True
        return self._one(self._characters(False, flags), flags), True

    def _reference(self, group: str | int, begin: int, flags: _Flags) -> Node:
        index = group if isinstance(group, int) else self.names.get(group, 0)
        if not index:
            raise self._error(begin, f"there is no group named {group!r}")
        # Before and inside its group, a reference matches nothing: each turn of a repeat forgets its groups.
        if index not in self.closed and not self.in_lookbehind:
            return EMPTY
        if index in self.groups and index not in self.closed:
            return EMPTY
        self.uses.setdefault(index, begin)
        return Backref(index, self._fold(flags))

    def _characters(self, in_class: bool, flags: _Flags) -> CharSet:
        """The characters that the escape here stands for; it is taken."""
        begin = self.at
        letter = self.pattern[begin + 1 : begin + 2]
        self.at += 2
        if letter and letter.lower() in _CLASSES:
            inside = unicode.closed(_CLASSES[letter.lower()], self._fold(flags) if self.strict else "")
            return ~inside if letter.isupper() else inside
        if letter in _CONTROLS:
            return CharSet.of(_CONTROLS[letter])
        if letter == "c":
            return self._control(begin, in_class)
        if letter == "x":
            return self._hexadecimal(begin)
        if letter == "u":
            return self._unicode(begin)
        if letter in ("p", "P") and letter:
            return self._property(begin, letter == "P")
        if letter == "b" and in_class:
            return CharSet.of("\b")
        if letter == "-" and in_class:
            return CharSet.of("-")
        if letter.isdigit() and letter.isascii():
            return self._octal(begin)
        if not letter:
            raise self._error(begin, "the pattern ends in a lone backslash")
        if (self.strict and letter not in _SYNTAX) or (letter.isalpha() and letter.isascii()):
            raise self._error(begin, f"\\{letter} is not an escape of ECMA-262{_meant(letter)}")
        return CharSet([(ord(letter), ord(letter))])

    def _control(self, begin: int, in_class: bool) -> CharSet:
        letter = self.pattern[begin + 2 : begin + 3]
        if re.fullmatch("[A-Za-z0-9_]" if in_class and not self.strict else "[A-Za-z]", letter):
            self.at += 1
            return CharSet.of(chr(ord(letter) % 32))
        if self.strict:
            raise self._error(begin, r"\c must be followed by a letter")
        self.at = begin + 1  # Annex B: the backslash stands for itself
        return CharSet.of("\\")

    def _hexadecimal(self, begin: int) -> CharSet:
        found = re.compile(r"\\x([0-9A-Fa-f]{2})").match(self.pattern, begin)
        if not found:
            raise self._error(begin, r"\x must be followed by two hexadecimal digits")
        self.at = found.end()
        return CharSet.of(chr(int(found[1], 16)))

    def _unicode(self, begin: int) -> CharSet:
        if pair := _PAIR.match(self.pattern, begin):
            self.at = pair.end()
            code = 0x10000 + ((int(pair[1], 16) - 0xD800) << 10) + int(pair[2], 16) - 0xDC00
            return CharSet([(code, code)])
        found = re.compile(_CODE).match(self.pattern, begin)
        if not found or int(found[1] or found[2], 16) > 0x10FFFF:
            raise self._error(begin, r"\u must be followed by four hexadecimal digits or {a code point}")
        self.at = found.end()
        code = int(found[1] or found[2], 16)
        return CharSet([(code, code)])

    def _property(self, begin: int, negated: bool) -> CharSet:
        found = re.compile(r"\\[pP]\{([^{}=]*)(?:=([^{}]*))?\}").match(self.pattern, begin)
        if not found:
            raise self._error(begin, r"\p must be followed by {a property}")
        self.at = found.end()
        try:
            chars = properties.find(found[1], found[2], ecma=True)
        except LookupError as error:
            raise self._error(begin, str(error), UnsupportedGrammar) from None
        return ~chars if negated else chars

    def _octal(self, begin: int) -> CharSet:
        """``\\0``; in Annex B also other octal numbers up to 377, and 8 and 9 as themselves."""
        spelled = r"\\(0(?![0-9]))" if self.strict else r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|[89])"
        found = re.compile(spelled).match(self.pattern, begin)
        if not found:
            raise self._error(begin, f"\\{self.pattern[begin + 1]} is not an escape of ECMA-262 here; write \\x..")
        self.at = found.end()
        return CharSet.of(found[1] if found[1] in "89" else chr(int(found[1], 8)))

    # -- classes

    def _class(self, flags: _Flags) -> Node:
        begin = self.at
        self.at += 1
        negated = self._next("^")
        union: list[tuple[int, int]] = []
        while not self._next("]"):
            low, low_at = self._member(begin, flags), self.at
            if not (self.pattern.startswith("-", self.at) and self.pattern[self.at + 1 : self.at + 2] not in ("]", "")):
                union += low.ranges
                continue
            self.at += 1
            high = self._member(begin, flags)
            if len(low) == len(high) == 1:
                if low.ranges[0][0] > high.ranges[0][0]:
                    raise self._error(low_at + 1, "the bounds of a range must be in order")
                union.append((low.ranges[0][0], high.ranges[0][0]))
            elif self.strict:
                raise self._error(low_at + 1, "the bounds of a range must be two characters")
            else:  # Annex B: no range, and the dash stands for itself
                union += [*low.ranges, *high.ranges, (0x2D, 0x2D)]
        chars = unicode.closed(CharSet(union), self._fold(flags))
        return Chars(~chars) if negated else Chars(chars) if chars else NOTHING

    def _member(self, begin: int, flags: _Flags) -> CharSet:
        if self.at >= len(self.pattern):
            raise self._error(begin, "a class is not closed with ]")
        char = self.pattern[self.at]
        if char == "\\":
            return self._characters(True, flags)
        self.at += 1
        return CharSet([(ord(char), ord(char))])


def _meant(letter: str) -> str:
    """What a letter that other dialects escape is in ECMA-262."""
    return {
        "A": "; write ^", "Z": "; write $", "z": "; write $", "h": r"; write [\t ]", "R": r"; write (\r\n|\n|\r)",
        "Q": "; escape each character", "E": "; escape each character", "a": r"; write \x07", "e": r"; write \x1b",
    }.get(letter, "")  # fmt: skip


def boundary(word: CharSet, negated: bool, *, not_in_empty_text: bool = False) -> Node:
    r"""``\b`` (``negated``: ``\B``). ``not_in_empty_text``: ``\B`` does not match in the empty text."""
    chars = Chars(word)
    before, not_before = Look(chars, True, False), Look(chars, True, True)
    after, not_after = Look(chars, False, False), Look(chars, False, True)
    if not negated:
        return Alternate((Concat((before, not_after)), Concat((not_before, after))))
    outside: Node = Concat((not_before, not_after))
    if not_in_empty_text:
        outside = concat([outside, Alternate((Look(Chars(ANY), True, False), Look(Chars(ANY), False, False)))])
    return Alternate((Concat((before, after)), outside))

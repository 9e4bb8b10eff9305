"""Languages given as automata over code points, read in bytes.

Some languages are easier to follow than to write as an expression: what is counted, nested or remembered is a
value of a **position**, and positions are made as they are met. ``Lifted`` is such a position as an expression,
in any encoding.

A position that remembers text (the name just being read, the label whose length in Punycode counts) differs from
all others, so a mask would visit a new state at every node of the vocabulary. Its ``loose`` twin forgets: it says
with which characters the text surely goes on, whatever was read, and which ones (``UNSURE``) need the memory. Masks
walk the twin, whose states are few and shared, and look closely only behind the unsure characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

import numpy as np
from numpy.typing import NDArray

from structgen.grammars.charset import ANY, CharSet
from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import (
    EPSILON,
    NEVER,
    UNSURE_OUTCOME,
    Alt,
    And,
    Expr,
    Literal,
    Rep,
    Seq,
    Switch,
    _intern,
    alt,
    both,
    out,
    seq,
)


class Position:
    """Where a text over code points is. Subclasses are frozen, hashable, and compare by content.

    Attributes:
        ends: the text may end here; None (loose positions only): it depends on what was forgotten.
        forgetful: this is a loose twin.
        checked: ``after`` may refuse characters of the moves whose target is None.
    """

    __slots__ = ()
    forgetful: bool = False
    checked: bool = False

    @property
    def ends(self) -> bool | None:
        raise NotImplementedError

    def moves(self) -> Sequence[tuple[CharSet, Position | None]]:
        """What may come next: disjoint sets of characters, each not empty (surrogates do not count), with the
        position that they lead to; None: each leads to its own, which ``after`` knows (in loose positions: ASCII
        only). Every position that is
        met can still come to an end; only ``checked`` ones may have moves to nowhere."""
        raise NotImplementedError

    def after(self, char: int) -> Position | None:
        """The position after a character of a move without target; None: nothing can follow it."""
        raise NotImplementedError

    def goes_on(self, chars: CharSet) -> bool:
        """Whether any of these characters leads on, of a move without target."""
        return any(self.after(char) is not None for char in chars if not 0xD800 <= char <= 0xDFFF)

    def loose(self) -> Position | None:
        """The twin without memory: of its moves those to forgetful positions and to others of this automaton
        hold for this position too; ``UNSURE`` ones must be looked up here. None: there is nothing to forget."""
        return None

    @property
    def longest(self) -> int | None:
        """No text that ends here is longer, in characters; None: not known."""
        return None

    @property
    def nearest(self) -> int:
        """No text that ends here is shorter, in characters."""
        return 0 if self.ends else 1

    def completion(self, at_least: int = 0) -> str | None:
        """A text that leads to an end, of at least so many characters and not many more; None: not known."""
        return None

    def wider(self) -> Position | None:
        """A position of few states with at least the same texts (without counters, say), to see at once that nothing
        satisfies an intersection; None: none is known."""
        return None

    def jump(self, text: str) -> Position | None:
        """The position after characters with which the loose twin surely goes on; None: not known without reading
        them one by one."""
        return None

    def sift(self, codes: NDArray[np.int32], offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which of the texts ``codes[offsets[i]:offsets[i+1]]`` (code points), with all of which the loose twin goes
        on, may really come next; None: all."""
        return None

    def clamped(self, limit: int) -> Position:
        """A position with the same answers for texts of at most ``limit`` bytes."""
        return self


class _Unsure(Position):
    __slots__ = ()
    ends = None


UNSURE: Position = _Unsure()
_UNSURE = out(UNSURE_OUTCOME)


class Lifted(Expr):
    """The texts that lead from a position to an end."""

    __slots__ = ("_steps", "encoding", "position")
    fields = ("position", "encoding")
    position: Position
    encoding: Encoding
    _steps: tuple[tuple[Expr, CharSet, Position | None], ...]

    def lies_within(self, counter: Rep) -> bool:
        if counter.lo or counter.body is not self.encoding.chars(ANY):
            return False
        return counter.hi is None or ((longest := self.position.longest) is not None and longest <= counter.hi)

    @property
    def remembers(self) -> bool:
        return self.position.loose() is not None

    @property
    def steps(self) -> tuple[tuple[Expr, CharSet, Position | None], ...]:
        """(spellings of a character, the characters, where they lead)"""
        try:
            return self._steps
        except AttributeError:
            self._steps = tuple((self.encoding.chars(chars), chars, to) for chars, to in self.position.moves())
            return self._steps

    def derive(self, byte: int) -> Expr:
        found = []
        for spelled, chars, to in self.steps:
            rest = spelled.derive(byte)
            if rest is NEVER:
                continue
            if to is None:
                found.append(_reading(self.position, self.encoding, chars, rest, bytes([byte])))
            else:
                found.append(seq(rest, lifted(to, self.encoding)))
        return found[0] if len(found) == 1 else alt(*found)

    def byte_class(self, byte: int) -> int:
        mask = -1
        for spelled, _, to in self.steps:
            if to is None and spelled.derive(byte) is not NEVER:
                return 1 << byte
            mask &= spelled.byte_class(byte)
        return mask & ((1 << 256) - 1)

    def loose(self, tail: Expr) -> Expr | None:
        twin = self.position.loose()
        return None if twin is None or tail.outcomes else _loose(twin, self.encoding, tail)

    def jump(self, text: str) -> Expr | None:
        to = self.position.jump(text)
        return None if to is None else lifted(to, self.encoding)

    def sift(self, codes: NDArray[np.int32], offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        return self.position.sift(codes, offsets)

    def clamped(self, limit: int) -> Expr:
        return lifted(self.position.clamped(limit), self.encoding)

    def __repr__(self) -> str:
        return f"Lifted({self.position!r})"


class Reading(Expr):
    """A position in the middle of a character that it will remember: ``prefix`` are the bytes read of one out of
    ``chars``, and ``rest`` is what may complete it."""

    __slots__ = ("chars", "encoding", "position", "prefix", "rest")
    fields = ("position", "encoding", "chars", "rest", "prefix")
    position: Position
    encoding: Encoding
    chars: CharSet
    rest: Expr
    prefix: bytes

    @property
    def remembers(self) -> bool:
        return True

    def derive(self, byte: int) -> Expr:
        return _reading(self.position, self.encoding, self.chars, self.rest.derive(byte), self.prefix + bytes([byte]))

    def byte_class(self, byte: int) -> int:
        return self.rest.byte_class(byte) if self.rest.derive(byte) is NEVER else 1 << byte

    def __repr__(self) -> str:
        return f"Reading({self.prefix!r}, {self.position!r})"


class Loose(Expr):
    """A loose position and what follows the text; ends with ``UNSURE_OUTCOME`` behind what it cannot tell."""

    __slots__ = ("_steps", "encoding", "position", "tail")
    fields = ("position", "encoding", "tail")
    position: Position
    encoding: Encoding
    tail: Expr
    _steps: tuple[tuple[Expr, Expr | None], ...]

    @property
    def steps(self) -> tuple[tuple[Expr, Expr | None], ...]:
        """(spellings of a character, what follows it)"""
        try:
            return self._steps
        except AttributeError:
            self._steps = tuple(
                (self.encoding.chars(chars), None if to is None else self._behind(to))
                for chars, to in self.position.moves()
            )
            return self._steps

    def _behind(self, to: Position) -> Expr:
        if to is UNSURE:
            return _UNSURE
        if to.forgetful:
            return _loose(to, self.encoding, self.tail)
        return seq(lifted(to, self.encoding), self.tail)

    def derive(self, byte: int) -> Expr:
        closed = NEVER if self.position.ends is False else self.tail.derive(byte)
        if closed is not NEVER and self.position.ends is None:
            return _UNSURE
        found = [] if closed is NEVER else [closed]
        for spelled, behind in self.steps:
            rest = spelled.derive(byte)
            if rest is NEVER:
                continue
            if behind is None:
                # Escapes of such a character are rare: they are looked up.
                to = self.position.after(byte) if rest is EPSILON else UNSURE
                assert to is not None
                behind = self._behind(to)
            found.append(seq(rest, behind))
        return alt(*found)

    def byte_class(self, byte: int) -> int:
        mask = self.tail.byte_class(byte)
        for spelled, behind in self.steps:
            if behind is None and spelled.derive(byte) is EPSILON:
                return 1 << byte
            mask &= spelled.byte_class(byte)
        return mask

    def __repr__(self) -> str:
        return f"Loose({self.position!r}, {self.tail!r})"


def completion(expr: Expr, at_least: int = 0) -> bytes | None:
    """A string of the language of an expression with positions, of at least so many characters; None: not known."""
    if isinstance(expr, Lifted):
        text = expr.position.completion(at_least)
        return None if text is None else _spelled(text, expr.encoding)
    if isinstance(expr, Reading):
        for char in expr.chars & _under(expr.prefix):
            to = None if 0xD800 <= char <= 0xDFFF else expr.position.after(char)
            text = None if to is None else to.completion(max(at_least - 1, 0))
            if text is None:
                continue
            n = len(expr.prefix)
            begun = [each for each in expr.encoding.spellings(chr(char)) if each.startswith(expr.prefix)]
            return min(begun, key=len)[n:] + _spelled(text, expr.encoding) if begun else None
        return None
    if isinstance(expr, Seq):
        tail = completion(expr.tail, at_least)
        if tail is None and isinstance(expr.tail, Literal):
            tail = expr.tail.data
        head = None if tail is None else completion(expr.head) or _shortest(expr.head)
        return None if head is None or tail is None else head + tail
    if isinstance(expr, Alt):
        return next((found for item in expr.items if (found := completion(item, at_least)) is not None), None)
    if isinstance(expr, Switch):
        for lo, _, rest in expr.cases:
            if (found := completion(rest, at_least)) is not None:
                return bytes([lo]) + found
    return None


def _shortest(expr: Expr) -> bytes | None:
    """The shortest string of an expression without positions."""
    from structgen.grammars import least

    return least.word(expr, None) if not expr.boolean and least.ends(expr) else None


def widened(expr: Expr) -> Expr:
    """A language that holds that of ``expr``, with fewer states where positions are in it; else ``expr``."""
    if isinstance(expr, Lifted):
        wide = expr.position.wider()
        return expr.encoding.any_text if wide is None else lifted(wide, expr.encoding)
    if isinstance(expr, Reading):
        return seq(expr.rest, expr.encoding.any_text)
    if isinstance(expr, Seq):
        head, tail = widened(expr.head), widened(expr.tail)
        return expr if head is expr.head and tail is expr.tail else seq(head, tail)
    if isinstance(expr, (Alt, And)):
        items = [widened(item) for item in expr.items]
        if all(map(is_, items, expr.items)):
            return expr
        return alt(*items) if isinstance(expr, Alt) else both(*items)
    return expr


def _spelled(text: str, encoding: Encoding) -> bytes:
    return b"".join(min(encoding.spellings(char), key=len) for char in text)


def only_unsure(expr: Expr) -> bool:
    """Whether a loose expression read into the middle of a character is unsure whatever completes it."""
    if isinstance(expr, Alt):
        return all(only_unsure(item) for item in expr.items)
    while isinstance(expr, Seq):
        expr = expr.tail
    return expr is _UNSURE


def lifted(position: Position, encoding: Encoding) -> Expr:
    """The texts that lead from ``position`` to an end, spelled in ``encoding``."""
    made: Expr = _intern(Lifted, (position, encoding), False, (0,) if position.ends else ())
    return made


def _loose(position: Position, encoding: Encoding, tail: Expr) -> Expr:
    made: Expr = _intern(Loose, (position, encoding, tail), tail.boolean, ())
    return made


def _reading(position: Position, encoding: Encoding, chars: CharSet, rest: Expr, prefix: bytes) -> Expr:
    if rest is NEVER:
        return NEVER
    if rest is EPSILON:
        to = position.after(decoded(prefix))
        return NEVER if to is None else lifted(to, encoding)
    if position.checked and not position.goes_on(chars & _under(prefix)):
        return NEVER
    made: Expr = _intern(Reading, (position, encoding, chars, rest, prefix), False, ())
    return made


_SHORT = {ord(k): ord(v) for k, v in zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True)}


def decoded(spelled: bytes) -> int:
    """The code point of one character in UTF-8 or as an escape of JSON."""
    if len(spelled) > 1 and spelled[0] == 0x5C:
        if spelled[1] != 0x75:
            return _SHORT[spelled[1]]
        unit = int(spelled[2:6], 16)
        if len(spelled) > 6:
            return 0x10000 + ((unit - 0xD800) << 10) + int(spelled[8:12], 16) - 0xDC00
        return unit
    return ord(spelled.decode())


def _under(prefix: bytes) -> CharSet:
    """The characters that may be spelled with this beginning."""
    if prefix[0] != 0x5C:
        size = 2 if prefix[0] < 0xE0 else 3 if prefix[0] < 0xF0 else 4
        lo = hi = prefix[0] & (0xFF >> (size + 1))
        for i in range(1, size):
            lo = lo << 6 | (prefix[i] & 0x3F if i < len(prefix) else 0)
            hi = hi << 6 | (prefix[i] & 0x3F if i < len(prefix) else 0x3F)
        return CharSet([(max(lo, (0x80, 0x800, 0x10000)[size - 2]), min(hi, 0x10FFFF))])
    if len(prefix) < 2:
        return ANY
    lo, hi = (int(prefix[2:6].ljust(4, fill), 16) for fill in (b"0", b"f"))
    pairs = (max(lo, 0xD800), min(hi, 0xDBFF))
    if pairs[0] > pairs[1]:
        return CharSet([(lo, hi)])
    low, high = (max(int(prefix[8:12].ljust(4, b"0"), 16), 0xDC00), min(int(prefix[8:12].ljust(4, b"f"), 16), 0xDFFF))
    first, last = (0x10000 + ((lead - 0xD800) << 10) - 0xDC00 for lead in pairs)
    return CharSet([(lo, hi), (first + low, last + high)] if len(prefix) < 6 else [(first + low, last + high)])

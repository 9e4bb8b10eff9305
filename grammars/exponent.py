"""The exponent of a number, when it must lie in some intervals."""

from __future__ import annotations

from structgen.grammars.expr import ALL_BYTES, EPSILON, NEVER, Expr, _intern, optional, rep, seq
from structgen.grammars.numbers import DIGIT, DIGITS, SIGN

Spans = tuple[tuple[int | None, int | None], ...]
"""Disjoint intervals of integers, ascending; None: no end."""
EVERY: Spans = ((None, None),)

_DIGIT_BITS = ((1 << 58) - 1) ^ ((1 << 48) - 1)
_SIGN_BITS = 1 << 0x2B | 1 << 0x2D
_NO_EXPONENT = ALL_BYTES & ~(_DIGIT_BITS | _SIGN_BITS)
_ANY_EXPONENT = seq(optional(SIGN), rep(DIGIT, 1))

_MARK, _FIRST, _MORE = range(3)
"""The letter read; the sign read (or none there); digits read."""


def holds(spans: Spans, value: int) -> bool:
    return any((lo is None or lo <= value) and (hi is None or value <= hi) for lo, hi in spans)


class Exponent(Expr):
    """The exponent behind its letter, one of ``spans``. Once the sign is known ``spans`` are natural numbers, of which
    ``read`` is spelled already."""

    __slots__ = ("read", "spans", "stage")
    fields = ("spans", "stage", "read")
    spans: Spans
    stage: int
    read: int

    def derive(self, byte: int) -> Expr:
        if 0x30 <= byte <= 0x39:
            if self.stage == _MARK:
                return self._signed(1).derive(byte)
            return _natural(self.spans, 10 * self.read + byte - 0x30, _MORE)
        if self.stage == _MARK and byte in (0x2B, 0x2D):
            return self._signed(0x2C - byte)
        return NEVER

    def _signed(self, sign: int) -> Expr:
        found: list[tuple[int | None, int | None]] = []
        for lo, hi in self.spans:
            if sign < 0:
                lo, hi = None if hi is None else -hi, None if lo is None else -lo
            if hi is None or hi >= 0:
                found.append((max(lo or 0, 0), hi))
        return _natural(tuple(found[::sign]), 0, _FIRST)

    def byte_class(self, byte: int) -> int:
        signs = 0 if self.stage == _MARK else _SIGN_BITS
        return 1 << byte if (_DIGIT_BITS | _SIGN_BITS) & ~signs & 1 << byte else _NO_EXPONENT | signs

    def __repr__(self) -> str:
        return f"Exponent({self.spans}, {self.stage}, {self.read})"


def exponent(spans: Spans) -> Expr:
    """The spellings, behind the letter, of the integers in ``spans``."""
    if not spans:
        return NEVER
    if spans == EVERY:
        return _ANY_EXPONENT
    made: Expr = _intern(Exponent, (spans, _MARK, 0), False, ())
    return made


def _natural(spans: Spans, read: int, stage: int) -> Expr:
    """Natural numbers, with leading zeros, of which ``read`` is spelled."""
    spans = tuple((max(lo or 0, read), hi) for lo, hi in spans if _may_become(read, lo or 0, hi))
    if not spans:
        return NEVER
    if spans == ((read, None),):
        return DIGITS if stage == _MORE else rep(DIGIT, 1)
    most = spans[-1][1]
    if read and most is not None and most < 10 * read:
        return EPSILON
    outcomes = (0,) if stage == _MORE and spans[0][0] == read else ()
    made: Expr = _intern(Exponent, (spans, stage, read), False, outcomes)
    return made


def _may_become(read: int, lo: int, hi: int | None) -> bool:
    """Whether ``read``, or ``read`` with more digits, is in the interval."""
    if hi is None or read == 0:
        return True
    least = most = read
    while least <= hi:
        if most >= lo:
            return True
        least, most = 10 * least, 10 * most + 9
    return False

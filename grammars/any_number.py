"""JSON numbers in every spelling (RFC 8259 section 6), chosen by their value.

``1``, ``1.0``, ``10e-1`` and ``0.001E+3`` are one value, so the numbers in a range, or the multiples of a step, are
no regular language: ``1000e-3`` needs as many zeros as its exponent says. Their derivatives have a small exact
description all the same. A number is ``0.d1 d2 ... dn * 10**(point + exponent)`` with ``d1`` not 0, and what matters
of the digits read so far is

* ``point``, and for each bound and each listed value whether the digits are smaller, equal so far, or larger;
* for each step ``S / 10**places`` (S not divisible by 10) the digits modulo S, and the least number of zeros (``lag``)
  that would make them, less the zeros they end with, divisible by S.

The exponents that then give a good value are an interval: bounds cut it on either side, a multiple stays a multiple
with every larger exponent, and what must be no multiple cuts it from above. Single values cut points out. All
arithmetic is on integers as long as the spelling; nothing is ever raised to the power of an exponent that is read.

A prefix is alive when some value begins with its digits: exponents take the decimal point wherever it is needed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from structgen.grammars.exponent import EVERY, Spans, exponent, holds
from structgen.grammars.expr import (
    ALL_BYTES,
    NEVER,
    Alt,
    Expr,
    Seq,
    _intern,
    _interned,
    alt,
    literal,
    optional,
    rep,
    seq,
)
from structgen.grammars.magnitudes import Digits, Magnitudes, Step, common, digits_of, magnitudes, step_of
from structgen.grammars.numbers import DIGIT, DIGITS, EXPONENT, FRACTION, NATURAL

_DIGIT_BITS = ((1 << 58) - 1) ^ ((1 << 48) - 1)
_MARK_BITS = 1 << 0x65 | 1 << 0x45
_NO_NUMBER = ALL_BYTES & ~(_DIGIT_BITS | _MARK_BITS | 1 << 0x2E)

_START, _ZERO, _WHOLE, _POINT, _FRACTION = range(5)
"""Nothing read; a leading 0; other digits before the point; the point; digits behind it."""

_TAILS = {
    _START: seq(NATURAL, optional(FRACTION), optional(EXPONENT)),
    _ZERO: seq(optional(FRACTION), optional(EXPONENT)),
    _WHOLE: seq(DIGITS, optional(FRACTION), optional(EXPONENT)),
    _POINT: seq(rep(DIGIT, 1), optional(EXPONENT)),
    _FRACTION: seq(DIGITS, optional(EXPONENT)),
}
_ONLY_ZERO = seq(literal(b"0"), optional(seq(literal(b"."), rep(literal(b"0"), 1))), optional(EXPONENT))
_MINUS = literal(b"-")


class Mantissa(Expr):
    """A number without its sign, before its exponent. Two prefixes with equal fields have the same continuations.

    Attributes:
        among: the conditions.
        phase: where the reading is, see above.
        started: a digit other than 0 was read.
        point: the value is 0.d1 d2 ... * 10**point; before the first digit, less the zeros behind the point. 0 if
            nothing asks for it any more.
        count: digits from d1 on, at most ``among.longest``. 0 if nothing asks for it any more.
        low, high: -1, 0, 1: the digits are smaller than those of the bound, equal so far, larger.
        first, last: ``among.listed[first:last]`` begin with the digits.
        places: digits behind the point, and ``shift``: those less the zeros at the end of the digits. Both 0 without
            steps.
        rests: for each step the digits modulo it, and their lag.
        spans: the exponents with which the number is one of those wanted.
        example: digits that led here, as an integer, and how many; None unless ``among.checked``.
    """

    __slots__ = (
        "among", "count", "example", "first", "high", "last", "low", "phase", "places", "point", "rests", "shift",
        "spans", "started",
    )  # fmt: skip
    fields = (
        "among", "phase", "started", "point", "count", "low", "high", "first", "last", "places", "shift", "rests",
    )  # fmt: skip
    among: Magnitudes
    phase: int
    started: bool
    point: int
    count: int
    low: int
    high: int
    first: int
    last: int
    places: int
    shift: int
    rests: tuple[tuple[int, int | None], ...]
    spans: Spans
    example: tuple[int, int] | None

    def derive(self, byte: int) -> Expr:
        phase = self.phase
        if 0x30 <= byte <= 0x39:
            return NEVER if phase == _ZERO else self._digit(byte - 0x30)
        if byte == 0x2E and phase in (_ZERO, _WHOLE):
            return _mantissa(
                self.among, _POINT, self.started, self.point, self.count, self.low, self.high, self.first, self.last,
                self.places, self.shift, self.rests, self.example,
            )  # fmt: skip
        if byte in (0x65, 0x45) and phase not in (_START, _POINT):
            return exponent(self.spans)
        return NEVER

    def _digit(self, digit: int) -> Expr:
        among, phase = self.among, self.phase
        if phase == _START:
            phase = _WHOLE if digit else _ZERO
        elif phase == _POINT:
            phase = _FRACTION
        behind = phase == _FRACTION
        places = self.places + behind
        if not digit and not self.started:
            return _mantissa(
                among, phase, False, self.point - behind, 0, self.low, self.high, self.first, self.last, places, 0,
                self.rests, None,
            )  # fmt: skip
        low, high, first, last, at = self.low, self.high, self.first, self.last, self.count
        if not low:
            assert among.lo is not None
            low = _sign(digit - among.lo.digit(at))
        if not high:
            assert among.hi is not None
            high = _sign(digit - among.hi.digit(at))
        if first < last:
            first = bisect_left(among.listed, digit, first, last, key=lambda each: each.digit(at))
            last = bisect_right(among.listed, digit, first, last, key=lambda each: each.digit(at))
        rests: tuple[tuple[int, int | None], ...] = ()
        shift = places if digit else self.shift - (not behind)
        for step, (rest, lag) in zip(among.steps, self.rests, strict=True):
            rest = (10 * rest + digit) % step.scaled
            rests += ((rest, step.lag(rest) if digit else lag),)
        example = None
        if among.checked:
            prefix, length = self.example or (0, 0)
            example = 10 * prefix + digit, length + 1
        return _mantissa(
            among, phase, True, self.point + (not behind), at + 1, low, high, first, last, places, shift, rests, example
        )

    def byte_class(self, byte: int) -> int:
        if not _DIGIT_BITS >> byte & 1:
            return _MARK_BITS if byte in (0x65, 0x45) else 1 << byte if byte == 0x2E else _NO_NUMBER
        among, digit = self.among, byte - 0x30
        if self.phase == _ZERO:
            return _DIGIT_BITS
        if digit == 0 or self.first < self.last or any(step.scaled > 1 for step in among.steps):
            return 1 << byte
        # Digits that compare alike lead to the same state.
        least, most = 1, 9
        for pending, bound in ((not self.low, among.lo), (not self.high, among.hi)):
            if pending and bound is not None:
                edge = bound.digit(self.count)
                if digit == edge:
                    return 1 << byte
                least, most = (least, min(most, edge - 1)) if digit < edge else (max(least, edge + 1), most)
        return (1 << (0x31 + most)) - (1 << (0x30 + least))

    def __repr__(self) -> str:
        return f"Mantissa({', '.join(f'{name}={getattr(self, name)}' for name in self.fields[1:])})"


def _sign(difference: int) -> int:
    return (difference > 0) - (difference < 0)


def _mantissa(
    among: Magnitudes,
    phase: int,
    started: bool,
    point: int,
    count: int,
    low: int,
    high: int,
    first: int,
    last: int,
    places: int,
    shift: int,
    rests: tuple[tuple[int, int | None], ...],
    example: tuple[int, int] | None,
) -> Expr:
    steps = among.steps
    if first >= last:
        first = last = 0
        if among.only:
            return NEVER
        if not (among.lo or among.hi):
            point = 0
            if started and not steps:
                return _TAILS[phase]
    count = min(count, among.longest) if not low or not high or last else 0
    if not steps:
        places = shift = 0
    key = (among, phase, started, point, count, low, high, first, last, places, shift, rests)
    known: Expr | None = _interned.get((Mantissa, key))
    if known is not None:
        return known
    if example is not None and not among.reaches(*example):
        return NEVER
    if started:
        spans = _good_exponents(among, point, count, low, high, first, last, shift, rests)
    else:
        spans = EVERY if among.zero else ()
    outcomes = (0,) if phase not in (_START, _POINT) and holds(spans, 0) else ()
    made: Mantissa = _intern(Mantissa, key, False, outcomes)
    made.spans, made.example = spans, example
    return made


def _good_exponents(
    among: Magnitudes,
    point: int,
    count: int,
    low: int,
    high: int,
    first: int,
    last: int,
    shift: int,
    rests: tuple[tuple[int, int | None], ...],
) -> Spans:
    """The exponents with which the digits read make one of the values."""
    equal = sorted({each.point - point for each in among.listed[first:last] if len(each.digits) <= count})
    if among.only:
        return tuple((each, each) for each in equal)
    least: int | None = None
    most: int | None = None
    if among.lo is not None:
        if low == 0 and count < len(among.lo.digits):
            low = -1
        least = among.lo.point - point + (low < 0 or (low == 0 and among.lo_open))
    if among.hi is not None:
        if high == 0 and count < len(among.hi.digits):
            high = -1
        most = among.hi.point - point - (high > 0 or (high == 0 and among.hi_open))
    for i, (step, (_, lag)) in enumerate(zip(among.steps, rests, strict=True)):
        wanted = i == 0 and among.step is not None
        if lag is None:
            if wanted:
                return ()
            continue
        bound = lag + shift - step.places
        if wanted:
            least = bound if least is None else max(least, bound)
        else:
            most = bound - 1 if most is None else min(most, bound - 1)
    found: list[tuple[int | None, int | None]] = []
    for gap in equal:
        if (least is None or least <= gap) and (most is None or gap <= most):
            if least != gap:
                found.append((least, gap - 1))
            least = gap + 1
    if least is None or most is None or least <= most:
        found.append((least, most))
    return tuple(found)


def number(
    lo: Decimal | None = None,
    hi: Decimal | None = None,
    *,
    lo_open: bool = False,
    hi_open: bool = False,
    multiples: Iterable[Decimal] = (),
    not_multiples: Iterable[Decimal] = (),
    excluded: Iterable[Decimal] = (),
) -> Expr:
    """Every spelling of the numbers from ``lo`` to ``hi`` (None: no bound; ``*_open``: without the bound itself) that
    are multiples of all ``multiples`` and of none of ``not_multiples``, and not ``excluded``; ``NEVER`` when there is
    none. Integers are the multiples of 1.

    Raises:
        GrammarTooComplex: more than ``MAX_DIGITS`` digits of a value, ``MAX_STEP_DIGITS`` of a step.
    """
    return _number(
        lo, hi, lo_open and lo is not None, hi_open and hi is not None, frozenset(multiples), frozenset(not_multiples),
        frozenset(excluded),
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _number(
    lo: Decimal | None,
    hi: Decimal | None,
    lo_open: bool,
    hi_open: bool,
    multiples: frozenset[Decimal],
    not_multiples: frozenset[Decimal],
    excluded: frozenset[Decimal],
) -> Expr:
    step: Step | None = None
    for each in multiples:
        step = step_of(each) if step is None else common(step, step_of(each))
    others: set[Step] = set()
    for each in not_multiples:
        other = step_of(each)
        if step is not None and common(step, other) == step:
            return NEVER
        others.add(other)
    # A multiple of a multiple is excluded by the latter.
    kept = tuple(sorted(a for a in others if not any(a != b and common(a, b) == a for b in others)))
    zero = (
        not kept
        and (lo is None or lo < 0 or (lo == 0 and not lo_open))
        and (hi is None or hi > 0 or (hi == 0 and not hi_open))
        and Decimal(0) not in excluded
    )
    above, below = [each for each in excluded if each > 0], [each for each in excluded if each < 0]
    return _with_signs(
        _side(zero, lo, lo_open, hi, hi_open, step, kept, above),
        _side(zero, _opposite(hi), hi_open, _opposite(lo), lo_open, step, kept, below),
    )


def _opposite(value: Decimal | None) -> Decimal | None:
    return None if value is None else value.copy_negate()


def _with_signs(positive: Expr, negative: Expr) -> Expr:
    return alt(positive, seq(_MINUS, negative))


def _side(
    zero: bool,
    low: Decimal | None,
    lo_open: bool,
    high: Decimal | None,
    hi_open: bool,
    step: Step | None,
    others: tuple[Step, ...],
    excluded: list[Decimal],
) -> Expr:
    """The numbers of one sign, without it."""
    if low is not None and (low <= 0 or (step is not None and (low, lo_open) <= (step.value(), False))):
        low, lo_open = None, False  # every multiple is that large
    if high is not None and (high <= 0 or (low is not None and (low > high or (low == high and (lo_open or hi_open))))):
        return _ONLY_ZERO if zero else NEVER
    lo = None if low is None else digits_of(low)
    hi = None if high is None else digits_of(high)
    if lo is not None and lo == hi:
        point = magnitudes(zero, None, False, None, False, step, others, (), False)
        return _listed(zero, [lo] if point.hold(lo) and lo not in map(digits_of, excluded) else [])
    among = magnitudes(zero, lo, lo_open, hi, hi_open, step, others, (), False)
    return side(_less(among, zero, map(digits_of, excluded)))


def side(among: Magnitudes) -> Expr:
    """Every spelling of the magnitudes."""
    if among.empty:
        return _ONLY_ZERO if among.zero else NEVER
    if among.free and among.zero:
        return _TAILS[_START]
    low, high = 1 if among.lo is None else 0, -1 if among.hi is None else 0
    rests: tuple[tuple[int, int | None], ...] = ((0, None),) * len(among.steps)
    return _mantissa(among, _START, False, 0, 0, low, high, 0, len(among.listed), 0, 0, rests, None)


def _less(among: Magnitudes, zero: bool, excluded: Iterable[Digits]) -> Magnitudes:
    """``among`` without some values."""
    gone = set(excluded)
    if among.only:
        listed = set(among.listed) - gone
    else:
        listed = {*among.listed, *(each for each in gone if among.hold(each))}
    return magnitudes(
        zero, among.lo, among.lo_open, among.hi, among.hi_open, among.step, among.others, tuple(sorted(listed)),
        among.only,
    )  # fmt: skip


def _listed(zero: bool, values: Iterable[Digits]) -> Expr:
    return side(magnitudes(zero, None, False, None, False, None, (), tuple(sorted(set(values))), True))


def values(allowed: Iterable[Decimal]) -> Expr:
    """Every spelling of each of the values. Raises GrammarTooComplex for one of more than ``MAX_DIGITS`` digits."""
    allowed = set(allowed)
    zero = Decimal(0) in allowed
    return _with_signs(
        _listed(zero, [digits_of(each) for each in allowed if each > 0]),
        _listed(zero, [digits_of(each) for each in allowed if each < 0]),
    )


class Part(NamedTuple):
    """The numbers of one sign in an expression made here."""

    negative: bool
    among: Magnitudes


def parts(expr: Expr) -> tuple[list[Part], Expr]:
    """The numbers in a union that are spelled in every way, and the rest of it."""
    found: list[Part] = []
    rest: list[Expr] = []
    for item in expr.items if isinstance(expr, Alt) else (expr,):
        negative = isinstance(item, Seq) and item.head is _MINUS
        among = _magnitudes_of(item.tail if negative and isinstance(item, Seq) else item)
        if among is None:
            rest.append(item)
        else:
            found.append(Part(negative, among))
    return found, alt(*rest)


def _magnitudes_of(expr: Expr) -> Magnitudes | None:
    if isinstance(expr, Mantissa):
        return expr.among if expr.phase == _START else None
    if expr is _TAILS[_START] or expr is _ONLY_ZERO:
        return magnitudes(True, None, False, None, False, None, (), (), expr is _ONLY_ZERO)
    return None


def union(found: Iterable[Part]) -> Expr:
    """The numbers of the parts, in every spelling."""
    return alt(*[seq(_MINUS, side(among)) if negative else side(among) for negative, among in found])


def without(expr: Expr, excluded: Iterable[Decimal]) -> Expr:
    """``expr`` (a union, see ``parts``) without the values. No complement is built, whose emptiness could not be
    decided by a search: there is no end to the zeros of a number."""
    excluded = set(excluded)
    found, rest = parts(expr)
    made = [rest]
    for negative, among in found:
        same = [digits_of(each) for each in excluded if (each < 0 if negative else each > 0)]
        left = side(_less(among, among.zero and 0 not in excluded, same))
        made.append(seq(_MINUS, left) if negative else left)
    return alt(*made)


def size(found: Iterable[Part], most: int) -> int:
    """How many values the parts have, up to ``most``; some may be counted twice from 10,000 on."""
    found = list(found)
    sizes = [among.size() for _, among in found]
    total = most + 1
    if None not in sizes:
        total = sum(each or 0 for each in sizes) + any(among.zero for _, among in found)
    if total <= 10_000:
        total = len(members(found, total) or ())
    return min(total, most)


def members(found: Iterable[Part], most: int) -> set[Decimal] | None:
    """The values of the parts; None if there are more than ``most``."""
    held: set[Decimal] = set()
    for negative, among in found:
        some = among.members(most)
        if some is None:
            return None
        held.update(each.copy_negate() if negative else each for each in some)
        if among.zero:
            held.add(Decimal(0))
    return held if len(held) <= most else None

"""JSON numbers in a range, exactly.

The spelling is JSON's (RFC 8259 section 6) without an exponent: ``-?(0|[1-9]\\d*)(\\.\\d+)?``. ``-0`` is
zero. Bounds are compared digit by digit with the decimal text of the bound, so no rounding ever happens:
``number(Decimal("0.1"), None)`` has ``0.10`` and ``0.1000001`` and not ``0.0999``.

An exponent is only possible without bounds; a number in a range always has a spelling without one.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import lru_cache

from structgen.errors import GrammarError, GrammarTooComplex
from structgen.grammars.expr import EPSILON, NEVER, Expr, alt, literal, optional, rep, seq, switch

MAX_DIGITS = 10_000

DIGIT = switch([(0x30, 0x39, EPSILON)])
DIGITS = rep(DIGIT)
_ZEROS = rep(literal(b"0"))
NATURAL = alt(literal(b"0"), switch([(0x31, 0x39, DIGITS)]))
FRACTION = seq(literal(b"."), rep(DIGIT, 1))
_MORE_THAN_ZERO = seq(_ZEROS, switch([(0x31, 0x39, DIGITS)]))  # more digits, not all of them 0
SIGN = switch([(0x2B, 0x2B, EPSILON), (0x2D, 0x2D, EPSILON)])
EXPONENT = seq(switch([(0x45, 0x45, EPSILON), (0x65, 0x65, EPSILON)]), optional(SIGN), rep(DIGIT, 1))


def parse_bound(value: int | float | Decimal) -> Decimal:
    """The exact value of a bound. A float means the shortest decimal text that reads back as it (0.1 is
    one tenth).

    Raises:
        GrammarError: not a finite number.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise GrammarError(f"a bound must be a number, not {value!r}")
    bound = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not bound.is_finite():
        raise GrammarError(f"a bound must be a finite number, not {value!r}")
    return bound


@lru_cache(maxsize=1024)
def integer(lo: int | None, hi: int | None) -> Expr:
    """Integers from ``lo`` to ``hi``, both included (None: no bound); ``NEVER`` when there is none."""
    low = None if lo is None else Decimal(lo)
    high = None if hi is None else Decimal(hi)
    return _signed(low, high, False, False, fraction=False)


@lru_cache(maxsize=1024)
def number(lo: Decimal | None, hi: Decimal | None, *, lo_open: bool = False, hi_open: bool = False,
           exponent: bool = False) -> Expr:
    """Numbers from ``lo`` to ``hi`` (None: no bound), without the bound itself where ``*_open``.

    Args:
        exponent: exponents may be written; without effect when there is a bound.
    """
    if lo is not None and lo == hi and not lo_open and not hi_open and abs(lo.adjusted()) > MAX_DIGITS:
        return _far_value(lo)
    made = _signed(lo, hi, lo_open, hi_open, fraction=True)
    return seq(made, optional(EXPONENT)) if exponent and lo is None and hi is None else made


def _far_value(value: Decimal) -> Expr:
    """The spellings of one value that has too many zeros to be written out here."""
    sign, digits, exponent = value.normalize(Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)).as_tuple()
    assert isinstance(exponent, int)
    spelled, zero = literal(bytes(0x30 + digit for digit in digits)), literal(b"0")
    if exponent > 0:
        made = seq(spelled, rep(zero, exponent, exponent), optional(seq(literal(b"."), rep(zero, 1))))
    else:
        before = -exponent - len(digits)
        made = seq(literal(b"0."), rep(zero, before, before), spelled, _ZEROS)
    return seq(literal(b"-"), made) if sign else made


def _signed(lo: Decimal | None, hi: Decimal | None, lo_open: bool, hi_open: bool, *, fraction: bool) -> Expr:
    positive = negative = NEVER
    zero = Decimal(0)
    if hi is None or hi >= 0:
        if lo is None or lo < 0:
            positive = _magnitude(zero, hi, False, hi_open, fraction)
        else:
            positive = _magnitude(lo, hi, lo_open, hi_open, fraction)
    if lo is None or lo <= 0:
        high = None if lo is None else lo.copy_negate()
        if hi is None or hi > 0:
            negative = _magnitude(zero, high, False, lo_open, fraction)
        else:
            negative = _magnitude(hi.copy_negate(), high, hi_open, lo_open, fraction)
    return alt(positive, NEVER if negative is NEVER else seq(literal(b"-"), negative))


def _magnitude(lo: Decimal, hi: Decimal | None, lo_open: bool, hi_open: bool, fraction: bool) -> Expr:
    """Unsigned numbers between ``lo`` >= 0 and ``hi``."""
    if hi is not None and (lo > hi or (lo == hi and (lo_open or hi_open))):
        return NEVER
    if hi is None and lo == 0 and not lo_open:
        return seq(NATURAL, optional(FRACTION)) if fraction else NATURAL
    low, high = _Bound(lo, lo_open), None if hi is None else _Bound(hi, hi_open)
    found = [_same_length(low.length, low, high if high and high.length == low.length else None, fraction)]
    if high is None or high.length > low.length + 1:  # lengths that neither bound has
        between = rep(DIGIT, low.length, None if high is None else high.length - 2)
        tail = optional(FRACTION) if fraction else EPSILON
        found.append(seq(switch([(0x31, 0x39, EPSILON)]), between, tail))
    if high and high.length > low.length:
        found.append(_same_length(high.length, None, high, fraction))
    return alt(*found)


class _Bound:
    """The digits of a bound.

    Attributes:
        length: digits before the point, without leading zeros, at least 1.
        digits: those, then those after the point, without trailing zeros there.
    """

    def __init__(self, value: Decimal, is_open: bool) -> None:
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        if max(len(digits), abs(exponent)) > MAX_DIGITS:
            raise GrammarTooComplex(f"a bound has more than {MAX_DIGITS:,} digits: {str(value)[:40]}")
        text = "".join(map(str, digits)) + "0" * exponent
        point = len(text) + min(exponent, 0)
        whole = (text[:point] if point > 0 else "").lstrip("0") or "0"
        after = (text[point:] if point > 0 else "0" * -point + text) if exponent < 0 else ""
        self.length = len(whole)
        self.digits = [int(digit) for digit in whole + after.rstrip("0")]
        self.is_open = is_open

    def digit(self, at: int) -> int:
        return self.digits[at] if at < len(self.digits) else 0


def _same_length(length: int, low: _Bound | None, high: _Bound | None, fraction: bool) -> Expr:
    """Numbers with ``length`` digits before the point, not below ``low`` and not above ``high``, which have
    as many. Built from the last digit to the first: ``rest[l, h]`` is what may follow ``at`` digits that equal
    those of the low (l) and of the high (h) bound."""
    ways = [(l, h) for l in (False, True) for h in (False, True) if (low or not l) and (high or not h)]
    last = length
    if fraction:
        last = max(length + 1, *[len(bound.digits) for bound in (low, high) if bound])
    rest = {way: _tail(low if way[0] else None, high if way[1] else None) for way in ways}
    if not fraction:
        rest = {way: EPSILON if _may_stop(length, way, low, high) else NEVER for way in ways}
    for at in range(last - 1, -1, -1):
        before: dict[tuple[bool, bool], Expr] = {}
        for way in ways:
            if way == (False, False):
                before[way] = _free(length - at, fraction)
                continue
            digit = _digit(at, way, low, high, rest, leading=at == 0 and length > 1)
            if at == length:
                digit = NEVER if digit is NEVER else seq(literal(b"."), digit)
            stop = EPSILON if at >= length and _may_stop(at, way, low, high) else NEVER
            before[way] = alt(digit, stop)
        rest = before
    return rest[low is not None, high is not None]


def _digit(at: int, way: tuple[bool, bool], low: _Bound | None, high: _Bound | None,
           rest: dict[tuple[bool, bool], Expr], leading: bool) -> Expr:
    """One digit, then what may follow it."""
    smallest = low.digit(at) if low and way[0] else 0
    largest = high.digit(at) if high and way[1] else 9
    cases = []
    for digit in range(max(smallest, leading), largest + 1):
        after = way[0] and digit == smallest, way[1] and digit == largest
        cases.append((0x30 + digit, 0x30 + digit, rest[after]))
    return switch(cases)


def _free(missing: int, fraction: bool) -> Expr:
    """What may follow when no bound matters any more and ``missing`` digits before the point are left."""
    if missing < 0:
        return DIGITS
    whole = rep(DIGIT, missing, missing) if missing else EPSILON
    return seq(whole, optional(FRACTION)) if fraction else whole


def _may_stop(at: int, way: tuple[bool, bool], low: _Bound | None, high: _Bound | None) -> bool:
    """Whether a number of these ``at`` digits is in range."""
    if low and way[0] and (at < len(low.digits) or low.is_open):
        return False
    return not (high and way[1] and at >= len(high.digits) and high.is_open)


def _tail(low: _Bound | None, high: _Bound | None) -> Expr:
    """Digits behind all those of the bounds that the number equals so far."""
    if high:
        return NEVER if high.is_open or (low and low.is_open) else _ZEROS
    return _MORE_THAN_ZERO if low and low.is_open else DIGITS

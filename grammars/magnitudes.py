"""Conditions on the value of a number, decided exactly: bounds, steps, single values.

Numbers are digits and the place of their point, so that ``1e400000000`` is compared and not written out.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from structgen.errors import GrammarTooComplex
from structgen.grammars.numbers import MAX_DIGITS

MAX_STEP_DIGITS = 1_000


class Digits(NamedTuple):
    """The value 0.``digits`` * 10**``point``, above 0; neither end of ``digits`` is 0."""

    digits: tuple[int, ...]
    point: int

    def order(self) -> tuple[int, tuple[int, ...]]:
        """Sorts by value."""
        return self.point, self.digits

    def digit(self, at: int) -> int:
        return self.digits[at] if at < len(self.digits) else 0

    def whole(self) -> int:
        """The digits as an integer."""
        return int(Decimal((0, self.digits, 0)))


def digits_of(value: Decimal) -> Digits:
    """The digits of a value other than 0, its sign left aside. Raises GrammarTooComplex."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    used = len(digits)
    while digits[used - 1] == 0:
        used -= 1
    if used > MAX_DIGITS:
        raise GrammarTooComplex(f"a number has more than {MAX_DIGITS:,} digits: {str(value)[:40]}...")
    return Digits(digits[:used], len(digits) + exponent)


class Step(NamedTuple):
    """The step ``scaled`` / 10**``places``; ``scaled`` is not divisible by 10."""

    scaled: int
    places: int

    def lag(self, rest: int) -> int | None:
        """How many zeros must follow a number, not divisible by 10 and with this remainder modulo ``scaled``, for
        a multiple of ``scaled``; None if no number of them is enough."""
        return _powers(self.scaled).get(self.scaled // math.gcd(self.scaled, rest))

    def divides(self, value: Digits) -> bool:
        lag = self.lag(value.whole() % self.scaled)
        return lag is not None and value.point - len(value.digits) + self.places >= lag

    def value(self) -> Decimal:
        return _decimal(self.scaled, self.places)


def _decimal(scaled: int, places: int) -> Decimal:
    """``scaled`` / 10**``places``, exactly."""
    return Decimal((0, Decimal(scaled).as_tuple().digits, -places))


@lru_cache(maxsize=1024)
def _powers(scaled: int) -> dict[int, int]:
    """2**i or 5**i -> i, as far as they divide ``scaled`` (which only one of the two does)."""
    found = {1: 0}
    for prime in (2, 5):
        power = prime
        while scaled % power == 0:
            found[power] = len(found)
            power *= prime
    return found


@lru_cache(maxsize=1024)
def step_of(value: Decimal) -> Step:
    """Raises GrammarTooComplex for a step of very many digits."""
    digits = digits_of(value)
    if max(len(digits.digits), abs(digits.point)) > MAX_STEP_DIGITS:
        raise GrammarTooComplex(
            f"multipleOf {str(value)[:40]} has too many digits (limit: {MAX_STEP_DIGITS:,}, before or behind the point)"
        )
    return Step(digits.whole(), len(digits.digits) - digits.point)


def common(a: Step, b: Step) -> Step:
    """The step of the values that are multiples of both."""
    places = max(a.places, b.places)
    scaled = math.lcm(a.scaled * 10 ** (places - a.places), b.scaled * 10 ** (places - b.places))
    while scaled % 10 == 0:
        scaled //= 10
        places -= 1
    if len(Decimal(scaled).as_tuple().digits) > 4 * MAX_STEP_DIGITS:
        raise GrammarTooComplex(
            f"the common multiple of several multipleOf has more than {4 * MAX_STEP_DIGITS:,} digits"
        )
    return Step(scaled, places)


class Magnitudes:
    """Conditions on a number without its sign.

    Args:
        zero: zero is one of them.
        lo, hi: bounds above 0; None: no bound.
        step: all are multiples of it.
        others: none is a multiple of one of these.
        listed: sorted values; all of them if ``only``, else excluded ones (that satisfy all other conditions).

    Attributes:
        checked: not every prefix begins a value, so the digits themselves are kept for ``reaches``.
        longest: so many digits decide every comparison.
    """

    def __init__(
        self,
        zero: bool,
        lo: Digits | None,
        lo_open: bool,
        hi: Digits | None,
        hi_open: bool,
        step: Step | None,
        others: tuple[Step, ...],
        listed: tuple[Digits, ...],
        only: bool,
    ) -> None:
        self.zero, self.lo, self.lo_open, self.hi, self.hi_open = zero, lo, lo_open, hi, hi_open
        self.step, self.others, self.listed, self.only = step, others, listed, only
        self.steps = others if step is None else (step, *others)
        self.longest = max([len(each.digits) for each in (lo, hi, *listed) if each is not None], default=0)
        self.free = not (lo or hi or self.steps or listed)
        self.narrow = step is None and lo is not None and hi is not None and hi.point <= lo.point + 1
        self.checked = self.narrow or (step is not None and hi is not None)
        if self.narrow:
            assert lo is not None
            assert hi is not None
            self._lo, self._hi = lo.whole(), hi.whole()
            self._hi_fits = hi not in listed and not any(each.divides(hi) for each in others)
        elif self.checked:
            assert step is not None
            assert hi is not None
            at, exact = _quotient(hi, step)
            self.last = at - (exact and hi_open)
            self.first = 1
            if lo is not None:
                at, exact = _quotient(lo, step)
                self.first = at + (not exact or lo_open)
            self.ratios = [_ratio(common(step, each), step) for each in others]
            self.gaps = frozenset(_quotient(each, step)[0] for each in listed)
            # Ten times a multiple is one, so some value has a prefix iff one above hi / 10 has.
            self.lowest = hi.point - 1
            if others or listed:
                self.lowest = digits_of(step.value()).point if lo is None else lo.point

    def hold(self, value: Digits) -> bool:
        """Whether ``value`` satisfies the conditions, ``listed`` left aside."""
        if self.lo is not None and (value.order(), False) < (self.lo.order(), self.lo_open):
            return False
        if self.hi is not None and (value.order(), self.hi_open) > (self.hi.order(), False):
            return False
        return (self.step is None or self.step.divides(value)) and not any(each.divides(value) for each in self.others)

    @property
    def empty(self) -> bool:
        """Whether there is none but zero."""
        return not (self.listed if self.only else any(self.reaches(digit, 1) for digit in range(1, 10)))

    def size(self) -> int | None:
        """How many there are but zero; None: without end."""
        if self.only or self.empty:
            return len(self.listed) if self.only else 0
        if self.narrow or not self.checked:
            return None
        found = 0
        for chosen in range(1 << len(self.ratios)):  # those that are multiples of none, by inclusion and exclusion
            all_of = math.lcm(*[ratio for i, ratio in enumerate(self.ratios) if chosen >> i & 1])
            found += (-1) ** chosen.bit_count() * (self.last // all_of - (self.first - 1) // all_of)
        return found - len(self.gaps)

    def members(self, most: int) -> list[Decimal] | None:
        """All values but zero; None if there are more than ``most``."""
        if self.only:
            if len(self.listed) > most:
                return None
            return [_decimal(each.whole(), len(each.digits) - each.point) for each in self.listed]
        if self.empty:
            return []
        if self.narrow or not self.checked:
            return None
        assert self.step is not None
        found: list[Decimal] = []
        for times in range(self.first, self.last + 1):
            if self._is_good(times):
                if len(found) == most:
                    return None
                found.append(_decimal(times * self.step.scaled, self.step.places))
        return found

    def reaches(self, prefix: int, length: int) -> bool:
        """Whether a value begins with the ``length`` digits of ``prefix``, the first of which is not 0."""
        if not self.checked:
            # Without an upper bound there are large values with any digits, without a lower one small ones.
            return True
        return self._between(prefix, length) if self.narrow else self._multiple(prefix, length)

    def _between(self, prefix: int, length: int) -> bool:
        assert self.lo is not None
        assert self.hi is not None
        width = max(length, len(self.lo.digits), len(self.hi.digits))
        for point in {self.lo.point, self.hi.point}:
            left = prefix * 10 ** (width - length)
            right = left + 10 ** (width - length)
            has_left, has_right = True, False
            if point == self.lo.point:
                edge = self._lo * 10 ** (width - len(self.lo.digits))
                if edge >= left:
                    left, has_left = edge, not self.lo_open
            if point == self.hi.point:
                edge = self._hi * 10 ** (width - len(self.hi.digits))
                if edge < right:
                    right, has_right = edge, not self.hi_open
            if left < right:
                return True  # infinitely many decimals lie between, and conditions leave out few
            if left == right and has_left and has_right and self._hi_fits:
                return True
        return False

    def _multiple(self, prefix: int, length: int) -> bool:
        assert self.step is not None
        assert self.hi is not None
        easy = not (self.ratios or self.gaps)
        for point in range(self.hi.point, self.lowest - 1, -1):
            shift = point - length + self.step.places
            if shift < 0 and prefix % 10**-shift:
                break  # all digits behind the last place must be 0
            up, down = 10 ** max(shift, 0), self.step.scaled * 10 ** max(-shift, 0)
            first = max(-(-prefix * up // down), self.first)
            last = min((prefix * up + up - 1) // down, self.last)
            if first <= last and (easy or any(self._is_good(each) for each in range(first, last + 1))):
                return True
        return False

    def _is_good(self, times: int) -> bool:
        """Whether ``times`` the step satisfies the other conditions. Bad ones never follow each other for long."""
        return times not in self.gaps and all(times % ratio for ratio in self.ratios)


magnitudes = lru_cache(maxsize=1024)(Magnitudes)


def _quotient(value: Digits, step: Step) -> tuple[int, bool]:
    """``value / step`` rounded down, and whether it is exact."""
    if value.point + step.places > MAX_DIGITS:
        raise GrammarTooComplex(
            f"a bound that multipleOf or an integer type goes with has more than {MAX_DIGITS:,} digits before the last "
            "decimal place of the step"
        )
    shift = value.point - len(value.digits) + step.places
    whole, rest = divmod(value.whole() * 10 ** max(shift, 0), step.scaled * 10 ** max(-shift, 0))
    return whole, rest == 0


def _ratio(both: Step, step: Step) -> int:
    shift = step.places - both.places
    up: int = 10 ** max(shift, 0)
    down: int = 10 ** max(-shift, 0)
    return both.scaled * up // (step.scaled * down)

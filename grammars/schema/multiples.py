"""Multiples of decimals, and numbers that are none, over plainly spelled numbers: a residue instead of states.

All steps are read at once, modulo their common multiple: as many expressions would each be alive where together they
are not, and what to write next is then a search instead of a division.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from structgen.errors import GrammarTooComplex
from structgen.grammars.expr import ALL_BYTES, NEVER, Expr, _intern, rep
from structgen.grammars.magnitudes import MAX_STEP_DIGITS, Step, step_of
from structgen.grammars.numbers import DIGIT

MAX_OTHERS = 100
SCANNED = 4_000
"""More consecutive multiples than can all be divisible by one of ``MAX_OTHERS`` numbers above 1 that rule none of
them out alone: Jacobsthal's function of a number with 100 prime factors is below 2,000."""

_DIGITS = ((1 << 58) - 1) ^ ((1 << 48) - 1)
_MORE_DIGITS = rep(DIGIT)


class Steps(NamedTuple):
    """Plain numbers v: ``v * 10**places`` is a multiple of ``wanted`` and of none of ``others``.

    Attributes:
        wanted: 0 when any number will do.
        modulus: the least common multiple of all steps.
        whole: numbers with a point are none of them; ``places`` is then 0.
    """

    wanted: int
    others: tuple[int, ...]
    modulus: int
    places: int
    whole: bool

    def hold(self, rest: int) -> bool:
        """Whether a number with this remainder modulo ``modulus`` is one of them."""
        return (not self.wanted or rest % self.wanted == 0) and all(rest % each for each in self.others)

    def between(self, first: int, numbers: int) -> bool:
        """Whether one of so many consecutive integers from ``first`` on is one of them; ``wanted`` is not 0."""
        least = -(-first // self.wanted) * self.wanted
        most = min(first + numbers, least + SCANNED * self.wanted)
        return any(all(at % each for each in self.others) for at in range(least, most, self.wanted))


class Multiple(Expr):
    """Plain numbers that satisfy conditions on steps.

    Attributes:
        steps: the conditions.
        residue: of the digits read so far, modulo ``steps.modulus``.
        stage: "sign" (nothing read), "first" (a minus read), "zero" (a leading zero), "whole", "point" (the
            point read), or the number of digits after the point.
    """

    __slots__ = ("residue", "stage", "steps")
    fields = ("steps", "residue", "stage")
    steps: Steps
    residue: int
    stage: str | int

    def derive(self, byte: int) -> Expr:
        steps, stage = self.steps, self.stage
        if byte == 0x2D:
            return _multiple(steps, 0, "first") if stage == "sign" else NEVER
        if byte == 0x2E:
            if stage not in ("zero", "whole") or steps.whole:
                return NEVER
            return _multiple(steps, self.residue, "point")
        digit = byte - 0x30
        if not 0 <= digit <= 9 or stage == "zero":
            return NEVER
        if stage in ("sign", "first"):
            return _multiple(steps, digit % steps.modulus, "whole" if digit else "zero")
        if stage == "whole":
            return _multiple(steps, (self.residue * 10 + digit) % steps.modulus, "whole")
        read = 0 if stage == "point" else stage
        assert isinstance(read, int)
        if read < steps.places:
            return _multiple(steps, (self.residue * 10 + digit) % steps.modulus, read + 1)
        if digit:  # finer than every step
            return NEVER if steps.wanted else _MORE_DIGITS
        return _multiple(steps, self.residue, max(read, 1))

    def byte_class(self, byte: int) -> int:
        if byte in (0x2D, 0x2E) or 0x30 <= byte <= 0x39:
            return 1 << byte
        return ALL_BYTES & ~(_DIGITS | 1 << 0x2D | 1 << 0x2E)

    def __repr__(self) -> str:
        return f"Multiple({self.steps}, {self.residue}, {self.stage!r})"


def _multiple(steps: Steps, residue: int, stage: str | int) -> Expr:
    wanted = steps.wanted
    outcomes: tuple[int, ...] = ()
    left = max(steps.places - (stage if isinstance(stage, int) else 0), 0)
    filled = residue * 10**left
    if (stage in ("zero", "whole") or isinstance(stage, int)) and steps.hold(filled % steps.modulus):
        outcomes = (0,)
    # The digits left must be able to fill the residue up; before the point more digits always can.
    bounded = stage in ("zero", "point") or isinstance(stage, int)
    if wanted and bounded and not outcomes and not steps.between(filled, 10**left):
        return NEVER
    made: Expr = _intern(Multiple, (steps, residue, stage), False, outcomes)
    return made


def multiple_of(wanted: Iterable[Decimal], others: Iterable[Decimal] = (), *, whole: bool) -> Expr:
    """Plainly spelled numbers that are multiples of all ``wanted`` and of none of ``others``.

    Args:
        whole: only integers without a point.

    Raises:
        GrammarTooComplex: a step of more than ``MAX_STEP_DIGITS`` digits, a common multiple of four times as many,
            or more than ``MAX_OTHERS`` others.
    """
    return _from_steps(tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(others)), whole)


@lru_cache(maxsize=1024)
def _from_steps(wanted: tuple[Decimal, ...], others: tuple[Decimal, ...], whole: bool) -> Expr:
    steps = [step_of(each) for each in (*wanted, *others)]
    places = max([0, *(each.places for each in steps)])
    scaled = [_integer(each, places, whole) for each in steps]
    every = math.lcm(*scaled[: len(wanted)]) if wanted or whole else 0
    none = [math.lcm(each, every) if every else each for each in scaled[len(wanted) :]]
    if every in none:
        return NEVER
    # What is no multiple of 4 is none of 8 either.
    kept = tuple(a for a in sorted(set(none)) if not any(a % b == 0 for b in none if b < a))
    if len(kept) > MAX_OTHERS:
        raise GrammarTooComplex(f"more than {MAX_OTHERS} different multipleOf must fail for one number")
    modulus = math.lcm(every or 1, *kept)
    if modulus.bit_length() > 4 * MAX_STEP_DIGITS * math.log2(10):
        raise GrammarTooComplex(
            f"the common multiple of several multipleOf has more than {4 * MAX_STEP_DIGITS:,} digits"
        )
    return _multiple(Steps(every, kept, modulus, 0 if whole else places, whole), 0, "sign")


def _integer(step: Step, places: int, whole: bool) -> int:
    """The step times ``10**places``. For whole numbers the least one among its multiples:
    n * 10**places divisible by s  <=>  n divisible by s / gcd(s, 10**places)."""
    scaled: int = step.scaled * 10 ** (places - step.places)
    return scaled // math.gcd(scaled, 10**places) if whole else scaled

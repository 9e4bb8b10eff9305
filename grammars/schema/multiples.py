"""Multiples of a decimal, as an expression over plainly spelled numbers: a residue instead of states."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache

from structgen.grammars.expr import ALL_BYTES, NEVER, Expr, _intern
from structgen.grammars.magnitudes import step_of

_DIGITS = ((1 << 58) - 1) ^ ((1 << 48) - 1)


class Multiple(Expr):
    """Plain numbers v with ``v * 10**places`` divisible by ``step``.

    Attributes:
        residue: of the digits read so far, modulo ``step``.
        stage: "sign" (nothing read), "first" (a minus read), "zero" (a leading zero), "whole", "point" (the
            point read), or the number of digits after the point.
    """

    __slots__ = ("places", "residue", "stage", "step")
    fields = ("step", "places", "residue", "stage")
    step: int
    places: int
    residue: int
    stage: str | int

    def derive(self, byte: int) -> Expr:
        stage = self.stage
        if byte == 0x2D:
            return _multiple(self.step, self.places, 0, "first") if stage == "sign" else NEVER
        if byte == 0x2E:
            if stage not in ("zero", "whole") or self.places < 0:
                return NEVER
            return _multiple(self.step, self.places, self.residue, "point")
        digit = byte - 0x30
        if not 0 <= digit <= 9 or stage == "zero":
            return NEVER
        if stage in ("sign", "first"):
            return _multiple(self.step, self.places, digit % self.step, "whole" if digit else "zero")
        if stage == "whole":
            return _multiple(self.step, self.places, (self.residue * 10 + digit) % self.step, "whole")
        read = 0 if stage == "point" else stage
        assert isinstance(read, int)
        if read >= self.places:
            return _multiple(self.step, self.places, self.residue, max(read, 1)) if digit == 0 else NEVER
        return _multiple(self.step, self.places, (self.residue * 10 + digit) % self.step, read + 1)

    def byte_class(self, byte: int) -> int:
        if byte in (0x2D, 0x2E) or 0x30 <= byte <= 0x39:
            return 1 << byte
        return ALL_BYTES & ~(_DIGITS | 1 << 0x2D | 1 << 0x2E)

    def __repr__(self) -> str:
        return f"Multiple({self.step}, {self.places}, {self.residue}, {self.stage!r})"


def _multiple(step: int, places: int, residue: int, stage: str | int) -> Expr:
    outcomes: tuple[int, ...] = ()
    read = stage if isinstance(stage, int) else 0
    ends = stage in ("zero", "whole") or isinstance(stage, int)
    if ends and residue * pow(10, max(places - read, 0), step) % step == 0:
        outcomes = (0,)
    if stage == "point" or isinstance(stage, int):
        # The digits left must be able to fill the residue up; before the point more digits always can.
        left = max(places - read, 0)
        if -residue * pow(10, left, step) % step >= 10**left:
            return NEVER
    made: Expr = _intern(Multiple, (step, places, residue, stage), False, outcomes)
    return made


@lru_cache(maxsize=1024)
def multiple_of(step: Decimal, *, whole: bool) -> Expr:
    """Plainly spelled multiples of ``step``; ``whole``: only integers without a point. Raises GrammarTooComplex for a
    step of more than ``MAX_STEP_DIGITS`` digits."""
    scaled, places = step_of(step)
    if places < 0:
        scaled, places = scaled * 10**-places, 0
    if whole:
        # n * 10**places divisible by scaled  <=>  n divisible by scaled / gcd(scaled, 10**places)
        scaled //= math.gcd(scaled, 10**places)
        places = -1
    return _multiple(scaled, places, 0, "sign")

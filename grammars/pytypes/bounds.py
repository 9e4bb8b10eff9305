"""Bounds of numbers and times, as core schemas give them, for JSON Schema."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import isfinite, nextafter
from typing import Any, cast

Schema = dict[str, Any]

_MANY_DIGITS = 17
"""A JSON number reaches ``Decimal`` through a float, which has no more digits than this."""

_MANY_PLACES = 400
"""No float has more decimal places."""


def plain_number(number: Any) -> int | float | Decimal:
    """A bound as JSON would spell it, so that it compares exactly as a decimal."""
    value = Decimal(str(number))
    if value == int(value) and abs(value) < 10**15:
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else Decimal(value)


def finite(number: Schema) -> Schema:
    """``number`` without what overflows a float."""
    most = sys.float_info.max
    made = dict(number)
    if not {"minimum", "exclusiveMinimum"} & made.keys():
        made["minimum"] = -most
    if not {"maximum", "exclusiveMaximum"} & made.keys():
        made["maximum"] = most
    return made


def with_digits(number: Schema, digits: int | None, places: int | None) -> list[Schema]:
    """``number`` with at most so many digits and decimal places; several schemas where the point may move.

    As pydantic counts: a zero before the point counts only in zero itself, which has one digit there (so zero is
    refused where ``places`` leave no digit before the point), and there are never more places than digits.
    """
    if digits is None and places is None:
        return [number]
    if digits is None:
        return [_scaled(number, None, cast(int, places))]
    zero = has_zero(digits, places)
    if places is not None:
        return [_scaled(number, max(digits - places, 0), min(places, digits), zero)]
    if digits > _MANY_DIGITS:
        return [_scaled(number, digits, digits)]
    return [_scaled(number, n, digits - n, zero) for n in range(digits + 1)]


def has_zero(digits: int, places: int | None) -> bool:
    """Whether zero without a decimal place is a number of so many digits, for pydantic."""
    return digits > (places or 0)


def _scaled(number: Schema, whole: int | None, places: int, zero: bool = True) -> Schema:
    made = dict(number)
    step = Decimal(1).scaleb(-min(places, _MANY_PLACES))
    if "multipleOf" not in made:
        made["multipleOf"] = plain_number(step)
    elif places == 0 or Decimal(str(made["multipleOf"])) % step != 0:
        made["allOf"] = [{"multipleOf": plain_number(step)}]
    if whole is not None and whole <= sys.float_info.max_10_exp:
        most = 10**whole
        if float(most - Fraction(1, 10**places)) < most:
            add_bound(made, "exclusiveMinimum", "minimum", -most, max)
            add_bound(made, "exclusiveMaximum", "maximum", most, min)
        else:  # a JSON number reaches Decimal through a float, and the largest of so many digits are rounded up
            below = plain_number(Decimal(repr(nextafter(most, 0))))
            add_bound(made, "minimum", "exclusiveMinimum", -below, max)
            add_bound(made, "maximum", "exclusiveMaximum", below, min)
    if not zero and _takes_zero(made):
        made["not"] = {"const": 0}
    return made


def _takes_zero(number: Schema) -> bool:
    """Whether the bounds of ``number`` do."""
    inside = number.get("minimum", -1) <= 0 <= number.get("maximum", 1)
    return bool(inside and number.get("exclusiveMinimum", -1) < 0 < number.get("exclusiveMaximum", 1))


def add_bound(number: Schema, keyword: str, other: str, value: Any, tighter: Callable[..., Any]) -> None:
    """``keyword`` with ``value``, where no bound of ``number`` is as strict; ``other`` is the keyword that bounds the
    same side with its value inside (outside)."""
    known = number.get(other)
    if known is not None:
        stands = keyword.startswith("exclusive") if known == value else tighter(known, value) == value
        if not stands:
            return
        del number[other]
    number[keyword] = tighter(number.get(keyword, value), value)


def stricter(inside: Any, outside: Any, choose: Callable[..., Any]) -> tuple[Any, bool] | None:
    """The stricter of two bounds, the second of which is itself outside. Infinity is no bound."""
    inside, outside = (None if isinstance(b, (float, Decimal)) and not isfinite(b) else b for b in (inside, outside))
    if inside is None or outside is None:
        value = outside if inside is None else inside
        return None if value is None else (_decimal(value), inside is None)
    low, high = _decimal(inside), _decimal(outside)
    return (high, True) if choose(low, high) == high else (low, False)


def _decimal(value: Any) -> Any:
    return Decimal(str(value)) if isinstance(value, (int, float, Decimal)) else value


def last_of(values: Sequence[Any], choose: Callable[..., Any]) -> Any:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def shifted(day: dt.date | None, step: dt.timedelta) -> dt.date | None:
    return None if day is None else day + step

"""Bounds of numbers and times, as core schemas give them, for JSON Schema."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any, cast

Schema = dict[str, Any]

_MANY_DIGITS = 17
"""A JSON number reaches ``Decimal`` through a float, which has no more digits than this."""


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
    """``number`` with at most so many digits and decimal places; several schemas where the point may move."""
    if digits is None and places is None:
        return [number]
    if digits is None:
        return [_scaled(number, None, cast(int, places))]
    if places is not None:
        return [_scaled(number, max(digits - places, 0), places)]
    if digits > _MANY_DIGITS:
        return [_scaled(number, digits, digits)]
    return [_scaled(number, n, digits - n) for n in range(digits + 1)]


def _scaled(number: Schema, whole: int | None, places: int) -> Schema:
    made = dict(number)
    if "multipleOf" not in made:
        made["multipleOf"] = float(f"1e-{places}") if places else 1
    elif places == 0 or Decimal(str(made["multipleOf"])) % (step := Decimal(1).scaleb(-places)) != 0:
        step = Decimal(1).scaleb(-places)
        made["allOf"] = [{"multipleOf": float(step) if places else 1}]
    if whole is not None:
        add_bound(made, "exclusiveMinimum", "minimum", -(10**whole), max)
        add_bound(made, "exclusiveMaximum", "maximum", 10**whole, min)
    return made


def add_bound(number: Schema, keyword: str, other: str, value: int, tighter: Callable[..., Any]) -> None:
    known = number.get(keyword, number.get(other))
    if known is None or (tighter(known, value) == value and known != value):
        number.pop(other, None)
        number[keyword] = value


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

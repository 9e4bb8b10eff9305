"""Dates, times and durations (RFC 3339)."""

from __future__ import annotations

from structgen.grammars.deferred import deferred
from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import Expr, alt, seq
from structgen.grammars.formats.plain import pattern

_LEAP_CENTURY = "(?:0[48]|[2468][048]|[13579][26])"
_LEAP_YEAR = rf"(?:\d\d{_LEAP_CENTURY}|{_LEAP_CENTURY}00)"
_YEAR = r"(?:[1-9]\d{3}|0(?:[1-9]\d\d|0(?:[1-9]\d|0[1-9])))"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    rf"|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_HOUR, _FRACTION = r"(?:[01]\d|2[0-3])", r"(?:\.\d+)?"
_TIME = rf"{_HOUR}:[0-5]\d:[0-5]\d{_FRACTION}(?:[Zz]|[+-]{_HOUR}:[0-5]\d)"

_DURATION_TIME = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
_DURATION_DATE = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"


def date(encoding: Encoding) -> Expr:
    return pattern(_DATE, encoding)


def duration(encoding: Encoding) -> Expr:
    """RFC 3339, appendix A."""
    return pattern(rf"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|\d+W)", encoding)


def time(encoding: Encoding) -> Expr:
    return alt(pattern(_TIME, encoding), *_leap_seconds(encoding))


def date_time(encoding: Encoding) -> Expr:
    same_day, next_day = _leap_seconds(encoding)
    mark = "[Tt]"
    return alt(
        pattern(f"{_DATE}{mark}{_TIME}", encoding),
        seq(pattern(rf"{_YEAR}-(?:06-30|12-31){mark}", encoding), same_day),
        seq(pattern(rf"{_YEAR}-(?:07-01|01-01){mark}", encoding), next_day),
    )


def _leap_seconds(encoding: Encoding) -> tuple[Expr, Expr]:
    """23:59:60 UTC in local time, where the local day is the same, and where it is the next one already."""
    same = [seq(encoding.text(f"{hour:02}:"), deferred(_leap_hour, hour, False, encoding)) for hour in range(24)]
    after = [seq(encoding.text(f"{hour:02}:"), deferred(_leap_hour, hour, True, encoding)) for hour in range(24)]
    return alt(*same), alt(*after)


def _leap_hour(hour: int, next_day: bool, encoding: Encoding) -> Expr:
    """The minutes of a local hour in which it may be 23:59:60 UTC, each with the offset that makes it so."""
    second = pattern(f":60{_FRACTION}", encoding)
    found = []
    for minute in range(60):
        ahead = (60 * hour + minute + 1) % 1440  # local time is so many minutes ahead of UTC
        behind = 1440 - ahead
        offsets = []
        if next_day and ahead:
            offsets.append(encoding.text(f"+{ahead // 60:02}:{ahead % 60:02}"))
        if not next_day and ahead:
            offsets.append(encoding.text(f"-{behind // 60:02}:{behind % 60:02}"))
        if not next_day and not ahead:
            offsets.append(pattern(r"[Zz]|[+-]00:00", encoding))
        if offsets:
            found.append(seq(encoding.text(f"{minute:02}"), second, *offsets))
    return alt(*found)

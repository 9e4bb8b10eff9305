r"""Dates, times of day and durations between bounds, as regular expressions without anchors.

What stands between bounds is meant together with the format ``date``, ``TIME`` or ``DATETIME``, which know the
calendar. Durations are pydantic's own form: ``-P1Y35DT2H3M4.5S``, years of 365 days.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from structgen.grammars.pytypes.ranges import any_of, fixed, naturals

ANY_FRACTION = r"(?:\.[0-9]+)?"
_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP = "(?:0[48]|[2468][048]|[13579][26])"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{{2}}{_LEAP}|{_LEAP}00)-02-29)"
)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_OFFSET = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
# Not the formats date-time and time: RFC 3339 has leap seconds, Python has not.
NAIVE_DATETIME = f"{_DATE}T{_CLOCK}"
DATETIME = f"{_DATE}[Tt]{_CLOCK}{_OFFSET}"
TIME = f"{_CLOCK}{_OFFSET}"
_ANY_OFFSET = "(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
_UTC = "(?:[Zz]|[+-]00:00)"

Edge = tuple[dt.datetime, bool]
"""A bound, and whether it is itself outside."""


def dates(low: dt.date | None, high: dt.date | None) -> str:
    """From ``low`` to ``high``, both included."""
    return fixed((low or dt.date.min).isoformat(), (high or dt.date.max).isoformat()) or "(?!)"


def datetimes(low: Edge | None, high: Edge | None, *, naive: bool) -> str:
    """Moments between the bounds, with an offset unless ``naive``.

    pydantic compares a bound without an offset with the local time that is written, and a bound with one with the
    moment in UTC. In the second case the first and the last day are written in UTC here, other days in any offset.
    """
    offset = "" if naive else _ANY_OFFSET
    if not any(edge is not None and edge[0].tzinfo is not None for edge in (low, high)):
        return any_of(_between(low, high, "%Y-%m-%dT%H:%M:%S", offset))
    low, high = _in_utc(low), _in_utc(high)
    found = _between(low, high, "%Y-%m-%dT%H:%M:%S", "" if naive else _UTC)
    if not naive:
        day = dt.timedelta(days=1)
        try:
            inner_low = None if low is None else (low[0] + day, False)
            inner_high = None if high is None else (high[0] - day, False)
            found += _between(inner_low, inner_high, "%Y-%m-%dT%H:%M:%S", _ANY_OFFSET)
        except OverflowError:
            pass  # nothing is that far inside
    return any_of(found)


def times(low: tuple[dt.time, bool] | None, high: tuple[dt.time, bool] | None) -> str:
    """Times of day between the bounds; in UTC where a bound has an offset."""
    aware = any(edge is not None and edge[0].tzinfo is not None for edge in (low, high))
    first, last = (None if edge is None else (_on_a_day(edge[0]), edge[1]) for edge in (low, high))
    return any_of(_between(first, last, "%H:%M:%S", _UTC if aware else _ANY_OFFSET))


_DAY = dt.date(2000, 1, 1)


def _on_a_day(time: dt.time) -> dt.datetime:
    offset = time.utcoffset() or dt.timedelta(0)
    moment = dt.datetime.combine(_DAY, time.replace(tzinfo=None)) - offset
    return min(max(moment, dt.datetime.combine(_DAY, dt.time.min)), dt.datetime.combine(_DAY, dt.time.max))


def _in_utc(edge: Edge | None) -> Edge | None:
    if edge is None or edge[0].tzinfo is None:
        return edge
    return edge[0].astimezone(dt.timezone.utc).replace(tzinfo=None), edge[1]


def _between(low: Edge | None, high: Edge | None, form: str, offset: str) -> list[str]:
    """Texts of ``form``, a fraction and ``offset`` between the bounds."""
    short = form.startswith("%H")
    least = dt.datetime.combine(_DAY, dt.time.min) if short else dt.datetime.min
    most = dt.datetime.combine(_DAY, dt.time.max) if short else dt.datetime.max
    bottom, low_outside = low or (least, False)
    top, high_outside = high or (most, False)
    first = bottom.replace(microsecond=0)
    last = top.replace(microsecond=0)
    from_ = bottom.microsecond + low_outside
    to = top.microsecond - high_outside
    if first > last or (first == last and from_ > to):
        return []

    def span(a: dt.datetime, b: dt.datetime) -> str | None:
        return fixed(_spelled(a, form), _spelled(b, form))

    if first == last:
        return [f"{span(first, first)}{_fraction(from_, to)}{offset}"]
    found = []
    second = dt.timedelta(seconds=1)
    begin = first if from_ == 0 else first + second
    if from_:
        found.append((span(first, first), _fraction(from_, 999_999)))
    end = last if to == 999_999 else last - second
    if begin <= end:
        found.append((span(begin, end), ANY_FRACTION))
    if to != 999_999:
        found.append((span(last, last), _fraction(0, to)))
    return [f"{text}{fraction}{offset}" for text, fraction in found if text and fraction is not None]


def _spelled(moment: dt.datetime, form: str) -> str:
    return moment.time().isoformat("seconds") if form.startswith("%H") else moment.isoformat("T", "seconds")


def _fraction(low: int, high: int) -> str | None:
    """Fractions of a second from ``low`` to ``high`` microseconds; what comes after six digits does not count."""
    if low > 999_999 or high < 0:
        return None
    if low == 0 and high == 999_999:
        return ANY_FRACTION
    if low == 1 and high == 999_999:
        return r"\.[0-9]{0,5}[1-9][0-9]*"
    if low == high == 0:
        return r"(?:\.(?:0{1,5}|0{6}[0-9]*))?"
    text = rf"\.{fixed(f'{low:06}', f'{high:06}')}[0-9]*"
    return f"(?:{text})?" if low == 0 else text


# ------------------------------------------------------------------------------------------------ durations


def _some(*units: str) -> str:
    """At least one of the parts, in this order."""
    return any_of([unit + "".join(f"(?:{later})?" for later in units[n + 1 :]) for n, unit in enumerate(units)])


_SECONDS = r"(?:\.[0-9]{1,9})?S"
_LONG_TIME = _some("[0-9]{1,6}H", "[0-9]{1,6}M", f"[0-9]{{1,8}}{_SECONDS}")  # below 2**32 seconds together
_SHORT_TIME = _some("(?:1?[0-9]|2[0-3])H", "[1-5]?[0-9]M", f"[1-5]?[0-9]{_SECONDS}")
_LONG_DATE = _some("[0-9]{1,6}Y", "[0-9]{1,7}M", "[0-9]{1,8}D")
_FEWER_THAN_A_YEAR = "(?:(?:[1-9]?[0-9]|[12][0-9]{2}|3[0-5][0-9]|36[0-4])D)?"
DURATION = (
    f"[+-]?P(?:[0-9]{{1,7}}W|{_LONG_DATE}(?:T{_LONG_TIME})?|T{_LONG_TIME}|[0-9]{{9}}D(?:T{_SHORT_TIME})?"
    f"|{naturals(10**6, 2739725)}Y{_FEWER_THAN_A_YEAR}(?:T{_SHORT_TIME})?)"
)
"""Years, months, weeks, days; hours, minutes, seconds. The numbers of digits keep the sum inside ``timedelta``."""

_DAY_US = 86_400_000_000
_MOST = 999_999_999 * _DAY_US


def durations(low: dt.timedelta | None, high: dt.timedelta | None, low_outside: bool, high_outside: bool) -> str:
    """Durations between the bounds, written as pydantic writes them (no 90 minutes, but ``PT1H30M``), or with days
    instead of years."""
    one = dt.timedelta(microseconds=1)
    least = -_MOST if low is None else low // one + low_outside
    most = _MOST if high is None else high // one - high_outside
    found = []
    if least < 0:
        found += [f"-{text}" for text in _lengths(max(-most, 1), -least)]
    if most >= 0:
        found += _lengths(max(least, 0), most)
    return any_of(found)


def _lengths(low: int, high: int) -> list[str]:
    """Lengths from ``low`` to ``high`` microseconds."""
    if low > high:
        return []
    first, start = divmod(low, _DAY_US)
    last, end = divmod(high, _DAY_US)
    if first == last:
        return _one_day(first, start, end)
    found = _one_day(first, start, _DAY_US - 1) + _one_day(last, 0, end)
    return found + [f"P{days}(?:T{_SHORT_TIME})?" for days in _days(first + 1, last - 1)]


def _days(low: int, high: int) -> list[str]:
    """Numbers of days, from 365 on in years and days too."""
    days = naturals(low, high)
    if days is None:
        return []
    found = [f"{days}D"]
    begin, end = divmod(low, 365), divmod(high, 365)
    if begin[0] == end[0]:
        parts = [(begin[0], begin[0], begin[1], end[1])]
    else:
        parts = [(begin[0], begin[0], begin[1], 364), (begin[0] + 1, end[0] - 1, 0, 364), (end[0], end[0], 0, end[1])]
    for first, last, from_, to in parts:
        years = naturals(max(first, 1), last)
        if years is not None:
            found.append(f"{years}Y{_unit(from_, to, 'D', False)}")
    return found


def _one_day(days: int, start: int, end: int) -> list[str]:
    """``days`` days and from ``start`` to ``end`` microseconds."""
    times = _clock(start, end)
    found = []
    for day in _days(days, days):
        if start == 0:
            found.append(f"P{day}")
        found += [f"P{day}T{text}" for text in times]
    if days == 0:
        found += [f"PT{text}" for text in times] + (["PT0S"] if start == 0 else [])
    return found


def _clock(start: int, end: int) -> list[str]:
    """What stands after ``T``: from ``start`` to ``end`` microseconds, not nothing. Fractions of a second only where
    the whole second is inside."""
    first = -(-start // 10**6)
    last = end // 10**6
    whole = last if end == _DAY_US - 1 else last - 1
    found = []
    for low, high, fraction in ((first, last, False), (first, whole, True)):
        if low <= high:
            text = _radix(_parts(low), _parts(high), "HMS", fraction)
            found.append(text if low and not fraction else f"(?=[0-9]){text}")
    return found


def _parts(seconds: int) -> tuple[int, ...]:
    return seconds // 3600, seconds // 60 % 60, seconds % 60


def _radix(low: Sequence[int], high: Sequence[int], units: str, fraction: bool) -> str:
    """Numbers of several units between two of them; a unit that is zero is left out."""
    unit = units[0]
    if len(units) == 1:
        return _unit(low[0], high[0], unit, fraction)
    if low[0] == high[0]:
        return _unit(low[0], high[0], unit, False) + _radix(low[1:], high[1:], units[1:], fraction)
    most, least = [59] * (len(units) - 1), [0] * (len(units) - 1)
    found = [_unit(low[0], low[0], unit, False) + _radix(low[1:], most, units[1:], fraction)]
    if low[0] + 1 < high[0]:
        found.append(_unit(low[0] + 1, high[0] - 1, unit, False) + _radix(least, most, units[1:], fraction))
    found.append(_unit(high[0], high[0], unit, False) + _radix(least, high[1:], units[1:], fraction))
    return any_of(found)


def _unit(low: int, high: int, unit: str, fraction: bool) -> str:
    if fraction:
        return rf"{naturals(low, high)}\.[0-9]{{1,6}}{unit}"
    text = naturals(max(low, 1), high)
    if text is None:
        return ""
    return f"{text}{unit}" if low else f"(?:{text}{unit})?"

"""Dates, times and durations (RFC 3339)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from structgen.grammars.charset import CharSet
from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import Expr, alt, seq
from structgen.grammars.formats.plain import pattern
from structgen.grammars.lifted import Position, lifted

_LEAP_CENTURY = "(?:0[48]|[2468][048]|[13579][26])"
_LEAP_YEAR = rf"(?:\d\d{_LEAP_CENTURY}|{_LEAP_CENTURY}00)"
_YEAR = r"(?:[1-9]\d{3}|0(?:[1-9]\d\d|0(?:[1-9]\d|0[1-9])))"
_HALF_ENDS, _HALF_BEGINS = "06-30|12-31", "07-01|01-01"
_OTHER_DAYS = (
    r"(?:01|07)-(?:0[2-9]|[12]\d|3[01])|(?:0[358]|10)-(?:0[1-9]|[12]\d|3[01])|12-(?:0[1-9]|[12]\d|30)"
    r"|06-(?:0[1-9]|[12]\d)|(?:0[49]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])"
)
_DURATION_TIME = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
_DURATION_DATE = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"


def date(encoding: Encoding) -> Expr:
    days = f"{_HALF_ENDS}|{_HALF_BEGINS}|{_OTHER_DAYS}"
    return pattern(rf"{_YEAR}-(?:{days})|{_LEAP_YEAR}-02-29", encoding)


def duration(encoding: Encoding) -> Expr:
    """RFC 3339, appendix A."""
    return pattern(rf"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|\d+W)", encoding)


def time(encoding: Encoding) -> Expr:
    return lifted(Clock(same_day=True, next_day=True), encoding)


def date_time(encoding: Encoding) -> Expr:
    mark = pattern("[Tt]", encoding)
    usual = seq(mark, lifted(Clock(), encoding))
    days = alt(
        seq(pattern(_HALF_ENDS, encoding), mark, lifted(Clock(same_day=True), encoding)),
        seq(pattern(_HALF_BEGINS, encoding), mark, lifted(Clock(next_day=True), encoding)),
        seq(pattern(_OTHER_DAYS, encoding), usual),
    )
    return alt(seq(pattern(f"{_YEAR}-", encoding), days), seq(pattern(f"{_LEAP_YEAR}-02-29", encoding), usual))


_DIGITS = CharSet.range("0", "9")
_UP_TO = {digit: CharSet.range("0", digit) for digit in "1235"}
_Moves = list[tuple[CharSet, Position | None]]


@dataclass(frozen=True)
class Clock(Position):
    """In hours, minutes and seconds.

    A leap second is 23:59:60 UTC, so whether the second may be 60 depends on the offset, and the other way round:
    hour and minute are kept until the seconds show that there is none.

    Attributes:
        same_day, next_day: a leap second may come where the local day is that of UTC, and where it is the next one.
        read: up to seven characters; where no leap second may come, "0" stands for digits that do not matter.
    """

    same_day: bool = False
    next_day: bool = False
    read: str = ""

    ends = False

    @property
    def nearest(self) -> int:
        return 9 - len(self.read)

    def moves(self) -> Sequence[tuple[CharSet, Position | None]]:
        return _clock_moves(self)

    def completion(self, at_least: int = 0) -> str:
        left = "00:00:00"[len(self.read) :]
        zone = Zone(_offsets(self) if self.read[6:] == "6" else ()).completion(at_least - len(left))
        assert zone is not None
        return left + zone


@dataclass(frozen=True)
class Zone(Position):
    """Behind the seconds.

    Attributes:
        texts: what may come where a leap second leaves no choice; () for any offset.
        part: "" directly behind the seconds, "." and "digits" in a fraction, then "texts", or in an offset "hours",
            "hour", "hour of 20", ":", "minutes", "minute", "end".
    """

    texts: tuple[str, ...] = ()
    part: str = ""

    @property
    def ends(self) -> bool:
        return self.part == "end"

    @property
    def nearest(self) -> int:
        return len(self.completion() or "")

    def moves(self) -> Sequence[tuple[CharSet, Position | None]]:
        return _zone_moves(self)

    def completion(self, at_least: int = 0) -> str | None:
        zone = self.texts[0] if self.texts else "Z"
        if self.part == "digits" or (self.part == "" and at_least <= len(zone)):
            return "0" * (at_least - len(zone)) + zone
        if self.part in ("", "."):
            dot = "" if self.part else "."
            return dot + "0" * max(at_least - len(zone) - len(dot), 1) + zone
        left = {"hours": 5, "hour": 4, "hour of 20": 4, ":": 3, "minutes": 2, "minute": 1}
        text = zone if self.part == "texts" else "00:00"[5 - left.get(self.part, 0) :]
        return text if len(text) >= at_least else None


@lru_cache(maxsize=8192)
def _clock_moves(at: Clock) -> Sequence[tuple[CharSet, Position | None]]:
    read, leap = at.read, at.same_day or at.next_day

    def go(chars: str | CharSet) -> _Moves:
        if isinstance(chars, str):
            return [(CharSet.of(chars), Clock(at.same_day, at.next_day, read + chars))]
        if not leap:
            return [(chars, Clock(read=read + "0"))]
        return [(CharSet.of(chr(char)), Clock(at.same_day, at.next_day, read + chr(char))) for char in chars]

    place = len(read)
    if place in (2, 5):
        return go(":")
    if place == 0:
        return [*go(_UP_TO["1"]), *go("2")]
    if place == 1:
        return go(_UP_TO["3"] if read == "2" else _DIGITS)
    if place == 3:
        return go(_UP_TO["5"])
    if place == 4:
        return go(_DIGITS)
    if place == 6:
        usual: _Moves = [(_UP_TO["5"], Clock(read="00:00:0"))]
        return [*usual, *go("6")] if leap and _offsets(at) else usual
    if read[6] == "6":
        return [(CharSet.of("0"), Zone(_offsets(at)))]
    return [(_DIGITS, Zone())]


def _offsets(at: Clock) -> tuple[str, ...]:
    """The offsets with which hour and minute are 23:59 UTC."""
    ahead = (60 * int(at.read[:2]) + int(at.read[3:5]) + 1) % 1440  # local time is so many minutes ahead of UTC
    if not ahead:
        return ("Z", "z", "+00:00", "-00:00") if at.same_day else ()
    behind = 1440 - ahead
    later = (f"+{ahead // 60:02}:{ahead % 60:02}",) if at.next_day else ()
    return (f"-{behind // 60:02}:{behind % 60:02}", *later) if at.same_day else later


@lru_cache(maxsize=8192)
def _zone_moves(at: Zone) -> Sequence[tuple[CharSet, Position | None]]:
    part = at.part
    found: _Moves = []
    if part in ("", ".", "digits"):
        if part == "":
            found.append((CharSet.of("."), Zone(at.texts, ".")))
        else:
            found.append((_DIGITS, Zone(at.texts, "digits")))
        if part == ".":
            return found
        if not at.texts:
            return [*found, (CharSet.of("Zz"), Zone((), "end")), (CharSet.of("+-"), Zone((), "hours"))]
    if at.texts:
        for char in dict.fromkeys(text[0] for text in at.texts):
            rests = tuple(text[1:] for text in at.texts if text[0] == char)
            found.append((CharSet.of(char), Zone((), "end") if "" in rests else Zone(rests, "texts")))
        return found
    after: dict[str, list[tuple[CharSet, str]]] = {
        "hours": [(_UP_TO["1"], "hour"), (CharSet.of("2"), "hour of 20")],
        "hour": [(_DIGITS, ":")],
        "hour of 20": [(_UP_TO["3"], ":")],
        ":": [(CharSet.of(":"), "minutes")],
        "minutes": [(_UP_TO["5"], "minute")],
        "minute": [(_DIGITS, "end")],
        "end": [],
    }
    return [(chars, Zone((), to)) for chars, to in after[part]]

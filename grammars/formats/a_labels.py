"""A-labels (RFC 5890): whether a beginning can still become one, and how.

Text comes in lower case, without the ``xn--`` in front.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple

from structgen.grammars.formats import idna, punycode

SURE_ROOM = 14
"""With so many octets left, every beginning of an A-label can be completed: a letter, the delimiter, and two letters
inserted mend whatever is wrong with the text before."""
USUAL_ROOM = 4
"""Enough where its first four characters are as they should be: the delimiter, and one letter inserted."""


class Name(NamedTuple):
    """What the labels before say of this one (RFC 5893).

    Attributes:
        bidi: one of them is written from right to left.
        broken: one of them breaks the bidi rule.
    """

    bidi: bool = False
    broken: bool = False

    def allows(self, label: idna.Label) -> bool:
        """Whether the label is complete and may stand here."""
        if not label.valid:
            return False
        return not (self.bidi or label.rtl) or (label.fits and not self.broken)


def decoded(text: str) -> idna.Label | None:
    """The label that ``text`` spells; None if it is none, or not in the one right way."""
    label = punycode.decoded(text)
    if label is None or not all(map(idna.kind, map(ord, label))):
        return None
    examined = idna.examine(label)
    return examined if examined.valid else None


def needed(text: str, name: Name) -> int:
    """With so many octets left ``text`` can surely be completed."""
    head = text[:4]
    return SURE_ROOM if name.bidi or len(head) < 4 or head[0] == "-" or head[2:] == "--" else USUAL_ROOM


@lru_cache(maxsize=65536)
def completed(text: str, room: int, name: Name) -> str | None:
    """What completes ``text`` in ``room`` octets, near the limit; None if nothing does. With a delimiter, which makes
    what is there the ASCII characters of the label, or by digits alone. Every number that fits is tried, in order.

    Raises:
        Undecided: there are too many.
    """
    for more in ("", "a"):
        basic = text + more
        if basic and (digits := _mended(name.bidi, _shape(basic), room - len(more) - 1)) is not None:
            return f"{more}-{digits}"
    run = punycode.run(text)
    return None if run is None else _search(name, run, room, 3)


class Undecided(Exception):
    """Whether an A-label can be completed was not found out."""


def _shape(text: str) -> str:
    """A text for which the same insertions make a label, as far as ASCII goes."""
    alike = ["-" if char == "-" else "0" if char.isdigit() else "b" for char in text]
    return "".join(alike[:4]) + "b" * len(alike[4:-1]) + "".join(alike[4:][-1:])


_LETTER = 0xDF  # the first valid letter outside of ASCII: every other one takes as many digits or more


@lru_cache(maxsize=65536)
def _mended(bidi: bool, basic: str, room: int) -> str | None:
    """Digits that insert up to three letters into ``basic`` so that it is a label, at most ``room``."""
    return _mends(Name(bidi), punycode.Run(basic), room, 3)


def _mends(name: Name, run: punycode.Run, room: int, depth: int) -> str | None:
    for place in sorted({0, 1, 2, 3, 4, len(run.text)}):  # elsewhere nothing is to be mended
        number = (_LETTER - run.char) * (len(run.text) + 1) + place - run.place
        if place > len(run.text) or number < 0 or (digits := run.digits(number)) > room:
            continue
        made = run.inserted(number)
        label = idna.examine(made.text)
        if name.allows(label):
            return run.spelled(number)
        if depth > 1 and (further := _mends(name, made, room - digits, depth - 1)) is not None:
            return run.spelled(number) + further
    return None


FUEL = 50_000


def _search(name: Name, run: punycode.Run, room: int, depth: int) -> str | None:
    """At most ``room`` digits that make a label of ``run``."""
    if room < 1 or not depth or not all(map(idna.kind, map(ord, run.text))):
        return None
    places = _mending(name, run.text, min(depth, room, 2))
    later: list[tuple[str, punycode.Run]] = []
    starts = [lo for lo, _ in idna.permitted().ranges]
    more = 0
    for _ in range(FUEL if places else 0):
        digits, delta = run.digits(more), run.delta + more * run.weight
        char, place = run.target(delta)
        if digits > room or char > idna.LAST:
            break
        if place not in places:
            # Where every number counts, on to the next place that helps.
            more += 1 if run.weight > 1 else min((each - place) % (len(run.text) + 1) for each in places)
            continue
        if char not in idna.permitted():
            i = bisect_left(starts, char)
            if i == len(starts):
                break
            more = max(-(-(run.least(starts[i]) - run.delta) // run.weight), more + 1)
            continue
        made = run.inserted(delta)
        label = idna.examine(made.text)
        if name.allows(label):
            return run.spelled(more)
        if not label.mixed and not (label.rtl and name.broken) and digits < room and len(later) < 99:
            later.append((run.spelled(more), made))
        more += 1
    else:
        if places:
            raise Undecided
    for read, made in later:
        if (further := _search(name, made, room - len(read), depth - 1)) is not None:
            return read + further
    return None


@lru_cache(maxsize=4096)
def _mending(name: Name, text: str, depth: int) -> frozenset[int]:
    """The places at which a letter mends a label, or at which two of them begin to."""
    if not text:
        return frozenset((0,))
    label = idna.examine(text)
    if label.mixed:
        return frozenset()
    if label.next is not None or any(len(want) > 2 for want in label.wants):
        return frozenset(range(len(text) + 1))  # not any letter will do
    letter = "\u05d0" if label.rtl else "\u4e00"

    def mends(text: str) -> bool:
        return name.allows(idna.examine(text))

    tried = [text[:place] + letter + text[place:] for place in range(len(text) + 1)]
    found = frozenset(place for place, made in enumerate(tried) if mends(made))
    if found or depth < 2:
        return found
    return frozenset(
        place
        for first, made in enumerate(tried)
        for second in range(first + 1, len(made) + 1)
        if mends(made[:second] + letter + made[second:])
        for place in (first, second - 1)
    )

"""Host names: ``hostname`` (RFC 1123 with the A-labels of RFC 5890), ``idn-hostname`` (IDNA 2008, RFC 5890 to 5893)
and the domains of ``idn-email`` (RFC 6531), as automata over code points.

A label that is not ASCII counts as many octets as its A-label has, and an A-label must be the Punycode of a label that
keeps all rules. Both depend on the whole label, so positions hold its text; nothing else is remembered of a name
than its length and what it has to do with right-to-left writing.

Choices: a name has at most 253 octets and no dot at its end. An ``idn-hostname`` may hold A-labels and use the four
dots of IDNA; no other label has hyphens third and fourth; names with a right-to-left label are held to the rule of
RFC 5893 as a whole. Domains of ``idn-email`` hold any label of RFC 5321 besides, and need no normalization.

A label is given up as soon as its A-label is longer than 63 octets. In rare cases (some 1 in 100,000 labels that reach
the limit) the next characters would make the Punycode shorter again: these are refused.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.grammars.charset import EMPTY, CharSet
from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import Expr
from structgen.grammars.formats import a_labels, idna, punycode
from structgen.grammars.lifted import UNSURE, Position, lifted

MAX_NAME, MAX_LABEL, PREFIX = 253, 63, "xn--"

_LOWER = CharSet.range("a", "z") | CharSet.range("0", "9")
_UPPER = CharSet.range("A", "Z")
_HYPHEN = CharSet.of("-")
_LDH = _LOWER | _UPPER | _HYPHEN
_ALIKE = (CharSet.range("0", "9"), _HYPHEN, CharSet.of("xX"), CharSet.of("nN"),
          (_LOWER | _UPPER) - CharSet.range("0", "9") - CharSet.of("nNxX"))  # fmt: skip
"""Characters of ASCII labels that count alike outside of A-labels."""
_Moves = list[tuple[CharSet, Position | None]]


class Style(NamedTuple):
    """Which names are meant.

    Attributes:
        dots: the separators.
        unicode: labels need not be ASCII.
        decodes: what begins with ``xn--`` must be an A-label, and names are held to the bidi rule as a whole.
    """

    dots: str
    unicode: bool
    decodes: bool


HOSTNAME = Style(".", unicode=False, decodes=True)
EMAIL = Style(".", unicode=False, decodes=False)
IDN_HOSTNAME = Style(".\u3002\uff0e\uff61", unicode=True, decodes=True)
IDN_EMAIL = Style(".", unicode=True, decodes=False)


class Closed(NamedTuple):
    """A complete label: its length in octets, whether it is written from right to left, and whether it keeps the
    bidi rule."""

    octets: int
    rtl: bool
    fits: bool


@dataclass(frozen=True)
class Host(Position):
    """Inside a name.

    Attributes:
        used: octets of the labels before, with their dots.
        bidi: one of them is written from right to left.
        broken: one of them breaks the bidi rule.
        text: of the label, as far as it counts.
    """

    style: Style
    used: int = 0
    bidi: bool = False
    broken: bool = False
    text: str = ""

    checked = True

    @property
    def decodes(self) -> bool:
        """In an A-label."""
        return self.style.decodes and self.text.startswith(PREFIX)

    @property
    def _name(self) -> a_labels.Name:
        """What counts of the labels before in A-labels."""
        return a_labels.Name(self.bidi, self.broken) if self.style.unicode else a_labels.Name()

    @property
    def _needed(self) -> int:
        return a_labels.needed(self.text[len(PREFIX) :], self._name)

    @property
    def room(self) -> int:
        """Octets that the label may have."""
        return min(MAX_LABEL, MAX_NAME - self.used)

    @property
    def ends(self) -> bool:
        return self._closed() is not None

    def _closed(self) -> Closed | None:
        closed = _closed(self.style, self.text)
        if closed is None or closed.octets > self.room or not self._allows(closed):
            return None
        return closed

    def _allows(self, closed: Closed) -> bool:
        if not (self.style.unicode and (self.bidi or closed.rtl)):
            return True
        return closed.fits and not self.broken

    def moves(self) -> Sequence[tuple[CharSet, Position | None]]:
        return _moves(self)

    def after(self, char: int) -> Position | None:
        to = self._with(chr(char))
        return to if _alive(to) else None

    def goes_on(self, chars: CharSet) -> bool:
        few = list(islice(chars, 8))
        if any(self.after(char) is not None for char in few):
            return True
        if len(few) < 8 or self.decodes:
            return any(self.after(char) is not None for char in islice(chars, 8, None))
        # Near the limit: the lengths of all at once.
        codes = np.concatenate([np.arange(lo, hi + 1, dtype=np.int32) for lo, hi in chars.ranges])
        fits = self._fitting(codes, np.arange(len(codes) + 1, dtype=np.int64)) <= self.room
        return any(self.after(char) is not None for char in codes[fits].tolist())

    def next_label(self) -> Position | None:
        """Behind a dot here."""
        closed = self._closed()
        if closed is None or self.used + closed.octets + 1 >= MAX_NAME:
            return None
        return Host(self.style, self.used + closed.octets + 1, self.bidi or closed.rtl, self.broken or not closed.fits)

    def loose(self) -> Position | None:
        if self.decodes:
            return Loose(self.style, "a-label", max(self.room - len(self.text) - self._needed, 0))
        return _loose(self) if self.style.unicode else None

    def completion(self, at_least: int = 0) -> str | None:
        text = _completion(self)
        if text is None or len(text) >= at_least:
            return text
        at: Position = self._with(text)
        while len(text) < at_least:
            assert isinstance(at, Host)
            # Letters up to the limit of the label or name, then more labels; none of a single octet is left over.
            further = at.after(ord("a")) if not at.decodes else None
            if further is not None and (at.used + MAX_LABEL < MAX_NAME or len(at.text) < at.room):
                text, at = text + "a", further
            elif (dotted := at.next_label()) is not None and (further := dotted.after(ord("a"))) is not None:
                text, at = text + ".a", further
            else:
                return None
        return text if at.ends else None

    @property
    def longest(self) -> int:
        return MAX_NAME - self.used - len(self.text)

    def wider(self) -> Position:
        return Rough(self.style, self.text[-1:] if self.text[-1:] in ("", "-") else "a")

    def _with(self, text: str) -> Host:
        return Host(self.style, self.used, self.bidi, self.broken, _kept(self.style, self.text + text))

    def jump(self, text: str) -> Position:
        return self._with(text)

    def _fitting(self, codes: NDArray[np.int32], offsets: NDArray[np.int64]) -> NDArray[np.int32]:
        """Octets of the label continued by each text."""
        octets = _compiled()
        text = self.text if self.style.decodes else unicodedata.normalize("NFC", self.text)
        lengths = np.empty(len(offsets) - 1, dtype=np.int32)
        octets(np.array([ord(char) for char in text], dtype=np.int32), codes, offsets, self.room, lengths)
        return lengths

    def sift(self, codes: NDArray[np.int32], offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        if self.decodes:
            return None
        lengths = self._fitting(codes, offsets)
        fits: NDArray[np.bool_] = lengths <= self.room
        if self.bidi or (not self.text.isascii() and idna.examine(self.text, self.style.decodes).wants):
            # Something must still come, or the label must end well: look where that may not fit in.
            for i in np.flatnonzero(fits & (lengths > self.room - a_labels.SURE_ROOM)).tolist():
                more = codes[offsets[i] : offsets[i + 1]].tolist()
                fits[i] = _alive(self._with("".join(map(chr, more))))
        return fits

    def clamped(self, limit: int) -> Position:
        if self.used and not self.style.unicode and self.used + len(self.text) + limit + MAX_LABEL + 1 < MAX_NAME:
            return Host(self.style, 0, self.bidi, self.broken, self.text)
        return self


@dataclass(frozen=True)
class Loose(Position):
    """A position that has forgotten the text.

    Attributes:
        phase: "start"; "lower" or "upper" (ASCII so far, with upper case letters); "ltr", "rtl": not ASCII; "all of
            ltr", "all of rtl": there nothing is sure; "a-label".
        left: of an A-label, so many octets surely fit in; other labels are sifted.
        mirrored: a label may be written from right to left.
    """

    style: Style
    phase: str
    left: int = 0
    mirrored: bool = True
    forgetful = True

    @property
    def ends(self) -> None:
        return None

    def moves(self) -> Sequence[tuple[CharSet, Position | None]]:
        return _loose_moves(self)


@dataclass(frozen=True)
class Rough(Position):
    """Names of any labels that neither begin nor end with a hyphen.

    Attributes:
        last: of the label, "" before its first character, "-" or "a" for any other.
    """

    style: Style
    last: str

    @property
    def ends(self) -> bool:
        return self.last == "a"

    def moves(self) -> Sequence[tuple[CharSet, Position | None]]:
        inside = _LOWER | _UPPER | (idna.permitted() if self.style.unicode else EMPTY)
        found: _Moves = [(inside, Rough(self.style, "a"))]
        if self.last:
            found.append((_HYPHEN, Rough(self.style, "-")))
        if self.last == "a":
            found.append((CharSet.of(self.style.dots), Rough(self.style, "")))
        return found


def _kept(style: Style, text: str) -> str:
    """As much of a label as counts."""
    if not text.isascii():
        return text
    lower = text.lower()
    if style.decodes and lower.startswith(PREFIX):
        return lower
    if style.decodes and PREFIX.startswith(lower):
        return text if style.unicode else lower
    if style.unicode and lower == text:
        return text
    # ASCII for good: with what it begins and ends, and how long it is.
    first = "-" if text[0] == "-" else "0" if text[0].isdigit() else "A"
    last = "-" if text[-1] == "-" else "A"
    return first if len(text) == 1 else first + "A" * (len(text) - 2) + last


@lru_cache(maxsize=65536)
def _closed(style: Style, text: str) -> Closed | None:
    """The label; None where it is none."""
    if not text or text[-1] == "-" or text[0] == "-":
        return None
    if style.decodes and text.startswith(PREFIX):
        spelled = a_labels.decoded(text[len(PREFIX) :])
        return None if spelled is None else Closed(len(text), spelled.rtl, spelled.fits)
    if text.isascii():
        if style.decodes and style.unicode and text[2:4] == "--":
            return None
        return Closed(len(text), False, not text[0].isdigit())
    label = idna.examine(text, style.decodes)
    return Closed(_octets(style, text), label.rtl, label.fits) if label.valid else None


def _octets(style: Style, text: str) -> int:
    """The length of the A-label."""
    if not style.decodes:
        text = unicodedata.normalize("NFC", text)
    return len(PREFIX) + punycode.length(text)


def _completes(at: Host) -> bool:
    try:
        return a_labels.completed(at.text[len(PREFIX) :], at.room - len(at.text), at._name) is not None
    except a_labels.Undecided:
        return True


@lru_cache(maxsize=65536)
def _alive(at: Host) -> bool:
    """Whether the label can still be completed."""
    style, text, room = at.style, at.text, at.room
    if at.decodes:
        return len(text) <= room and (room - len(text) >= at._needed or at.ends or _completes(at))
    if text.isascii():
        return _ascii_alive(at)
    if any("A" <= char <= "Z" for char in text):
        return False
    label = idna.examine(text, style.decodes)
    if label.dead or (label.rtl and at.broken and style.unicode):
        return False
    if at.bidi and not label.rtl and unicodedata.bidirectional(text[0]) != "L":
        return False
    if at.ends:
        return True
    if _octets(style, text) > room:
        return False
    return next(_endings(at, 3), None) is not None


@lru_cache(maxsize=4096)
def _completion(at: Host) -> str | None:
    """A short end of the label."""
    if at.ends:
        return ""
    if at.decodes:
        try:
            return a_labels.completed(at.text[len(PREFIX) :], at.room - len(at.text), at._name)
        except a_labels.Undecided:
            return None
    if at.text.isascii():
        return "a"
    return next((text[len(at.text) :] for text in _endings(at, 3)), None)


def _endings(at: Host, depth: int) -> Iterator[str]:
    """Texts that complete a label."""
    label = idna.examine(at.text, at.style.decodes)
    wants = label.wants or (tuple(map(ord, "a0")),)
    for char in wants[0] if depth else ():
        if not idna.kind(char):
            continue
        to = Host(at.style, at.used, at.bidi, at.broken, at.text + chr(char))
        if to.ends:
            yield to.text
        elif not idna.examine(to.text, at.style.decodes).dead:
            yield from _endings(to, depth - 1)


def _ascii_alive(at: Host) -> bool:
    style, text = at.style, at.text
    if text[:1] == "-" or len(text) > at.room:
        return False
    if style.unicode and at.bidi and text[:1].isdigit():
        return False
    if style.unicode and style.decodes and text[2:4] == "--":
        return False
    return len(text) + (text[-1:] == "-") <= at.room


@lru_cache(maxsize=8192)
def _moves(at: Host) -> Sequence[tuple[CharSet, Position | None]]:
    found: _Moves = []
    if (to := at.next_label()) is not None:
        found.append((CharSet.of(at.style.dots), to))
    if at.style.unicode or at.decodes:
        if len(at.text) < at.room and (chars := _candidates(at)):
            found.append((chars, None))
        return found
    joined: dict[Position, CharSet] = {}
    for chars in _ALIKE:
        if (target := at.after(chars.ranges[0][0])) is not None:
            joined[target] = joined.get(target, EMPTY) | chars
    return [*found, *((chars, target) for target, chars in joined.items())]


def _candidates(at: Host) -> CharSet:
    """Characters one of which may come next; not all of them do."""
    if at.decodes or any("A" <= char <= "Z" for char in at.text):
        return _LDH
    if not at.text:
        return _written("start" if at.broken else "any start")
    if at.text.isascii():
        return _written("ascii")
    if _octets(at.style, at.text) >= at.room and at.style.decodes:
        return EMPTY
    label = idna.examine(at.text, at.style.decodes)
    chars = _written("rtl" if label.rtl else "ltr")
    return chars if label.next is None else chars & label.next


@lru_cache(maxsize=8)
def _written(where: str) -> CharSet:
    if where == "rtl":
        return CharSet.range("0", "9") | _HYPHEN | idna.written(True, left_to_right=False)
    chars = idna.written(where == "any start", left_to_right=True)
    if where in ("start", "any start"):
        return (_LOWER | _UPPER | chars) - idna.marks()
    return chars | (_LDH if where == "ascii" else _LOWER | _HYPHEN)


# ------------------------------------------------------------------------------------------- loose positions


def _loose(at: Host) -> Loose:
    text = at.text
    if not text:
        return Loose(at.style, "start", mirrored=not at.broken)
    if text.isascii():
        return Loose(at.style, "upper" if any("A" <= char <= "Z" for char in text) else "lower")
    label = idna.examine(text, at.style.decodes)
    direction = "rtl" if label.rtl else "ltr"
    return Loose(at.style, f"all of {direction}" if label.next is not None else direction)


@lru_cache(maxsize=1024)
def _loose_moves(at: Loose) -> Sequence[tuple[CharSet, Position | None]]:
    dots = CharSet.of(at.style.dots)
    sure: dict[str, CharSet] = {}
    if at.phase == "a-label":
        ahead: _Moves = [(_LDH, Loose(at.style, at.phase, at.left - 1))] if at.left else []
        return [*ahead, (dots if at.left else dots | _LDH, UNSURE)]
    if at.phase == "start":
        sure = {"lower": CharSet.range("a", "z"), "upper": _UPPER, "ltr": idna.plain(False) - idna.marks()}
        if at.mirrored:
            sure["rtl"] = idna.plain(True) - idna.marks()
        others = _written("any start" if at.mirrored else "start")
    elif at.phase == "lower":
        sure = {"lower": _LOWER, "upper": _UPPER, "ltr": idna.plain(False)}
        others = _written("ascii")
    elif at.phase == "upper":
        sure = {"upper": _LOWER | _UPPER}
        others = _LDH
    else:
        if at.phase in ("ltr", "rtl"):
            sure[at.phase] = idna.plain(at.phase == "rtl") | (_LOWER if at.phase == "ltr" else EMPTY)
        others = _written(at.phase[-3:])
    for chars in sure.values():
        others -= chars
    found: _Moves = [(chars, Loose(at.style, phase, mirrored=at.mirrored)) for phase, chars in sure.items()]
    return [*found, (others | dots, UNSURE)]


def _compiled() -> Any:
    from structgen.grammars.formats.label_lengths import octets

    return octets


def name(style: Style, encoding: Encoding) -> Expr:
    """Names of a style."""
    if style.unicode:
        _compiled()  # once for an installation; while a grammar is compiled, not while masks are made
    return lifted(Host(style), encoding)

"""Mail addresses: the Mailbox of RFC 5321 (section 4.1.2), ``email``, and of RFC 6531 (section 3.3), ``idn-email``.

The part before the @ has at most 64 octets (in UTF-8). A domain is made of labels of letters, digits and hyphens;
those of ``idn-email`` may also be Unicode labels (see hosts.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from structgen.grammars.charset import MAX_CODE_POINT, CharSet
from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import Expr, alt, seq
from structgen.grammars.formats import hosts
from structgen.grammars.formats.addresses import ipv4, ipv6
from structgen.grammars.lifted import Position, lifted

MAX_LOCAL = 64

_ATOM = CharSet.of("!#$%&'*+/=?^_`{|}~-") | CharSet([(0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)])
_QUOTED = CharSet([(0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E)])
_WIDE = ((CharSet([(0x80, 0x7FF)]), 2), (CharSet([(0x800, 0xD7FF), (0xE000, 0xFFFF)]), 3),
         (CharSet([(0x10000, MAX_CODE_POINT)]), 4))  # fmt: skip
_NEEDS = {"start": 1, "atom": 0, "dot": 1, "quoted": 1, "escaped": 2, "closed": 0}
"""Octets without which no address is complete."""


@dataclass(frozen=True)
class Local(Position):
    """Before the @.

    Attributes:
        mode: "start"; in an atom; behind a "dot"; in quotes, there "escaped"; behind them ("closed").
        left: octets that still fit in; -1: any number.
    """

    unicode: bool
    mode: str = "start"
    left: int = MAX_LOCAL

    @property
    def ends(self) -> bool:
        return not _NEEDS[self.mode]

    def moves(self) -> Sequence[tuple[CharSet, Position | None]]:
        return _moves(self)

    def wider(self) -> Position:
        return Local(self.unicode, self.mode, -1)

    def completion(self, at_least: int = 0) -> str | None:
        text = {"quoted": '"', "escaped": 'a"', "atom": "", "closed": ""}.get(self.mode, "a")
        if self.mode != "closed" and len(text) < at_least:
            text = "a" * (at_least - len(text)) + text
        return text if at_least <= len(text) and (self.left < 0 or len(text) <= self.left) else None


@lru_cache(maxsize=1024)
def _moves(at: Local) -> Sequence[tuple[CharSet, Position | None]]:
    found: list[tuple[CharSet, Position | None]] = []

    def go(chars: CharSet, mode: str, octets: int = 1) -> None:
        if at.left < 0:
            found.append((chars, Local(at.unicode, mode, at.left)))
        elif at.left - octets >= _NEEDS[mode]:
            found.append((chars, Local(at.unicode, mode, at.left - octets)))

    wide = _WIDE if at.unicode else ()
    if at.mode in ("start", "atom", "dot"):
        go(_ATOM, "atom")
        for chars, octets in wide:
            go(chars, "atom", octets)
        if at.mode == "start":
            go(CharSet.of('"'), "quoted")
        elif at.mode == "atom":
            go(CharSet.of("."), "dot")
    elif at.mode == "quoted":
        go(_QUOTED, "quoted")
        for chars, octets in wide:
            go(chars, "quoted", octets)
        go(CharSet.of("\\"), "escaped")
        go(CharSet.of('"'), "closed")
    elif at.mode == "escaped":
        go(CharSet([(0x20, 0x7E)]), "quoted")
    return found


def mailbox(international: bool, encoding: Encoding) -> Expr:
    """Addresses of RFC 5321, or with ``international`` those of RFC 6531."""
    address = alt(ipv4(encoding), seq(_any_case("IPv6:", encoding), ipv6(6, encoding)))
    domain = hosts.name(hosts.IDN_EMAIL if international else hosts.EMAIL, encoding)
    at, opened, closed = (encoding.text(mark) for mark in "@[]")
    return seq(lifted(Local(international), encoding), at, alt(domain, seq(opened, address, closed)))


def _any_case(text: str, encoding: Encoding) -> Expr:
    return seq(*(encoding.chars(CharSet.of(char.lower() + char.upper())) for char in text))

"""Addresses of the Internet Protocol."""

from __future__ import annotations

from functools import lru_cache

from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import EPSILON, Expr, alt, rep, seq
from structgen.grammars.formats.plain import pattern

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"


def ipv4(encoding: Encoding) -> Expr:
    """RFC 2673, section 3.2."""
    return pattern(rf"{_OCTET}(?:\.{_OCTET}){{3}}", encoding)


@lru_cache(maxsize=8)
def ipv6(groups: int, encoding: Encoding) -> Expr:
    """IPv6 (RFC 4291 section 2.2); at most ``groups`` groups are written beside ``::``."""
    group, colon = pattern("[0-9A-Fa-f]{1,4}", encoding), pattern(":", encoding)
    four = ipv4(encoding)

    def right(room: int) -> Expr:
        """What may follow ``::``."""
        if room < 1:
            return EPSILON
        found = [EPSILON, seq(group, rep(seq(colon, group), 0, room - 1))]
        if room >= 2:
            found.append(seq(rep(seq(group, colon), 0, room - 2), four))
        return alt(*found)

    text = group
    for read in range(7, 0, -1):  # `text`: the groups from number `read` on
        after = [text]
        if read == 6:
            after.append(four)
        if read <= groups:
            after.append(seq(colon, right(groups - read)) if read < groups else colon)
        text = seq(group, colon, alt(*after))
    return alt(text, seq(colon, colon, right(groups)))

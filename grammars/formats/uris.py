"""URIs (RFC 3986) and IRIs (RFC 3987)."""

from __future__ import annotations

from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import Expr, alt, optional, rep, seq
from structgen.grammars.formats.addresses import ipv6
from structgen.grammars.formats.plain import IPRIVATE, UCSCHAR, pattern


def uri(relative: bool, international: bool, encoding: Encoding) -> Expr:
    """URI, URI reference; with ``international`` the same of IRIs (RFC 3987)."""
    plain = rf"0-9A-Za-z._~!$&'()*+,;={UCSCHAR if international else ''}\-"
    private = IPRIVATE if international else ""

    def chars(more: str) -> Expr:
        return pattern(rf"[{plain}{more}]|%[0-9A-Fa-f]{{2}}", encoding)

    def mark(text: str) -> Expr:
        return encoding.text(text)

    segment_char, slash = chars(":@"), mark("/")
    slashes = rep(seq(slash, rep(segment_char)))
    address = alt(ipv6(7, encoding), pattern(r"[vV][0-9A-Fa-f]+\.[0-9A-Za-z._~!$&'()*+,;=:-]+", encoding))
    host = alt(seq(mark("["), address, mark("]")), rep(chars("")))
    authority = seq(optional(seq(rep(chars(":")), mark("@"))), host, pattern(r"(?::\d*)?", encoding))
    first = rep(segment_char, 1)
    rooted = seq(slash, alt(seq(slash, authority, slashes), optional(seq(first, slashes))))
    found = [seq(pattern("[A-Za-z][0-9A-Za-z+.-]*:", encoding), alt(rooted, optional(seq(first, slashes))))]
    if relative:
        found += [rooted, optional(seq(rep(chars("@"), 1), slashes))]
    query = optional(seq(mark("?"), rep(chars(f":@/?{private}"))))
    fragment = optional(seq(mark("#"), rep(chars(":@/?"))))
    return seq(alt(*found), query, fragment)

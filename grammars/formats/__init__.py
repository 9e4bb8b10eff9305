r"""The string formats of JSON Schema (draft 2020-12, validation section 7.3) as languages.

Choices where the specifications leave some: years run from 0001 (many validators know no year 0); a leap
second is taken where it can be one, at 23:59:60 UTC, in ``date-time`` on the last day of June or December; the
length limits of the mail and name standards hold; host names have no ``xn--`` labels, since whether what
is behind them decodes (IDNA) is not a regular language; relative JSON pointers have no index manipulation;
URI templates use no reserved operator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType

from structgen.errors import GrammarError, UnsupportedGrammar
from structgen.grammars.bounded import at_most
from structgen.grammars.deferred import deferred
from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import EPSILON, Expr, alt, optional, rep, seq
from structgen.grammars.formats.regexes import regex
from structgen.grammars.regex import lower, parse

UNBUILT = frozenset({"idn-email", "idn-hostname"})
"""Known to the specification, not built: their rules are no regular language."""


@lru_cache(maxsize=512)
def _lower(pattern: str, encoding: Encoding) -> Expr:
    return lower(parse(pattern, re.ASCII), encoding)


# ------------------------------------------------------------------------------------------ date and time

_LEAP_CENTURY = "(?:0[48]|[2468][048]|[13579][26])"
_LEAP_YEAR = rf"(?:\d\d{_LEAP_CENTURY}|{_LEAP_CENTURY}00)"
_YEAR = r"(?:[1-9]\d{3}|0(?:[1-9]\d\d|0(?:[1-9]\d|0[1-9])))"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    rf"|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_HOUR, _FRACTION = r"(?:[01]\d|2[0-3])", r"(?:\.\d+)?"
_TIME = rf"{_HOUR}:[0-5]\d:[0-5]\d{_FRACTION}(?:[Zz]|[+-]{_HOUR}:[0-5]\d)"

# ------------------------------------------------------------------------------------------- hosts and mail

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_LABEL = r"[0-9A-Za-z](?:[0-9A-Za-z-]{0,61}[0-9A-Za-z])?"
_DOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_ALNUM, _LDH = "[0-9A-Za-z]", "[0-9A-Za-z-]"
_HOST_LABEL = (  # a label that does not begin with xn--
    f"(?:[0-9A-WYZa-wyz](?:{_LDH}{{0,61}}{_ALNUM})?"
    f"|[Xx](?:-{_LDH}{{0,60}}{_ALNUM}|[0-9A-MO-Za-mo-z](?:{_LDH}{{0,60}}{_ALNUM})?"
    f"|[Nn](?:{_ALNUM}(?:{_LDH}{{0,59}}{_ALNUM})?|-{_ALNUM}(?:{_LDH}{{0,58}}{_ALNUM})?)?)?)"
)
_HOSTNAME = rf"{_HOST_LABEL}(?:\.{_HOST_LABEL})*"
_ATEXT = r"[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]"
_LOCAL = rf"""{_ATEXT}+(?:\.{_ATEXT}+)*|"(?:[ !#-\[\]-~]|\\[ -~])*\""""


@lru_cache(maxsize=8)
def _ipv6(groups: int, encoding: Encoding) -> Expr:
    """IPv6 (RFC 4291 section 2.2); at most ``groups`` groups are written beside ``::``."""
    group, colon = _lower("[0-9A-Fa-f]{1,4}", encoding), _lower(":", encoding)
    ipv4 = _lower(_IPV4, encoding)

    def right(room: int) -> Expr:
        """What may follow ``::``."""
        if room < 1:
            return EPSILON
        found = [EPSILON, seq(group, rep(seq(colon, group), 0, room - 1))]
        if room >= 2:
            found.append(seq(rep(seq(group, colon), 0, room - 2), ipv4))
        return alt(*found)

    text = group
    for read in range(7, 0, -1):  # `text`: the groups from number `read` on
        after = [text]
        if read == 6:
            after.append(ipv4)
        if read <= groups:
            after.append(seq(colon, right(groups - read)) if read < groups else colon)
        text = seq(group, colon, alt(*after))
    return alt(text, seq(colon, colon, right(groups)))


# --------------------------------------------------------------------------------------------- URIs (RFC 3986)

_UCSCHAR = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr(plane << 16 | (0x1000 if plane == 14 else 0))}-{chr(plane << 16 | 0xFFFD)}" for plane in range(1, 15)
)
_IPRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"


def _uri(relative: bool, international: bool, encoding: Encoding) -> Expr:
    """URI, URI reference; with ``international`` the same of IRIs (RFC 3987)."""
    plain = rf"0-9A-Za-z._~!$&'()*+,;={_UCSCHAR if international else ''}\-"
    private = _IPRIVATE if international else ""

    def chars(more: str) -> Expr:
        return _lower(rf"[{plain}{more}]|%[0-9A-Fa-f]{{2}}", encoding)

    def mark(text: str) -> Expr:
        return encoding.text(text)

    segment_char, slash = chars(":@"), mark("/")
    slashes = rep(seq(slash, rep(segment_char)))
    address = alt(_ipv6(7, encoding), _lower(r"[vV][0-9A-Fa-f]+\.[0-9A-Za-z._~!$&'()*+,;=:-]+", encoding))
    host = alt(seq(mark("["), address, mark("]")), rep(chars("")))
    authority = seq(optional(seq(rep(chars(":")), mark("@"))), host, _lower(r"(?::\d*)?", encoding))
    first = rep(segment_char, 1)
    rooted = seq(slash, alt(seq(slash, authority, slashes), optional(seq(first, slashes))))
    found = [seq(_lower("[A-Za-z][0-9A-Za-z+.-]*:", encoding), alt(rooted, optional(seq(first, slashes))))]
    if relative:
        found += [rooted, optional(seq(rep(chars("@"), 1), slashes))]
    query = optional(seq(mark("?"), rep(chars(f":@/?{private}"))))
    fragment = optional(seq(mark("#"), rep(chars(":@/?"))))
    return seq(alt(*found), query, fragment)


def _uri_template() -> str:
    """RFC 6570 section 2, with the apostrophe as a literal (erratum 6937)."""
    escaped = "%[0-9A-Fa-f]{2}"
    literal = rf"[!#$&-;=?-\[\]_a-z~{_UCSCHAR}{_IPRIVATE}]|{escaped}"
    char = f"(?:[0-9A-Za-z_]|{escaped})"
    variable = rf"{char}+(?:\.{char}+)*(?::[1-9]\d{{0,3}}|\*)?"
    return rf"(?:{literal}|\{{[+#./;?&]?{variable}(?:,{variable})*\}})*"


# ------------------------------------------------------------------------------------------------- the rest

_HEX = "[0-9A-Fa-f]"
_POINTER = "(?:/(?:[^~/]|~[01])*)*"
_DURATION_TIME = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)"
_DURATION_DATE = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"

_PATTERNS: dict[str, Callable[[], str]] = {
    "date": lambda: _DATE,
    "duration": lambda: rf"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|\d+W)",
    "ipv4": lambda: _IPV4,
    "uuid": lambda: f"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}",
    "uri-template": _uri_template,
    "json-pointer": lambda: _POINTER,
    "relative-json-pointer": lambda: rf"(?:0|[1-9]\d*)(?:#|{_POINTER})",
}


def _time(encoding: Encoding) -> Expr:
    return alt(_lower(_TIME, encoding), *_leap_seconds(encoding))


def _date_time(encoding: Encoding) -> Expr:
    same_day, next_day = _leap_seconds(encoding)
    mark = "[Tt]"
    return alt(
        _lower(f"{_DATE}{mark}{_TIME}", encoding),
        seq(_lower(rf"{_YEAR}-(?:06-30|12-31){mark}", encoding), same_day),
        seq(_lower(rf"{_YEAR}-(?:07-01|01-01){mark}", encoding), next_day),
    )


def _leap_seconds(encoding: Encoding) -> tuple[Expr, Expr]:
    """23:59:60 UTC in local time, where the local day is the same, and where it is the next one already."""
    same = [seq(encoding.text(f"{hour:02}:"), deferred(_leap_hour, hour, False, encoding)) for hour in range(24)]
    after = [seq(encoding.text(f"{hour:02}:"), deferred(_leap_hour, hour, True, encoding)) for hour in range(24)]
    return alt(*same), alt(*after)


def _leap_hour(hour: int, next_day: bool, encoding: Encoding) -> Expr:
    """The minutes of a local hour in which it may be 23:59:60 UTC, each with the offset that makes it so."""
    second = _lower(f":60{_FRACTION}", encoding)
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
            offsets.append(_lower(r"[Zz]|[+-]00:00", encoding))
        if offsets:
            found.append(seq(encoding.text(f"{minute:02}"), second, *offsets))
    return alt(*found)


def _hostname(encoding: Encoding) -> Expr:
    return at_most(_lower(_HOSTNAME, encoding), 253, encoding, slack=1)


def _email(encoding: Encoding) -> Expr:
    """A Mailbox of RFC 5321 section 4.1.2."""
    local = at_most(_lower(_LOCAL, encoding), 64, encoding, slack=2)
    domain = at_most(_lower(_DOMAIN, encoding), 253, encoding, slack=1)
    address = alt(_lower(_IPV4, encoding), seq(_lower("(?i:IPv6:)", encoding), _ipv6(6, encoding)))
    literal = seq(encoding.text("["), address, encoding.text("]"))
    return seq(local, _lower("@", encoding), alt(domain, literal))


def _from_pattern(name: str, encoding: Encoding) -> Expr:
    return _lower(_PATTERNS[name](), encoding)


FORMATS: Mapping[str, Callable[[Encoding], Expr]] = MappingProxyType({
    **{name: partial(_from_pattern, name) for name in _PATTERNS},
    "ipv6": partial(_ipv6, 7),
    "uri": partial(_uri, False, False),
    "uri-reference": partial(_uri, True, False),
    "iri": partial(_uri, False, True),
    "iri-reference": partial(_uri, True, True),
    "time": _time,
    "date-time": _date_time,
    "hostname": _hostname,
    "email": _email,
    "regex": regex,
})
"""Name of a format -> its language in an encoding."""


@lru_cache(maxsize=256)
def expr(name: str, encoding: Encoding) -> Expr:
    """The language of a format.

    Raises:
        UnsupportedGrammar: the specification has the format, structgen does not build it.
        GrammarError: no format of this name.
    """
    if name in FORMATS:
        return FORMATS[name](encoding)
    allowed = ", ".join(sorted(FORMATS))
    if name in UNBUILT:
        raise UnsupportedGrammar(f"the format {name!r} is not built; these are: {allowed}")
    raise GrammarError(f"there is no format {name!r}; these are known: {allowed}")

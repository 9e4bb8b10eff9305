"""The string forms of Python's types as regular expressions (without anchors, ECMA-262 and Python alike).

What pydantic writes for a value is among them (of a bounded ``Decimal``: without an exponent); other spellings that its
parser takes are there where they are common.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from structgen.grammars.pytypes.bounds import has_zero
from structgen.grammars.pytypes.ranges import any_of, at_least, at_most, naturals

# ----------------------------------------------------------------------------------------------- numbers

_DECIMAL = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_EXPONENT = "(?:[eE][+-]?[0-9]{1,15})?"
_POSITIVE = r"(?:[0-9]*[1-9][0-9]*(?:\.[0-9]*)?|[0-9]*\.[0-9]*[1-9][0-9]*)"
DECIMAL = f"{_DECIMAL}{_EXPONENT}"
"""What ``Decimal`` reads; exponents to the size that it can hold."""
FLOAT = rf"{_DECIMAL}(?:[eE][+-]?[0-9]{{1,3}})?"
_UNSIGNED = FLOAT.removeprefix("[+-]?")
COMPLEX = rf"(?:{FLOAT}(?:[+-](?:{_UNSIGNED})?j)?|[+-]?(?:{_UNSIGNED})?j)"
_OVER = r"[0-9]+/[0-9]*[1-9][0-9]*"
FRACTION = rf"[+-]?(?:{_OVER}|[0-9]+(?:\.[0-9]+)?)"
POSITIVE_FRACTION = r"(?:[0-9]*[1-9][0-9]*/[0-9]*[1-9][0-9]*|[0-9]*[1-9][0-9]*(?:\.[0-9]+)?|[0-9]+\.[0-9]*[1-9][0-9]*)"
NATURAL_FRACTION = rf"(?:{_OVER}|[0-9]+(?:\.[0-9]+)?)"


def decimals(
    *,
    lower: tuple[Decimal, bool] | None,
    upper: tuple[Decimal, bool] | None,
    digits: int | None,
    places: int | None,
) -> list[str]:
    """Expressions whose common texts are the decimals with these bounds (and whether a bound is itself outside)
    and, at most, so many digits and decimal places."""
    found = []
    if digits is places is None and lower is not None and lower[0] == 0 and upper is None:
        return [rf"\+?{_POSITIVE}{_EXPONENT}" if lower[1] else rf"(?:\+?{DECIMAL.removeprefix('[+-]?')}|-0(?:\.0*)?)"]
    if lower is not None:
        found.append(at_least(*lower))
    if upper is not None:
        found.append(at_most(*upper))
    if digits is not None or places is not None:
        found.append(_counted(digits, places))
    return found or [DECIMAL]


def _counted(digits: int | None, places: int | None) -> str:
    """Decimals without an exponent, counted as pydantic does (``bounds.with_digits``)."""
    if digits == 0:
        return "(?!)"
    point = r"\."
    if digits is None:
        most = places or 0
        forms = [_with_places("[0-9]+", most)]
    elif places is None:
        most = digits
        forms = [_with_places(_whole(n), digits - n) for n in range(digits + 1)]
    elif has_zero(digits, places):
        most = places
        forms = [_with_places(_whole(digits - places), places)]
    else:
        most = min(places, digits)
        point = r"0*\."
        forms = []
    return "[+-]?" + any_of([*forms, point + _fraction(most, 1)])


def _with_places(whole: str, places: int) -> str:
    return rf"{whole}(?:\.{_fraction(places, 0)})?"


def _fraction(places: int, least: int) -> str:
    """At least so many digits behind a point, of which only zeros are behind the first ``places``."""
    return f"[0-9]{{{least},{places}}}0*" if places else "0+" if least else "0*"


def multiples(factor: Decimal) -> str | None:
    """Decimals that are multiples of ``factor``; None where that does not show in their last digits, or in too many."""
    _, digits, exponent = factor.normalize().as_tuple()
    places = max(-int(exponent), 0)
    number = int("".join(map(str, digits))) * 10 ** max(int(exponent), 0)  # factor, in units of the last place
    seen = next((n for n in range(5) if 10**n % number == 0), None)
    if seen is None or 10**seen // number > 400:
        return None
    seen = max(seen, places)
    ends = []
    more = f"[0-9]{{0,{max(26 - seen, 1)}}}"  # the remainder is computed in 28 digits
    for value in range(0, 10**seen, number):
        text = f"{value:0{seen}}" if seen else ""
        before, after = text[: seen - places], text[seen - places :].rstrip("0")
        whole = any_of([f"{more}{before}", before.lstrip("0") or "0"]) if before else f"[0-9]{more}"
        ends.append(whole + (rf"\.{after}0*" if after else r"(?:\.0*)?"))
        if len(ends) > 400:
            return None
    return f"[+-]?{any_of(ends)}"


def _whole(digits: int) -> str:
    return f"0*[0-9]{{1,{digits}}}" if digits > 0 else "0+"


def byte_sizes(units: Iterable[str]) -> str:
    """``pydantic.ByteSize``: a number and one of the units, upper or lower case."""
    spelled = ["".join(c if c.isdigit() else f"[{c.lower()}{c.upper()}]" for c in unit) for unit in units]
    return rf"(?:[0-9]{{1,15}}(?:\.[0-9]{{1,15}})?|\.[0-9]{{1,15}}) ?{any_of(sorted(spelled))}?"


# ------------------------------------------------------------------------------------------------- bytes

_STANDARD, _URL = "A-Za-z0-9+/", "A-Za-z0-9_-"
ASCII = r"[\x00-\x7f]*"


def base64(low: int, high: int | None, *, url: bool, text: bool) -> str:
    """Base64 (RFC 4648 sections 4 and 5, padded, no stray bits) of ``low`` to ``high`` bytes.

    Args:
        url: the alphabet of section 5.
        text: the bytes are ASCII. (All of UTF-8 would be regular too, with an expression beyond reading.)
    """
    free = f"[{_URL if url else _STANDARD}]"
    if text:  # the first bit of every byte is 0
        first, second, third = "[A-Za-f]", "[A-HQ-Xg-nw-z0-3]", "[ABEFIJMNQRUVYZcdghklopstwx014589]"
    else:
        first = second = third = free
    lone, pair = "[AQgw]", "[AEIMQUYcgkosw048]"
    group = f"(?:{first}{second}{third}{free})"
    found = []
    for rest, end in enumerate(("", f"{first}{lone}==", f"{first}{second}{pair}=")):
        least = max(-(-(low - rest) // 3), 0)
        most = None if high is None else (high - rest) // 3
        if most is None or most >= least:
            found.append(f"{group}{{{least},{'' if most is None else most}}}{end}")
    return any_of(found)


def hexadecimal(low: int, high: int | None) -> str:
    return f"(?:[0-9a-fA-F]{{2}}){{{low},{'' if high is None else high}}}"


def uuid(version: str) -> str:
    h = "[0-9a-fA-F]"
    return f"{h}{{8}}-{h}{{4}}-{version}{h}{{3}}-[89abAB]{h}{{3}}-{h}{{12}}"


# ------------------------------------------------------------------------------------------- IP networks

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_H = "[0-9a-fA-F]{1,4}"
IPV6 = any_of([
    f"(?:{_H}:){{7}}{_H}",
    f"(?:{_H}:){{1,7}}:",
    *(f"(?:{_H}:){{1,{7 - n}}}(?::{_H}){{1,{n}}}" for n in range(1, 7)),
    f":(?::{_H}){{1,7}}",
    "::",
    f"::(?:[fF]{{4}}:)?{IPV4}",
])  # fmt: skip
IPV4_INTERFACE = f"{IPV4}(?:/(?:3[0-2]|[12]?[0-9]))?"
IPV6_INTERFACE = f"{IPV6}(?:/{naturals(0, 128)})?"


@lru_cache(maxsize=1)
def ipv4_networks() -> str:
    """Addresses with a prefix length whose host bits are zero."""
    forms = [f"{IPV4}(?:/32)?"]
    for prefix in range(32):
        whole, bits = divmod(prefix, 8)
        octets = [_OCTET] * whole
        if bits:
            octets.append("(?:" + "|".join(str(n) for n in range(0, 256, 1 << (8 - bits))) + ")")
        octets += ["0"] * (4 - len(octets))
        forms.append(r"\.".join(octets) + f"/{prefix}")
    return any_of(forms)


@lru_cache(maxsize=1)
def ipv6_networks() -> str:
    """The same for IPv6, in every spelling that ``ipaddress`` writes: ``::`` behind the last group that counts, or
    before it."""
    forms = [IPV6, "::/0"]
    for q in range(8):  # the last group that counts, and how many of its bits do
        ends = [f"{_multiples(16 - r)}(?::0{{1,4}}){{{7 - q}}}/{16 * q + r}" for r in range(1, 17)]
        heads = [f"(?:{_H}:){{{q}}}"]
        heads += [f"{_groups(7 - j)}::(?:{_H}:){{{q - 8 + j}}}" for j in range(8 - q, 8)]
        forms.append(any_of(heads) + any_of(ends))
        forms.append(f"{_groups(q)}::/{naturals(16 * q + 1, 16 * q + 16)}")
        if q < 7:
            forms.append(f"(?:{_H}:){{{q}}}" + any_of([f"{_multiples(16 - r)}::/{16 * q + r}" for r in range(1, 17)]))
    return any_of(forms)


def _groups(most: int) -> str:
    """Up to ``most`` groups."""
    return f"(?:{_H}(?::{_H}){{0,{most - 1}}})?" if most > 0 else ""


def _multiples(bits: int) -> str:
    """A group whose last ``bits`` bits are zero."""
    if bits == 0:
        return _H
    nibbles, rest = divmod(bits, 4)
    choices = "".join(f"{n:x}{n:X}" if n > 9 else str(n) for n in range(0, 16, 1 << rest))
    return f"(?:[0-9a-fA-F]{{0,{3 - nibbles}}}[{choices}]0{{{nibbles}}}|0{{1,4}})" if bits < 16 else "0{1,4}"


# --------------------------------------------------------------------------------------- addresses of the web

_SAFE = r"0-9A-Za-z._~!$&'()*+,;=\-"
_HEX = "%[0-9A-Fa-f]{2}"
_USER = rf"(?:(?:[{_SAFE}]|{_HEX})+(?::(?:[{_SAFE}]|{_HEX})*)?@)?"
_PORT = "(?::(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[0-9]{0,4}))?"
_QUERY = rf"(?:\?(?:[{_SAFE}:@/?]|{_HEX})*)?(?:#(?:[{_SAFE}:@/?]|{_HEX})*)?"
_PATH = rf"(?:[{_SAFE}:@/]|{_HEX})*"
_NOT_XN = "(?![Xx][Nn]--)"  # whether what is behind xn-- decodes (IDNA) is no regular language
_LABEL = rf"{_NOT_XN}[0-9A-Za-z_](?:[0-9A-Za-z_\-]*[0-9A-Za-z_])?"
_LAST = rf"{_NOT_XN}[A-Za-z_](?:[0-9A-Za-z_\-]*[0-9A-Za-z_])?"  # a name that ends in a number is an address
_DOMAIN = rf"(?:{_LABEL}\.)*{_LAST}\.?"
_HOST = rf"(?:{_DOMAIN}|{IPV4}|\[{IPV6}\])"
_OPAQUE_HOST = rf"(?:(?:[{_SAFE}]|{_HEX})+|\[{IPV6}\])"
_SPECIAL = ("ftp", "http", "https", "ws", "wss")
"""Schemes whose hosts are domains or IPv4 addresses (WHATWG URL section 3.1)."""


def urls(schemes: Sequence[str] | None, host_required: bool) -> str:
    """URLs of these schemes (None: any). Hosts are written in ASCII, and without ``xn--``."""
    special = [s for s in _SPECIAL if schemes is None or s in schemes]
    found = []
    if special:
        found.append(f"{any_of(special)}://{_USER}{_HOST}{_PORT}(?:/{_PATH})?{_QUERY}")
    if schemes is None or "file" in schemes:
        found.append(f"file://(?:{_DOMAIN}|{IPV4})?/{_PATH}{_QUERY}")
    opaque = f"{_USER}{_OPAQUE_HOST}{_PORT}"
    opaque = opaque if host_required else f"(?:{opaque})?"
    if schemes is None:
        known = "[Ff][Tt][Pp]|[Hh][Tt][Tt][Pp][Ss]?|[Ww][Ss][Ss]?|[Ff][Ii][Ll][Ee]"
        name = rf"(?!(?:{known}):)[A-Za-z][0-9A-Za-z+.\-]*"
        found.append(f"{name}:(?://{opaque}(?:/{_PATH})?|(?!//){_PATH}){_QUERY}")
    else:
        others = [s for s in schemes if s not in _SPECIAL and s != "file"]
        if others:
            found.append(f"{any_of([_literal(s) for s in others])}://{opaque}(?:/{_PATH})?{_QUERY}")
    return any_of(found)


def multi_host_urls(schemes: Sequence[str] | None, host_required: bool) -> str:
    """URLs with several hosts (``postgres://user:pass@one:5432,two/db``)."""
    plain = _SAFE.replace(",", "")  # a comma divides the hosts
    opaque = rf"(?:(?:[{plain}]|{_HEX})+|\[{IPV6}\])"
    user = _USER.replace(",", "")
    found = []
    for special in (True, False):
        named = [s for s in schemes or () if (s in _SPECIAL) == special]
        if not named and not (special is False and schemes is None):
            continue
        names = any_of([_literal(s) for s in named]) if named else r"[A-Za-z][0-9A-Za-z+.\-]*"
        host = f"{_HOST if special else opaque}{_PORT}"
        hosts = f"{user}{host}(?:,{host})*"
        found.append(f"{names}://{hosts if special or host_required else f'(?:{hosts})?'}(?:/{_PATH})?{_QUERY}")
    return any_of(found)


def _literal(scheme: str) -> str:
    return scheme.replace(".", r"\.").replace("+", r"\+")


# -------------------------------------------------------------------------------------------------- mail

_ATEXT = r"[0-9A-Za-z!#$%&'*+/=?^_`{|}~\-]"
_RESERVED = any_of([
    "".join(f"[{c.upper()}{c}]" for c in name) for name in ("arpa", "invalid", "local", "localhost", "onion", "test")
])  # fmt: skip


def emails(end: str = "$") -> str:
    """Mail addresses as the package email-validator takes them: no quotes and no addresses in brackets, at least two
    labels without ``--`` in their third place, the last not one of RFC 6761's reserved names."""
    return rf"{_ATEXT}+(?:\.{_ATEXT}+)*@(?:{_label(_A)}\.)+(?!{_RESERVED}{end}){_label('[A-Za-z]')}"


_A, _LDH = "[0-9A-Za-z]", r"[0-9A-Za-z\-]"


def _label(last: str) -> str:
    """Up to 63 letters, digits and hyphens, the last out of ``last``, without ``--`` in the third place."""
    longer = f"{_LDH}(?:{_A}{_LDH}|-{_A}){_LDH}{{0,58}}"
    return f"(?:{last}|{_A}(?:{_LDH}{{0,2}}|{longer}){last})"


def named_emails() -> str:
    """An address, or a name before it in angle brackets."""
    name = r"[0-9A-Za-z_.!#$%&'*+/=?^`{|}~\-]{1,40}"
    return any_of([f"{name}(?: {name}){{0,4}} ?<{emails('>')}>", emails()])


def schemes_of(schema: Any) -> list[str] | None:
    """The allowed schemes of a core schema, in order."""
    schemes = schema.get("allowed_schemes")
    return sorted(schemes) if schemes else None

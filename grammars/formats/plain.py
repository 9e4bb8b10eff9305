"""Formats that a regular expression says in full."""

from __future__ import annotations

import re
from functools import lru_cache

from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import Expr
from structgen.grammars.regex import lower, parse

_HEX = "[0-9A-Fa-f]"
_POINTER = "(?:/(?:[^~/]|~[01])*)*"
UCSCHAR = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr(plane << 16 | (0x1000 if plane == 14 else 0))}-{chr(plane << 16 | 0xFFFD)}" for plane in range(1, 15)
)
IPRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"


@lru_cache(maxsize=512)
def pattern(text: str, encoding: Encoding) -> Expr:
    """The language of a Python regular expression with ASCII classes."""
    return lower(parse(text, re.ASCII), encoding)


def uuid(encoding: Encoding) -> Expr:
    """RFC 4122, section 3."""
    return pattern(f"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}", encoding)


def json_pointer(encoding: Encoding) -> Expr:
    """RFC 6901, section 5, as a text."""
    return pattern(_POINTER, encoding)


def relative_json_pointer(encoding: Encoding) -> Expr:
    """draft-handrews-relative-json-pointer-01, section 3."""
    return pattern(rf"(?:0|[1-9]\d*)(?:#|{_POINTER})", encoding)


def uri_template(encoding: Encoding) -> Expr:
    """RFC 6570, section 2, with the apostrophe as a literal (erratum 6937)."""
    escaped = f"%{_HEX}{{2}}"
    literal = rf"[!#$&-;=?-\[\]_a-z~{UCSCHAR}{IPRIVATE}]|{escaped}"
    char = f"(?:[0-9A-Za-z_]|{escaped})"
    variable = rf"{char}+(?:\.{char}+)*(?::[1-9]\d{{0,3}}|\*)?"
    return pattern(rf"(?:{literal}|\{{[+#./;?&]?{variable}(?:,{variable})*\}})*", encoding)

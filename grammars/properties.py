r"""Unicode properties by name: what ``\p{...}`` holds.

The table ``data/unicode.txt`` has the general categories, scripts, script extensions and blocks, and the binary
properties of ECMA-262; one Unicode release whatever Python runs (``VERSION`` reads it). Names are looked up as the
``regex`` package does: case, blanks, ``_`` and ``-`` do not count (Unicode's UAX44-LM3).
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from typing import Literal

from structgen.grammars.charset import ANY, EMPTY, CharSet

Kind = Literal["gc", "sc", "scx", "blk", "binary"]

_KINDS: dict[str, Kind] = {
    "GENERALCATEGORY": "gc", "GC": "gc", "SCRIPT": "sc", "SC": "sc", "SCRIPTEXTENSIONS": "scx", "SCX": "scx",
    "BLOCK": "blk", "BLK": "blk",
}  # fmt: skip
_GROUPS = {
    "LC": ("LU", "LL", "LT"), "CASEDLETTER": ("LU", "LL", "LT"), "LETTER": ("L",), "L&": ("L",), "MARK": ("M",),
    "COMBININGMARK": ("M",), "NUMBER": ("N",), "PUNCTUATION": ("P",), "PUNCT": ("P",), "SYMBOL": ("S",),
    "SEPARATOR": ("Z",), "OTHER": ("C",), **{letter: (letter,) for letter in "LMNPSZC"},
}  # fmt: skip
_YES, _NO = ("YES", "Y", "TRUE", "T"), ("NO", "N", "FALSE", "F")
_CASED = {"LU", "LL", "LT", "UPPERCASELETTER", "LOWERCASELETTER", "TITLECASELETTER"}


def find(name: str, value: str | None = None, *, ecma: bool = False, any_case: bool = False) -> CharSet:
    r"""The characters with a property.

    Args:
        name: the property, or its value alone (``\p{Lu}``, ``\p{Greek}``).
        value: what follows ``=`` or ``:``, if anything.
        ecma: only what ECMA-262 knows: no blocks, no bare script names.
        any_case: as ``regex`` reads the property with IGNORECASE: where it tells upper from lower case, any case.

    Raises:
        LookupError: no such property; the message names similar ones.
    """
    asked = _plain(name) if value is None else f"{_plain(name)}={_plain(value)}"
    found = _qualified(_plain(name), _plain(value), ecma, any_case) if value else _bare(_plain(name), ecma, any_case)
    if found is None:
        shown = name if value is None else f"{name}={value}"
        raise LookupError(f"there is no Unicode property {shown!r}{_similar(asked, ecma)}")
    return found


@lru_cache(maxsize=1)
def version() -> str:
    """The Unicode release of the table."""
    return _read()[0]


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).upper()


@lru_cache(maxsize=1)
def _read() -> tuple[str, dict[tuple[str, str], str]]:
    """The Unicode release, and (kind, name) -> ranges as written."""
    lines = (files(__package__) / "data" / "unicode.txt").read_text(encoding="ascii").splitlines()
    table = {}
    for line in lines:
        if not line.startswith("#"):
            kind, names, spans = line.split("\t")
            table.update({(kind, name): spans for name in names.split(",")})
    return lines[0].removeprefix("# Unicode "), table


@lru_cache(maxsize=256)
def _set(kind: Kind, name: str) -> CharSet | None:
    spans = _read()[1].get((kind, name))
    if spans is None:
        return None
    ranges, last = [], 0
    for part in spans.split():
        gap, _, more = part.partition(".")
        lo = last + int(gap, 16)
        last = lo + int(more or "0", 16)
        ranges.append((lo, last))
    return CharSet(ranges)


@lru_cache(maxsize=64)
def _category(name: str) -> CharSet | None:
    if name in ("CN", "UNASSIGNED"):
        return ~_category_union("")
    if name == "ASSIGNED":
        return _category_union("")
    prefixes = _GROUPS.get(name)
    if prefixes is None:
        return _set("gc", name)
    union = EMPTY
    for prefix in prefixes:
        union |= _category_union(prefix)
        if prefix == "C":
            union |= ~_category_union("")
    return union


def _category_union(prefix: str) -> CharSet:
    """The assigned characters of the categories that begin with ``prefix``."""
    ranges: list[tuple[int, int]] = []
    for kind, name in _read()[1]:
        if kind == "gc" and len(name) == 2 and name.startswith(prefix):
            ranges += (_set("gc", name) or EMPTY).ranges
    return CharSet(ranges)


def _qualified(name: str, value: str, ecma: bool, any_case: bool) -> CharSet | None:
    kind = _KINDS.get(name)
    if kind == "gc":
        return _category("LC" if any_case and value in _CASED else value)
    if kind == "sc" or kind == "scx":
        return _script(kind, value)
    if ecma:
        return None
    if kind == "blk":
        return _block(value)
    found = _binary(name, any_case)
    if found is None or value not in (*_YES, *_NO):
        return None
    # With IGNORECASE, regex reads Uppercase=No like Uppercase=Yes.
    return found if value in _YES or (any_case and found is _set("binary", "CASED")) else ~found


def _script(kind: Kind, value: str) -> CharSet | None:
    if value in ("UNKNOWN", "ZZZZ"):
        return ~CharSet(r for name in _names("sc") for r in (_set("sc", name) or EMPTY).ranges)
    found = _set("scx", value) if kind == "scx" else None
    return _set("sc", value) if found is None else found


def _block(value: str) -> CharSet | None:
    if value in ("NOBLOCK", "NB"):
        return ~CharSet(r for name in _names("blk") for r in (_set("blk", name) or EMPTY).ranges)
    return _set("blk", value)


def _binary(name: str, any_case: bool) -> CharSet | None:
    return _set("binary", "CASED" if any_case and name in ("UPPERCASE", "UPPER", "LOWERCASE", "LOWER") else name)


def _bare(name: str, ecma: bool, any_case: bool) -> CharSet | None:
    if name in ("ANY", "ASCII"):
        return ANY if name == "ANY" else CharSet([(0, 0x7F)])
    if any_case and name in _CASED:
        return _category("LC")
    found = _category(name)
    if found is None and not ecma:
        found = _first(_script("sc", name), _block(name))
    if found is None:
        found = _binary(name, any_case)
        if found is None and name in ("ALNUM", "ALPHANUMERIC") and not ecma:
            return (_set("binary", "ALPHABETIC") or EMPTY) | (_category("ND") or EMPTY)
    if found is None and not ecma and name.startswith("IS"):
        found = _first(_set("binary", name[2:]), _script("sc", name[2:]))
    if found is None and not ecma and name.startswith("IN"):
        found = _block(name[2:])
    return found


def _first(*found: CharSet | None) -> CharSet | None:
    return next((chars for chars in found if chars is not None), None)


def _names(kind: Kind) -> list[str]:
    return [name for each, name in _read()[1] if each == kind]


def _similar(asked: str, ecma: bool) -> str:
    known = [*_GROUPS, *_names("gc"), *_names("binary"), "ANY", "ASCII", "ASSIGNED"]
    known += [f"{prefix}={name}" for prefix in ("SCRIPT", "SC", "SCX") for name in _names("sc")]
    if not ecma:
        known += [*_names("sc"), *(f"IN{name}" for name in _names("blk"))]
    elif _set("sc", asked) is not None:
        return f"; ECMA-262 writes \\p{{Script={asked.capitalize()}}}"
    close = get_close_matches(asked, known, n=3, cutoff=0.7)
    return f" (Unicode {version()}); similar: {', '.join(close)}" if close else f" (Unicode {version()})"


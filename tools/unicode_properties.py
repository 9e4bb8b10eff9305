"""Write grammars/data/unicode.txt, the Unicode properties behind ``\\p{...}``, from the ``regex`` package.

    python tools/unicode_properties.py

``regex`` follows one release of the Unicode Character Database whatever Python runs it, so the table is the same
everywhere; the package is needed here and in the tests only. Its description says which release that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import metadata
from pathlib import Path

import regex
from regex import _regex

TARGET = Path(__file__).resolve().parents[1] / "grammars" / "data" / "unicode.txt"
EVERY = "".join(map(chr, range(0x110000)))
_BINARY = """
    ASCII_Hex_Digit Alphabetic Bidi_Control Case_Ignorable Cased Changes_When_Casefolded Changes_When_Casemapped
    Changes_When_Lowercased Changes_When_Titlecased Changes_When_Uppercased Dash Default_Ignorable_Code_Point Deprecated
    Diacritic Emoji Emoji_Component Emoji_Modifier Emoji_Modifier_Base Emoji_Presentation Extended_Pictographic Extender
    Grapheme_Base Grapheme_Extend Hex_Digit IDS_Binary_Operator IDS_Trinary_Operator ID_Continue ID_Start Ideographic
    Join_Control Logical_Order_Exception Lowercase Math Noncharacter_Code_Point Pattern_Syntax Pattern_White_Space
    Quotation_Mark Radical Regional_Indicator Sentence_Terminal Soft_Dotted Terminal_Punctuation Unified_Ideograph
    Uppercase Variation_Selector White_Space XID_Continue XID_Start
"""
"""The binary properties of ECMA-262 (table 70) that ``regex`` knows."""


def ranges(test: str) -> list[tuple[int, int]]:
    return [(found.start(), found.end() - 1) for found in regex.finditer(f"(?:{test})+", EVERY)]


def encoded(spans: Iterable[tuple[int, int]]) -> str:
    """Each range as hexadecimal ``gap.more``: the distance from the end of the last one, and how many characters
    follow its first (left out when none)."""
    parts, last = [], 0
    for lo, hi in spans:
        parts.append(f"{lo - last:x}.{hi - lo:x}" if hi > lo else f"{lo - last:x}")
        last = hi
    return " ".join(parts)


def plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).upper()


def values(prop: str) -> Iterator[list[str]]:
    """The names of each value of a property, longest first."""
    names: dict[int, list[str]] = {}
    for name, number in _regex.get_properties()[prop][1].items():
        names.setdefault(number, []).append(name)
    for found in names.values():
        yield sorted(found, key=lambda name: (-len(name), name))


def line(kind: str, names: list[str], spans: list[tuple[int, int]]) -> str:
    return f"{kind}\t{','.join(names)}\t{encoded(spans)}"


def lines() -> Iterator[str]:
    for names in values("GC"):
        if any(len(name) == 2 and name.isalpha() for name in names) and not {"LC", "CN"} & set(names):
            yield line("gc", names, ranges(rf"\p{{gc={names[0]}}}"))
    for names in values("SC"):
        if "ZZZZ" in names:
            continue
        script, extended = (ranges(rf"\p{{{prop}={names[0]}}}") for prop in ("sc", "scx"))
        yield line("sc", names, script)
        if extended != script:
            yield line("scx", names, extended)
    properties = _regex.get_properties()
    for name in _BINARY.split():
        number = properties[plain(name)][0]
        names = sorted((key for key, (each, _) in properties.items() if each == number), key=lambda n: (-len(n), n))
        yield line("binary", names, ranges(rf"\p{{{name}=Yes}}"))
    for names in values("BLK"):
        if "NB" not in names:
            yield line("blk", names, ranges(rf"\p{{blk={names[0]}}}"))


def main() -> None:
    found = re.search(r"supports Unicode ([0-9.]*[0-9])", str(metadata("regex").get_payload()))
    if not found:
        raise SystemExit("the regex package does not say which Unicode release it supports")
    header = [
        f"# Unicode {found[1]}",
        f"# From the Unicode Character Database, (c) Unicode, Inc., by way of the regex package {regex.__version__}.",
        "# Written by tools/unicode_properties.py: kind, names, ranges (gap.more in hexadecimal, see there).",
    ]
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text("\n".join([*header, *lines()]) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()

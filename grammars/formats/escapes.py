r"""The escapes of ECMA-262 patterns: what may come next in ``\u``, in the names of groups and in ``\p{...}``."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from importlib.resources import files
from typing import Any

from structgen.grammars import properties
from structgen.grammars.charset import MAX_CODE_POINT, CharSet

HEX = "0123456789abcdefABCDEF"
LEAD, TRAIL = (0xD800, 0xDBFF), (0xDC00, 0xDFFF)
"""The surrogates that begin and end a pair."""


def joined(lead: int, trail: int) -> int:
    return 0x10000 + ((lead - 0xD800) << 10) + trail - 0xDC00


def reaches(place: Any, value: int, most: int) -> bool:
    """Whether hexadecimal digits behind ``value`` can make a value that fits at ``place``."""
    if place is None or place[0] == "member":
        return True
    low: int = place[1]
    if place[2] is not None:
        return bool(place[2] >= low)
    first, last = value, value
    while first <= most:
        if min(last, most) >= low:
            return True
        if last == 0:
            return low <= most
        first, last = first << 4, last << 4 | 15
    return False


def brief(text: str) -> str:
    """Digits that go on like these, where only the size counts."""
    if text in ("0", "1"):
        return text
    return ("10" if text.startswith("10") else "20")[: len(text)].ljust(len(text), "0")


def spellable(read: str, allowed: CharSet) -> dict[str, int | None]:
    r"""What may come next in a ``\u`` escape (without its backslash) of a character out of ``allowed``: the
    character, and the code point if it completes the escape."""
    return _spell(read, len(allowed), allowed)


@lru_cache(maxsize=4096)
def _spell(read: str, _: int, allowed: CharSet) -> dict[str, int | None]:
    if not read:
        return {"u": None}
    found: dict[str, int | None] = {}
    if read.startswith("u{"):
        value = int(read[2:] or "0", 16)
        if len(read) > 2 and value in allowed:
            found["}"] = value
        for digit in HEX:
            lo = hi = int(read[2:] + digit, 16)
            while lo <= MAX_CODE_POINT:
                if allowed & CharSet([(lo, min(hi, MAX_CODE_POINT))]):
                    found[digit] = None
                    break
                if hi == 0:
                    found[digit] = None
                    break
                lo, hi = lo << 4, hi << 4 | 15
        return found
    if len(read) < 5:
        for digit in HEX:
            text = read[1:] + digit
            lo, hi = int(text.ljust(4, "0"), 16), int(text.ljust(4, "f"), 16)
            if len(text) == 4 and lo in allowed and not 0xD800 <= lo <= 0xDFFF:
                found[digit] = lo
            elif len(text) < 4 and allowed & CharSet([(lo, min(hi, 0xD7FF)), (max(lo, 0xE000), hi)]):
                found[digit] = None
            elif hi >= LEAD[0] and lo <= LEAD[1]:
                pairs = (joined(max(lo, LEAD[0]), TRAIL[0]), joined(min(hi, LEAD[1]), TRAIL[1]))
                if allowed & CharSet([pairs]):
                    found[digit] = None
        if len(read) == 1:
            found["{"] = None
        return found
    if len(read) < 7:
        return {"\\u"[len(read) - 5]: None}
    lead = int(read[1:5], 16)
    for digit in HEX:
        text = read[7:] + digit
        lo = max(int(text.ljust(4, "0"), 16), TRAIL[0])
        hi = min(int(text.ljust(4, "f"), 16), TRAIL[1])
        if lo <= hi and allowed & CharSet([(joined(lead, lo), joined(lead, hi))]):
            found[digit] = joined(lead, lo) if len(text) == 4 else None
    return found


@lru_cache(maxsize=1)
def id_start() -> CharSet:
    return (properties.find("ID_Start") | CharSet.of("$_")) - CharSet([(0xD800, 0xDFFF)])


@lru_cache(maxsize=1)
def id_continue() -> CharSet:
    return (properties.find("ID_Continue") | CharSet.of("$\u200c\u200d")) - CharSet([(0xD800, 0xDFFF)])


@lru_cache(maxsize=1)
def property_names() -> dict[str, list[str]]:
    """Sorted names, each with what must follow it."""
    lines = (files("structgen.grammars") / "data" / "ecma_properties.txt").read_text(encoding="ascii").splitlines()
    names = {}
    for line in lines:
        if not line.startswith("#"):
            kind, words = line.split("\t")
            names[kind] = [word + "}" for word in words.split()]
    bare = [*names["binary"], *names["gc"], "General_Category=", "gc=", "Script=", "sc=", "Script_Extensions=", "scx="]
    return {"binary gc": sorted(bare), "gc": sorted(names["gc"]), "sc": sorted(names["sc"])}


@lru_cache(maxsize=4096)
def property_chars(kinds: str, read: str) -> dict[str, str]:
    """What may come next in a property, and the names that are behind it."""
    names = property_names()[kinds]
    found: dict[str, str] = {}
    for name in names[bisect_left(names, read) :]:
        if not name.startswith(read):
            break
        char = name[len(read)]
        found[char] = ("gc" if read in ("gc", "General_Category") else "sc") if char == "=" else kinds
    return found

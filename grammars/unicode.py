"""Unicode character classes exactly as the standard library's ``re`` sees them.

The sets are read off ``re`` itself (one scan over the code points that can matter), so they follow the
Unicode version of the running Python. Case variants follow ``sre_compile``: simple lower case plus the table
of characters that share an upper case (K-sign, long s, ...). Backreferences and ECMA-262 compare characters
one by one instead (``equal``, ``closed``).
"""

from __future__ import annotations

import _sre  # type: ignore[import-not-found]
import re
import sys
from functools import lru_cache

from structgen.grammars.charset import ANY, CharSet
from structgen.grammars.pattern import Fold

if sys.version_info >= (3, 11):
    from re import _casefix  # type: ignore[attr-defined]

    _EXTRA_CASES: dict[int, tuple[int, ...]] = _casefix._EXTRA_CASES
else:
    import sre_compile

    _EXTRA_CASES = sre_compile._ignorecase_fixes  # type: ignore[attr-defined]

# Planes 4-13 are unassigned and 15-16 private use: no digit, letter, space or cased character there.
_SCANNED = ((0, 0x3FFFF), (0xE0000, 0xE0FFF))
_CASED_BELOW = 0x20000

ASCII = CharSet([(0, 0x7F)])
ASCII_DIGIT = CharSet.range("0", "9")
ASCII_WORD = CharSet([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
ASCII_SPACE = CharSet.of(" \t\n\r\f\v")
ECMA_SPACE = CharSet.range("\u2000", "\u200a") | CharSet.of(
    "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
)
ECMA_NEWLINE = CharSet.of("\n\r\u2028\u2029")


@lru_cache(maxsize=1)
def _scanned_text() -> tuple[str, tuple[int, ...]]:
    code_points = tuple(c for lo, hi in _SCANNED for c in range(lo, hi + 1))
    return "".join(map(chr, code_points)), code_points


@lru_cache(maxsize=8)
def category(name: str) -> CharSet:
    r"""``"digit"``, ``"space"`` or ``"word"``: the Unicode meaning of ``\d``, ``\s``, ``\w`` in ``re``."""
    text, code_points = _scanned_text()
    spans = re.finditer({"digit": r"\d+", "space": r"\s+", "word": r"\w+"}[name], text)
    edges = [m.span() for m in spans]
    ranges = []
    jump = _SCANNED[0][1] + 1  # a run must not be read across the gap between the scanned planes
    for start, end in edges:
        for a, b in ((start, min(end, jump)), (max(start, jump), end)):
            if a < b:
                ranges.append((code_points[a], code_points[b - 1]))
    return CharSet(ranges)


@lru_cache(maxsize=1)
def _lowered() -> dict[int, list[int]]:
    """lower case -> the other characters that have it."""
    table: dict[int, list[int]] = {}
    for code in range(_CASED_BELOW):
        lower = _sre.unicode_tolower(code)
        if lower != code:
            table.setdefault(lower, []).append(code)
    return table


@lru_cache(maxsize=1)
def _not_lower() -> CharSet:
    return CharSet((c, c) for upper in _lowered().values() for c in upper)


@lru_cache(maxsize=4096)
def ignore_case(chars: CharSet, ascii_only: bool) -> CharSet:
    """What ``[chars]`` matches with ``re.IGNORECASE`` (``re.ASCII`` as well if ``ascii_only``)."""
    if ascii_only:
        found = list(chars.ranges)
        for lo, hi in (chars & CharSet.range("A", "Z")).ranges:
            found.append((lo + 32, hi + 32))
        for lo, hi in (chars & CharSet.range("a", "z")).ranges:
            found.append((lo - 32, hi - 32))
        return CharSet(found)
    lowers = {_sre.unicode_tolower(c) for c in chars & _cased()}
    for lower in tuple(lowers):
        lowers.update(_EXTRA_CASES.get(lower, ()))
    table = _lowered()
    found = list((chars - _not_lower()).ranges)
    for lower in lowers:
        found.append((lower, lower))
        found += [(c, c) for c in table.get(lower, ())]
    return CharSet(found)


@lru_cache(maxsize=1)
def _cased() -> CharSet:
    """Characters that some other character equals when case is ignored."""
    return _not_lower() | CharSet((c, c) for c in _lowered()) | CharSet((c, c) for c in _EXTRA_CASES)


def negate(chars: CharSet) -> CharSet:
    """Every other code point."""
    return ANY - chars


_SIMPLE_FOLDS = {0x1FD3: 0x390, 0x1FE3: 0x3B0, 0xFB05: 0xFB06}
"""Simple case foldings (CaseFolding.txt, status S) of characters whose full folding is longer and whose lower case
is the character itself."""


def _canonical(code: int, fold: Fold) -> int:
    """What two characters that are equal under ``fold`` share."""
    if fold == "python":
        return int(_sre.unicode_tolower(code))
    if fold == "python_ascii":
        return int(_sre.ascii_tolower(code))
    char = chr(code)
    if fold == "ecma":  # ECMA-262, Canonicalize without the u flag
        upper = char.upper()
        return code if len(upper) != 1 or (code >= 128 > ord(upper)) else ord(upper)
    full, lower = char.casefold(), char.lower()
    return _SIMPLE_FOLDS.get(code, ord(full) if len(full) == 1 else ord(lower) if len(lower) == 1 else code)


@lru_cache(maxsize=4)
def _classes(fold: Fold) -> dict[int, tuple[int, ...]]:
    """Each character that equals others -> all of them."""
    members: dict[int, list[int]] = {}
    for code in range(_CASED_BELOW):
        members.setdefault(_canonical(code, fold), []).append(code)
    return {code: tuple(found) for found in members.values() if len(found) > 1 for code in found}


def equal(code: int, fold: Fold) -> CharSet:
    """The characters that equal one under ``fold``."""
    found = _classes(fold).get(code, (code,)) if fold else (code,)
    return CharSet((c, c) for c in found)


@lru_cache(maxsize=4096)
def closed(chars: CharSet, fold: Fold) -> CharSet:
    """The characters that equal one of ``chars`` under ``fold``."""
    cased = _cased_under(fold) if fold else CharSet(())
    return chars | CharSet((c, c) for code in chars & cased for c in _classes(fold)[code])


@lru_cache(maxsize=4)
def _cased_under(fold: Fold) -> CharSet:
    return CharSet((c, c) for c in _classes(fold))

"""How characters are spelled in bytes: UTF-8 as is, or inside a JSON string.

A language over code points becomes one over bytes by replacing each character set; since every byte
string decodes to at most one text, intersection and complement commute with that (complement relative
to ``any_text``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from structgen.grammars.charset import ANY, CharSet
from structgen.grammars.expr import EPSILON, NEVER, Expr, literal, rep, seq, switch, words

_SHORT = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}


class Encoding(Protocol):
    """Spelling of characters in bytes. Implementations are hashable and compare by identity.

    Attributes:
        name: the same in every process.
    """

    name: str

    def __hash__(self) -> int: ...

    def chars(self, chars: CharSet) -> Expr:
        """One character out of ``chars``, in any spelling."""

    def spellings(self, char: str) -> tuple[bytes, ...]:
        """Every spelling of one character."""

    def text(self, text: str) -> Expr:
        """Exactly ``text``, in any spelling."""

    def words(self, items: Mapping[str, int], tail: bytes = b"") -> Expr:
        """Any of the texts, each with its outcome, closed by ``tail``."""

    @property
    def any_text(self) -> Expr:
        """Every text."""


class _Base:
    name: str

    def chars(self, chars: CharSet) -> Expr:
        raise NotImplementedError

    def spellings(self, char: str) -> tuple[bytes, ...]:
        raise NotImplementedError

    def text(self, text: str) -> Expr:
        parts = []
        for char in text:
            spellings = self.spellings(char)
            parts.append(literal(spellings[0]) if len(spellings) == 1 else self.chars(CharSet.of(char)))
        return seq(*parts)

    def words(self, items: Mapping[str, int], tail: bytes = b"") -> Expr:
        return words(items, self, tail)

    @property
    def any_text(self) -> Expr:
        return rep(self.chars(ANY))


class _Utf8(_Base):
    name = "utf-8"

    @lru_cache(maxsize=4096)  # noqa: B019 - one instance, lives as long as the process
    def chars(self, chars: CharSet) -> Expr:
        return utf8_switch(chars)

    def spellings(self, char: str) -> tuple[bytes, ...]:
        return () if 0xD800 <= ord(char) <= 0xDFFF else (char.encode(),)


class _JsonString(_Base):
    """The inside of a JSON string (RFC 8259 section 7). ``canonical``: one spelling a character, the one
    that ``json.dumps(ensure_ascii=False)`` writes; else every spelling, ``\\u`` escapes included."""

    def __init__(self, canonical: bool) -> None:
        self.canonical = canonical
        self.name = "json canonical" if canonical else "json"

    @lru_cache(maxsize=4096)  # noqa: B019
    def chars(self, chars: CharSet) -> Expr:
        raw = chars - _MUST_ESCAPE
        cases = list(utf8_switch(raw).cases) if raw and utf8_switch(raw) is not NEVER else []  # type: ignore[attr-defined]
        escaped = chars & _MUST_ESCAPE if self.canonical else chars
        after: list[tuple[int, int, Expr]] = [
            (ord(short), ord(short), EPSILON) for char, short in _SHORT.items() if ord(char) in escaped
        ]
        unicode = escaped - CharSet.of("".join(_SHORT)) if self.canonical else escaped
        units: list[tuple[int, int, Expr]] = []
        for lo, hi in unicode.ranges:
            for a, b in ((lo, min(hi, 0xD7FF)), (max(lo, 0xE000), min(hi, 0xFFFF))):
                if a <= b:
                    units.append((a, b, EPSILON))
        units += _surrogate_pairs(unicode)
        if units:
            after.append((ord("u"), ord("u"), _hex_switch(tuple(units), 4, self.canonical)))
        if after:
            cases.append((0x5C, 0x5C, switch(after)))
        return switch(cases)

    @lru_cache(maxsize=65536)  # noqa: B019
    def spellings(self, char: str) -> tuple[bytes, ...]:
        code = ord(char)
        if 0xD800 <= code <= 0xDFFF:
            return ()
        must = code in _MUST_ESCAPE
        found = [] if must else [char.encode()]
        short = _SHORT.get(char)
        if short and (must or not self.canonical):
            found.append(b"\\" + short.encode())
        if self.canonical:
            return tuple(found) if found else (b"\\u%04x" % code,)
        if code > 0xFFFF:
            code -= 0x10000
            high = _cased_hex(0xD800 + (code >> 10))
            low = _cased_hex(0xDC00 + (code & 0x3FF))
            found += [b"\\u" + h + b"\\u" + l for h in high for l in low]
        else:
            found += [b"\\u" + h for h in _cased_hex(code)]
        return tuple(found)


_MUST_ESCAPE = CharSet([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])


def _cased_hex(unit: int) -> list[bytes]:
    spelled = [""]
    for digit in f"{unit:04x}":
        spelled = [s + d for s in spelled for d in ({digit, digit.upper()})]
    return [s.encode() for s in spelled]


def _surrogate_pairs(chars: CharSet) -> list[tuple[int, int, Expr]]:
    """Cases over the high surrogate, each followed by the escaped low one."""
    lows: dict[int, list[tuple[int, int]]] = {}
    full: list[tuple[int, int]] = []
    for lo, hi in chars.ranges:
        lo, hi = max(lo, 0x10000) - 0x10000, hi - 0x10000
        if lo > hi:
            continue
        first, last = lo >> 10, hi >> 10
        if lo & 0x3FF:
            lows.setdefault(first, []).append((lo & 0x3FF, 0x3FF if last > first else hi & 0x3FF))
            first += 1
        if first <= last and hi & 0x3FF != 0x3FF:
            lows.setdefault(last, []).append((0, hi & 0x3FF))
            last -= 1
        if first <= last:
            full.append((first, last))

    def low(ranges: list[tuple[int, int]]) -> Expr:
        units = CharSet((0xDC00 + a, 0xDC00 + b) for a, b in ranges).ranges
        return seq(literal(b"\\u"), _hex_switch(tuple((a, b, EPSILON) for a, b in units), 4, False))

    cases = [(0xD800 + a, 0xD800 + b, low([(0, 0x3FF)])) for a, b in full]
    cases += [(0xD800 + h, 0xD800 + h, low(r)) for h, r in lows.items()]
    return cases


def _hex_switch(cases: tuple[tuple[int, int, Expr], ...], digits: int, lower_only: bool) -> Expr:
    """``digits`` hexadecimal digits whose value lies in one of the (lo, hi, rest)."""
    if digits == 0:
        return cases[0][2]
    shift = 4 * (digits - 1)
    below: list[list[tuple[int, int, Expr]]] = [[] for _ in range(16)]
    for lo, hi, rest in cases:
        for digit in range(lo >> shift, (hi >> shift) + 1):
            base = digit << shift
            below[digit].append((max(lo - base, 0), min(hi - base, (1 << shift) - 1), rest))
    made: list[tuple[int, int, Expr]] = []
    memo: dict[tuple[tuple[int, int, Expr], ...], Expr] = {}
    for digit, inner in enumerate(below):
        if inner:
            key = tuple(inner)
            rest = memo.get(key) or memo.setdefault(key, _hex_switch(key, digits - 1, lower_only))
            spelled = {f"{digit:x}"} if lower_only else {f"{digit:x}", f"{digit:X}"}
            made += [(ord(c), ord(c), rest) for c in spelled]
    return switch(made)


_UTF8_BOUNDS = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)


def _utf8_sequences(lo: int, hi: int) -> list[tuple[tuple[int, int], ...]]:
    """Byte-range sequences covering the code points ``lo..hi`` (no surrogates)."""
    if lo > hi:
        return []
    for bound in _UTF8_BOUNDS:
        if lo <= bound < hi:
            return _utf8_sequences(lo, bound) + _utf8_sequences(bound + 1, hi)
    if hi <= 0x7F:
        return [((lo, hi),)]
    for bits in (6, 12, 18):
        mask = (1 << bits) - 1
        if (lo & ~mask) != (hi & ~mask):
            if lo & mask:
                return _utf8_sequences(lo, lo | mask) + _utf8_sequences((lo | mask) + 1, hi)
            if hi & mask != mask:
                return _utf8_sequences(lo, (hi & ~mask) - 1) + _utf8_sequences(hi & ~mask, hi)
    return [tuple(zip(chr(lo).encode(), chr(hi).encode(), strict=True))]


def utf8_switch(chars: CharSet) -> Expr:
    """One character of ``chars`` in UTF-8; surrogates are left out."""
    sequences = []
    for lo, hi in chars.ranges:
        for a, b in ((lo, min(hi, 0xD7FF)), (max(lo, 0xE000), hi)):
            sequences += _utf8_sequences(a, b)
    return _join(sequences)


def _join(sequences: list[tuple[tuple[int, int], ...]]) -> Expr:
    grouped: dict[tuple[int, int], list[tuple[tuple[int, int], ...]]] = {}
    for first, *rest in sequences:
        grouped.setdefault(first, []).append(tuple(rest))
    return switch(
        [(lo, hi, EPSILON if rests == [()] else _join(rests)) for (lo, hi), rests in grouped.items()]
    )


UTF8: Encoding = _Utf8()
JSON_ANY: Encoding = _JsonString(canonical=False)
JSON_CANONICAL: Encoding = _JsonString(canonical=True)

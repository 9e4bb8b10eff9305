"""CharSet: an immutable set of Unicode code points, as sorted disjoint ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

MAX_CODE_POINT = 0x10FFFF


class CharSet:
    """Sorted, disjoint, non-adjacent inclusive ranges ``(lo, hi)`` of code points. Surrogates
    (U+D800..U+DFFF) may occur in ranges; encodings drop them, since no UTF-8 text holds one."""

    __slots__ = ("_hash", "_inverse", "ranges")
    ranges: tuple[tuple[int, int], ...]
    _hash: int
    _inverse: CharSet | None

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        merged: list[tuple[int, int]] = []
        for lo, hi in sorted(ranges):
            if merged and lo <= merged[-1][1] + 1:
                if hi > merged[-1][1]:
                    merged[-1] = (merged[-1][0], hi)
            elif lo <= hi:
                merged.append((lo, hi))
        self.ranges = tuple(merged)
        self._hash = hash(self.ranges)
        self._inverse = None

    @classmethod
    def of(cls, chars: str) -> CharSet:
        return cls((ord(c), ord(c)) for c in chars)

    @classmethod
    def range(cls, lo: str, hi: str) -> CharSet:
        return cls([(ord(lo), ord(hi))])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CharSet) and self.ranges == other.ranges

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __len__(self) -> int:
        return sum(hi - lo + 1 for lo, hi in self.ranges)

    def __iter__(self) -> Iterator[int]:
        for lo, hi in self.ranges:
            yield from range(lo, hi + 1)

    def __contains__(self, code_point: int) -> bool:
        i = bisect_right(self.ranges, (code_point, MAX_CODE_POINT + 1)) - 1
        return i >= 0 and self.ranges[i][0] <= code_point <= self.ranges[i][1]

    def __or__(self, other: CharSet) -> CharSet:
        if not other.ranges or self is other:
            return self
        return CharSet(self.ranges + other.ranges) if self.ranges else other

    def __invert__(self) -> CharSet:
        if self._inverse is None:
            gaps, at = [], 0
            for lo, hi in self.ranges:
                if lo > at:
                    gaps.append((at, lo - 1))
                at = hi + 1
            if at <= MAX_CODE_POINT:
                gaps.append((at, MAX_CODE_POINT))
            self._inverse = _normal(tuple(gaps))
            self._inverse._inverse = self
        return self._inverse

    def __and__(self, other: CharSet) -> CharSet:
        short, long = (self, other) if len(self.ranges) <= len(other.ranges) else (other, self)
        if short is long:
            return self
        ranges, found = long.ranges, []
        for lo, hi in short.ranges:
            # The ranges of `long` are sorted: start at the first that may reach `lo`.
            i = bisect_right(ranges, (lo, MAX_CODE_POINT + 1)) - 1
            if i < 0 or ranges[i][1] < lo:
                i += 1
            while i < len(ranges) and ranges[i][0] <= hi:
                a, b = ranges[i]
                found.append((a if a > lo else lo, b if b < hi else hi))
                i += 1
        return _normal(tuple(found))

    def __sub__(self, other: CharSet) -> CharSet:
        return self & ~other

    def __repr__(self) -> str:
        def show(c: int) -> str:
            return repr(chr(c))[1:-1] if 32 <= c < 127 else f"\\u{{{c:x}}}"

        inner = "".join(show(lo) if lo == hi else f"{show(lo)}-{show(hi)}" for lo, hi in self.ranges[:8])
        return f"CharSet[{inner}{'...' if len(self.ranges) > 8 else ''}]"


def _normal(ranges: tuple[tuple[int, int], ...]) -> CharSet:
    """A set from ranges that are sorted, disjoint and not adjacent already."""
    made = CharSet.__new__(CharSet)
    made.ranges, made._hash, made._inverse = ranges, hash(ranges), None
    return made


EMPTY = CharSet(())
ANY = CharSet([(0, MAX_CODE_POINT)])
NEWLINE = CharSet.of("\n")

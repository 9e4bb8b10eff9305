r"""Patterns that are surely read, and surely found in some text, as a glance shows: what most schemas hold.

Reading a pattern into a tree and the tree into an expression takes most of a millisecond, and most patterns of a
schema are never reached. So a schema is only made sure of at first: this recogniser knows common patterns in time
linear in their length. It says nothing about all others.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_LENGTH = 400

_PUNCTUATION = r"!-\/:-@\[-`{-~"
_RANGE = r"[A-Za-z0-9]-[A-Za-z0-9]"
_PLAIN_MEMBER = rf"{_RANGE}-?|[^\\\]\[^-]|\\[tnrvf{_PUNCTUATION}]"
_CLASS = rf"\[-?(?:{_PLAIN_MEMBER}|\\[dDwWsS])+-?\]|\[\^-?(?:{_PLAIN_MEMBER}|\\[dws]){{1,40}}-?\]"
_ATOM = rf"(?:[^\\^$.|?*+()\[\]{{}}]|\.|\\[dDwWsStnrvf{_PUNCTUATION}]|{_CLASS})"
_TIMES = r"(?:(?:[*+?]|\{\d{1,3}(?:,(?:\d{1,3})?)?\})\??)?"


def _grouped(inner: str) -> str:
    return rf"(?:(?:{_ATOM}|\((?:\?:)?(?:{inner}|\|)*\)){_TIMES})"


_BRANCH = rf"\^?{_grouped(_grouped(_grouped(_grouped(_ATOM + _TIMES))))}*\$?"
_BRANCHES = rf"{_BRANCH}(?:\|{_BRANCH})*"
_PLAIN = re.compile(rf"{_BRANCHES}|\((?:\?:)?{_BRANCHES}\)", re.ASCII)
_COUNTS = re.compile(r"\{(\d+),(\d+)\}")
_CLASSES = re.compile(r"\\.|\[((?:\\.|[^\]\\])*)\]", re.DOTALL)
_RANGES = re.compile("(?=([A-Za-z0-9])-([A-Za-z0-9]))")


@lru_cache(maxsize=4096)
def is_plain(pattern: str) -> bool:
    """Whether ``pattern`` is surely an ECMA-262 pattern within all limits, and found in some JSON string: characters,
    classes, groups, alternatives and counts, with anchors at the ends only."""
    if len(pattern) > MAX_LENGTH or not pattern.isascii() or not _PLAIN.fullmatch(pattern):
        return False
    return all(int(lo) <= int(hi) for lo, hi in _COUNTS.findall(pattern)) and all(
        lo <= hi for inside in _CLASSES.findall(pattern) for lo, hi in _RANGES.findall(inside)
    )


_NESTED = re.compile(r"\)[*+{]")
_LOOPS = re.compile(r"[*+]|,\d*\}")
_RESERVED = ("--", "&&", "||", "~~", "[[")


@lru_cache(maxsize=1024)
def quick(pattern: str) -> re.Pattern[str] | None:
    """What says of short, printable ASCII texts whether ``pattern`` is found in them; None where that may differ, or
    take long. On such texts the two dialects agree on plain patterns, save for what Python reserves in classes."""
    if not is_plain(pattern) or _NESTED.search(pattern) or len(_LOOPS.findall(pattern)) > 3:
        return None
    if any(pair in pattern for pair in _RESERVED):
        return None
    return re.compile(pattern, re.ASCII)

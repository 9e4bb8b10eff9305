"""Pairs of regular expressions that match a common text: a lint for the terminals of a lexer.

Two terminals of one priority that match the same text are chosen between by rules that authors rarely know. The
``interegular`` package decides most pairs; what it cannot read (lookbehind, word boundaries, backreferences, large
counts) is decided by a search for a text in the intersection of our own expressions.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from structgen.errors import GrammarError, GrammarTooComplex
from structgen.grammars import regex
from structgen.grammars.expr import NEVER, Expr, both

MAX_DERIVATIVES = 3000
MAX_COUNT = 100
"""Larger counts become too many states in interegular, which has no counters."""


@dataclass(frozen=True)
class Collision:
    """Two patterns that match ``example``; None where no example was found in time, though there is one, and
    ``decided`` is False where it was not decided whether there is."""

    first: str
    second: str
    example: str | None
    decided: bool = True

    def __str__(self) -> str:
        if not self.decided:
            return f"{self.first} and {self.second}: not decided in time whether some text matches both"
        shown = "the same texts" if self.example is None else repr(self.example)
        return f"{self.first} and {self.second} both match {shown}; give one a priority, or make them differ"


def collisions(patterns: Mapping[str, str], *, flags: int = 0) -> list[Collision]:
    """The pairs of ``patterns`` (name -> Python regex) that match a common text, in the order of the names.

    Raises:
        GrammarError: a pattern is broken or unsupported; the message begins with its name.
    """
    exact: dict[str, Expr] = {}
    for name, pattern in patterns.items():
        try:
            exact[name] = regex.lower(regex.parse(pattern, flags, ordered=False))
        except GrammarError as error:
            raise type(error)(f"pattern {name}: {error}") from None
    comparator = _comparator(patterns) if not flags else None
    return list(_collisions(patterns, exact, comparator))


def _collisions(patterns: Mapping[str, str], exact: Mapping[str, Expr], comparator: Any) -> Iterator[Collision]:
    read = comparator._patterns if comparator is not None else {}
    for first, second in combinations(patterns, 2):
        if all(name in read and comparator.get_fsm(name) is not None for name in (first, second)):
            if comparator.isdisjoint(first, second):
                continue
            yield Collision(first, second, _example(comparator, patterns, first, second))
            continue
        try:
            text = _common_text(exact[first], exact[second])
        except GrammarTooComplex:
            yield Collision(first, second, None, decided=False)
        else:
            if text is not None:
                yield Collision(first, second, text)


def _comparator(patterns: Mapping[str, str]) -> Any:
    """interegular's comparator over the patterns that it reads as ``re`` does; None where it is not installed."""
    try:
        import interegular
    except ImportError:
        return None
    read = {}
    log = logging.getLogger("interegular")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        for name, pattern in patterns.items():
            counts = [int(n) for n in re.findall(r"\{(?:\d*,)?(\d+)", pattern)]
            # \w, \d, \s and case are ASCII in interegular, and \b and \p{..} are letters to it.
            others = re.search(r"\\[wWdDsSbBpPZA]|\(\?", pattern)
            if others or max(counts, default=0) > MAX_COUNT or not pattern.isascii():
                continue
            try:
                read[name] = interegular.parse_pattern(pattern)
            except (interegular.Unsupported, interegular.InvalidSyntax):
                continue
        return interegular.Comparator(read)
    finally:
        log.setLevel(level)


def _example(comparator: Any, patterns: Mapping[str, str], first: str, second: str) -> str | None:
    try:
        text: str = comparator.get_example_overlap(first, second, 0.2).full_text
    except ValueError:
        return None
    return text if all(re.fullmatch(patterns[name], text) for name in (first, second)) else None


def _common_text(first: Expr, second: Expr) -> str | None:
    """A shortest text in both languages; None where there is none. Raises GrammarTooComplex after a while."""
    start = both(first, second)
    came: dict[Expr, tuple[Expr, int] | None] = {start: None}
    queue, left = [start], MAX_DERIVATIVES
    for at in queue:
        if at is NEVER:
            continue
        if at.outcomes:
            return _text(came, at)
        for byte, mask in at.classes():
            left -= 1
            after = at.derive(byte)
            if after not in came:
                came[after] = (at, _readable(mask))
                queue.append(after)
        if left < 0:
            raise GrammarTooComplex(f"no common text found in {MAX_DERIVATIVES} steps")
    return None


def _readable(mask: int) -> int:
    """A letter out of a set of bytes, if it holds one, else its lowest byte."""
    for byte in b"abcdefghijklmnopqrstuvwxyzABCXYZ0123456789_ -.":
        if mask >> byte & 1:
            return byte
    return (mask & -mask).bit_length() - 1


def _text(came: Mapping[Expr, tuple[Expr, int] | None], at: Expr) -> str:
    made = bytearray()
    step = came[at]
    while step is not None:
        made.append(step[1])
        step = came[step[0]]
    return bytes(reversed(made)).decode(errors="replace")

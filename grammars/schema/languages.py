"""How large a language is: whether keys can run out.

Counting states is dear, and most languages are so large that a look at their structure tells as much: ``raw`` is a
lower bound that costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

from structgen.errors import GrammarTooComplex
from structgen.grammars.encoding import JSON_CANONICAL
from structgen.grammars.expr import (
    NEVER,
    Alt,
    And,
    Expr,
    Literal,
    Not,
    Out,
    Rep,
    Seq,
    Switch,
    Words,
    both,
    is_code,
)
from structgen.grammars.residual import store

MAX_STATES = 5_000
MANY = 1_000_000
"""From here on a language counts as endless: no text has so many keys."""


_BACKSLASH = 0x5C


@lru_cache(maxsize=8192)
def raw(expr: Expr) -> int:
    """At least so many strings of the language hold no backslash, up to ``MANY``: as insides of JSON strings they are
    different texts. Cheap; 0 where the structure does not tell."""
    if isinstance(expr, Out):
        return 1
    if isinstance(expr, Literal):
        return int(_BACKSLASH not in expr.data)
    if isinstance(expr, Switch):
        found = 0
        for lo, hi, rest in expr.cases:
            found += (hi - lo + 1 - (lo <= _BACKSLASH <= hi)) * raw(rest)
        return min(found, MANY)
    if isinstance(expr, Alt):
        return max(map(raw, expr.items))
    if isinstance(expr, Seq):
        # With one string for each of the others, different strings of a part stay different.
        best, at = 1, expr
        while True:
            part = raw(at.head)
            if not part:
                return 0
            best = max(best, part)
            if not isinstance(at.tail, Seq):
                part = raw(at.tail)
                return max(best, part) if part else 0
            at = at.tail
    if isinstance(expr, Rep):
        return _raw_turns(expr)
    if isinstance(expr, Words):
        return 0 if expr.partial else sum(_is_raw(text) for text, _ in expr.node.items)
    if isinstance(expr, And):
        return _raw_rest(expr)
    return 0


def _raw_turns(expr: Rep) -> int:
    lo, hi, body = expr.lo, expr.hi, raw(expr.body)
    if not body:
        return int(lo == 0)
    if hi is None:
        return MANY
    lengths = min(hi - lo + 1, MANY)  # one string of the body, more or less often
    if body == 1 or not is_code(expr.body):
        return max(lengths, body if lo <= 1 else 0)
    found: int = sum(body**turns for turns in range(max(lo, hi - 20), hi + 1))
    return min(found, MANY)


def _raw_rest(expr: And) -> int:
    """One language but for some words: no word has two spellings without a backslash."""
    found, barred = None, 0
    for item in expr.items:
        if isinstance(item, Not) and isinstance(item.body, Words):
            barred += len(item.body.node.items)
        elif found is None and not item.boolean:
            found = raw(item)
        else:
            return 0
    return 0 if found is None else found if found >= MANY else max(found - barred, 0)


_ESCAPED = frozenset(map(chr, range(0x20))) | {'"', "\\"}


def _is_raw(text: str) -> bool:
    return _ESCAPED.isdisjoint(text)


@lru_cache(maxsize=8192)
def holds(expr: Expr, wanted: int) -> bool:
    """Whether the language, insides of JSON strings, has at least so many different texts."""
    return raw(expr) >= wanted or distinct(expr, wanted) >= wanted


def distinct(expr: Expr, limit: int) -> int:
    """How many texts, at most ``limit``: every text has one canonical spelling."""
    if expr is NEVER:
        return 0
    if raw(expr) >= limit or endless(expr):
        return limit
    return size(both(expr, JSON_CANONICAL.any_text), limit)


@lru_cache(maxsize=8192)
def is_spare(expr: Expr, text: str, others: int) -> bool:
    """Whether the language (insides of JSON strings, in every spelling of each text) can do without ``text`` and
    ``others`` more at any point: whatever begins a spelling of ``text``, all of it included, goes on to more texts
    than those. (Half an escape goes on as the whole of it does.)"""
    if endless(expr):
        return True
    try:
        for char in ("", *text):
            for byte in next(iter(JSON_CANONICAL.spellings(char)), b"") if char else b"":
                expr = expr.derive(byte)
            if expr is NEVER:
                return True
            if not holds(expr, others + 2):
                return False
    except GrammarTooComplex:
        return False
    return True


@lru_cache(maxsize=1024)
def size(expr: Expr, limit: int = MANY) -> int:
    """The number of strings in the language, at most ``limit`` (also for infinite ones)."""
    short = _count(expr.clamped(12), limit) if not expr.boolean else 0
    return short if short >= limit else _count(expr, limit)


def _count(expr: Expr, limit: int = MANY) -> int:
    alive = store().state
    counts: dict[Expr, int] = {}
    on_path: set[Expr] = set()
    stack: list[tuple[Expr, Iterator[tuple[Expr, int]]]] = []

    def after(at: Expr) -> Iterator[tuple[Expr, int]]:
        for byte, mask in at.classes():
            left = at.derive(byte)
            if left is not NEVER and alive(left) is not None:
                yield left, mask.bit_count()

    if expr is NEVER or alive(expr) is None:
        return 0
    at = expr
    counts[at] = 1 if at.outcomes else 0
    on_path.add(at)
    stack.append((at, after(at)))
    while stack:
        at, left = stack[-1]
        if counts[at] >= limit:
            return limit  # it is reached, so the whole has no fewer
        step = next(left, None)
        if step is None:
            stack.pop()
            on_path.discard(at)
            continue
        each, times = step
        if each in on_path:
            return limit  # a loop through states that all lead to an end
        if each in counts:
            counts[at] += times * counts[each]
            continue
        if len(counts) >= MAX_STATES:
            raise GrammarTooComplex(
                f"the property names allowed here need more than {MAX_STATES} states to count; simplify their patterns"
            )
        # It is looked up again when it has been counted.
        stack[-1] = (at, chain([step], left))
        counts[each] = 1 if each.outcomes else 0
        on_path.add(each)
        stack.append((each, after(each)))
    return counts[expr]


@lru_cache(maxsize=1024)
def endless(expr: Expr, fuel: int = 2_000) -> bool:
    """Whether every prefix of a string in the language leads to more strings than a text can use up. When in
    doubt, False."""
    if expr.boolean or not _is_unbounded(expr):
        return False
    seen, queue = {expr}, [expr]
    try:
        while queue:
            at = queue.pop()
            if raw(at) < MANY and (not _is_unbounded(at) or _count(at) < MANY):
                return False
            for byte, _ in at.classes():
                left = at.derive(byte)
                if left is not NEVER and left not in seen:
                    seen.add(left)
                    queue.append(left)
            if len(seen) > fuel:
                return False
    except GrammarTooComplex:
        return False
    return True


@lru_cache(maxsize=8192)
def _is_unbounded(expr: Expr) -> bool:
    """Whether there may be strings of any length: if not, nothing follows the longest one."""
    if isinstance(expr, (Out, Literal, Words)):
        return False
    if isinstance(expr, Switch):
        return any(_is_unbounded(rest) for _, _, rest in expr.cases)
    if isinstance(expr, Alt):
        return any(map(_is_unbounded, expr.items))
    if isinstance(expr, Seq):
        at: Expr = expr
        while isinstance(at, Seq):
            if _is_unbounded(at.head):
                return True
            at = at.tail
        return _is_unbounded(at)
    return not isinstance(expr, Rep) or expr.hi is None or _is_unbounded(expr.body)

"""How large a language is: whether keys can run out.

Counting states is dear, and most languages are so large that a look at their structure tells as much: ``raw`` is a
lower bound that costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

from structgen.errors import GrammarTooComplex
from structgen.grammars.charset import ANY
from structgen.grammars.encoding import JSON_ANY, JSON_CANONICAL
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
LOOK = 100  # states
MAX_READ = 10_000  # beginnings of texts that are remembered,
REMEMBERED = 100  # of so many characters
FOUND_FUEL = 1_000  # derivatives
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
        return max(lengths, body if lo <= 1 else 0, _sized_turns(expr, 0, MANY))
    found: int = sum(body**turns for turns in range(max(lo, hi - 20), hi + 1))
    return min(found, MANY)


def _raw_rest(expr: And) -> int:
    """One language but for some words (no word has two spellings without a backslash), and of some length."""
    main: Expr | None = None
    barred, lo, hi = 0, 0, MANY
    for item in expr.items:
        if isinstance(item, Not) and isinstance(item.body, Words):
            barred += len(item.body.node.items)
        elif isinstance(item, Rep) and item.body in _ANY_CHAR:
            lo, hi = max(lo, item.lo), min(hi, MANY if item.hi is None else item.hi)
        elif main is None and not item.boolean:
            main = item
        else:
            return 0
    if main is None:
        return 0
    found = raw(main) if lo == 0 and hi == MANY else sized(main, lo, hi)
    return found if found >= MANY else max(found - barred, 0)


_ANY_CHAR = (JSON_CANONICAL.chars(ANY), JSON_ANY.chars(ANY))


@lru_cache(maxsize=8192)
def sized(expr: Expr, lo: int, hi: int) -> int:
    """At least so many strings of ``lo`` to ``hi`` characters hold ASCII without a backslash only, up to ``MANY``."""
    least = short(expr)
    if least is None or least > hi:
        return 0
    if isinstance(expr, (Out, Literal)):
        return int(lo <= least)
    if isinstance(expr, Switch):
        found = sum(_plain_bytes(a, b) * sized(rest, max(lo - 1, 0), hi - 1) for a, b, rest in expr.cases)
        return min(found, MANY)
    if isinstance(expr, Alt):
        return max(sized(item, lo, hi) for item in expr.items)
    if isinstance(expr, Seq):
        best, at = 0, expr
        while True:
            best = max(best, _one_part(at.head, least, lo, hi))
            if not isinstance(at.tail, Seq):
                return max(best, _one_part(at.tail, least, lo, hi))
            at = at.tail
    if isinstance(expr, Rep):
        return _sized_turns(expr, lo, hi)
    return 0


def _one_part(part: Expr, least: int, lo: int, hi: int) -> int:
    """``sized`` of a sequence with at least ``least`` characters in which only one part is more than its shortest."""
    others = least - (short(part) or 0)
    return sized(part, max(lo - others, 0), hi - others)


def _sized_turns(expr: Rep, lo: int, hi: int) -> int:
    least = short(expr.body)
    if not least:
        return 0
    # Strings of one length follow each other in one way only.
    each, most = sized(expr.body, least, least), hi // least
    most = most if expr.hi is None else min(most, expr.hi)
    first = max(-(-lo // least), expr.lo, most - 20)
    found: int = sum(each**turns for turns in range(first, most + 1))
    return min(found, MANY)


@lru_cache(maxsize=8192)
def short(expr: Expr) -> int | None:
    """The length of a short string of ASCII without a backslash; None where the structure shows none."""
    if isinstance(expr, Out):
        return 0
    if isinstance(expr, Literal):
        return len(expr.data) if expr.data.isascii() and _BACKSLASH not in expr.data else None
    if isinstance(expr, (Switch, Alt)):
        parts = expr.items if isinstance(expr, Alt) else [r for a, b, r in expr.cases if _plain_bytes(a, b)]
        found = [least for part in parts if (least := short(part)) is not None]
        return min(found, default=None) if isinstance(expr, Alt) else 1 + min(found) if found else None
    if isinstance(expr, Seq):
        total, at = 0, expr
        while True:
            part = short(at.head)
            if part is None:
                return None
            total += part
            if not isinstance(at.tail, Seq):
                part = short(at.tail)
                return None if part is None else total + part
            at = at.tail
    if isinstance(expr, Rep):
        if not expr.lo:
            return 0
        body = short(expr.body)
        return None if body is None else expr.lo * body
    return None


def _plain_bytes(lo: int, hi: int) -> int:
    """How many of the bytes are ASCII and no backslash."""
    hi = min(hi, 0x7F)
    return max(hi - lo + 1, 0) - (lo <= _BACKSLASH <= hi)


_ESCAPED = frozenset(map(chr, range(0x20))) | {'"', "\\"}


def _is_raw(text: str) -> bool:
    return _ESCAPED.isdisjoint(text)


@lru_cache(maxsize=8192)
def holds(expr: Expr, wanted: int) -> bool:
    """Whether the language, insides of JSON strings, has at least so many different texts."""
    return (
        raw(expr) >= wanted
        or _found(expr, wanted) >= wanted
        or size(both(expr, JSON_CANONICAL.any_text), wanted) >= wanted
    )


def _found(root: Expr, wanted: int) -> int:
    """So many strings without a backslash, up to ``wanted``, were found within a limit."""
    if root.boolean:
        return 0
    fuel = FOUND_FUEL
    counts = {root: int(root.outcomes != ())}
    stack = [(root, root.classes())]
    while stack:
        at, left = stack[-1]
        if counts[at] >= wanted:
            return wanted
        step = next(left, None)
        if step is None or fuel <= 0:
            stack.pop()
            if stack:
                counts[stack[-1][0]] += counts[at]  # for one byte of its class
            continue
        byte, mask = step
        mask &= ~(1 << _BACKSLASH)
        if not mask:
            continue
        fuel -= 1
        after = at.derive(byte if mask >> byte & 1 else (mask & -mask).bit_length() - 1)
        if after in counts:  # on the way, or seen: as many as are known by now
            counts[at] += mask.bit_count() * counts[after]
        elif after is not NEVER:
            counts[after] = int(after.outcomes != ())
            if mask.bit_count() > 1:
                counts[at] += (mask.bit_count() - 1) * counts[after]
            stack.append((after, after.classes()))
    return counts[root]


def distinct(expr: Expr, limit: int) -> int:
    """How many texts, at most ``limit``: every text has one canonical spelling."""
    if expr is NEVER:
        return 0
    if raw(expr) >= limit or endless(expr):
        return limit
    return size(both(expr, JSON_CANONICAL.any_text), limit)


@lru_cache(maxsize=2048)
def is_spare(expr: Expr, text: str, others: int) -> bool:
    """Whether the language (insides of JSON strings, in every spelling of each text) can do without ``text`` and
    ``others`` more at any point: whatever begins a spelling of ``text``, all of it included, goes on to more texts
    than those. (Half an escape goes on as the whole of it does.)"""
    if endless(expr):
        return True
    read = _beginnings(expr, others)
    if len(read) > MAX_READ:
        read.clear()
        read[""] = _with_more(expr, others)
    known = min(len(text), REMEMBERED)
    while text[:known] not in read:
        known -= 1
    at = read[text[:known]]
    while known < len(text) and at is not None and at is not NEVER:
        for byte in next(iter(JSON_CANONICAL.spellings(text[known])), b""):
            at = at.derive(byte)
        at = _with_more(at, others)
        known += 1
        if known <= REMEMBERED:
            read[text[:known]] = at
    return at is not None


@lru_cache(maxsize=64)
def _beginnings(expr: Expr, others: int) -> dict[str, Expr | None]:
    """Beginnings of texts -> what is left of the language; None if that is no more than ``others`` and one."""
    return {"": _with_more(expr, others)}


def _with_more(expr: Expr, others: int) -> Expr | None:
    try:
        return expr if expr is NEVER or holds(expr, others + 2) else None
    except GrammarTooComplex:
        return None


@lru_cache(maxsize=1024)
def size(expr: Expr, limit: int = MANY) -> int:
    """The number of strings in the language, at most ``limit`` (also for infinite ones)."""
    short = _count(expr.clamped(12), limit) if not expr.boolean else 0
    return short if short >= limit else _count(expr, limit)


def _count(expr: Expr, limit: int = MANY, most: int = MAX_STATES) -> int:
    alive = store().state
    counts: dict[Expr, int] = {}
    on_path: set[Expr] = set()
    stack: list[tuple[Expr, Iterator[tuple[Expr, int]]]] = []

    def after(at: Expr) -> Iterator[tuple[Expr, int]]:
        for byte, mask in at.classes():
            left = at.derive(byte)
            if left is not NEVER and not (left.boolean and alive(left) is None):
                yield left, mask.bit_count()

    if expr is NEVER or (expr.boolean and alive(expr) is None):
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
        if len(counts) >= most:
            raise GrammarTooComplex(
                f"the property names allowed here need more than {most} states to count; simplify their patterns"
            )
        # It is looked up again when it has been counted.
        stack[-1] = (at, chain([step], left))
        counts[each] = 1 if each.outcomes else 0
        on_path.add(each)
        stack.append((each, after(each)))
    return counts[expr]


@lru_cache(maxsize=1024)
def endless(expr: Expr) -> bool:
    """Whether every prefix of a string in the language leads to more strings than a text can use up. When in
    doubt, and where it takes more than a look, False."""
    if expr.boolean or raw(expr) < MANY or not _is_unbounded(expr):
        return False
    seen, queue = {expr}, [expr]
    try:
        while queue:
            at = queue.pop()
            if raw(at) < MANY and (not _is_unbounded(at) or _count(at, MANY, LOOK) < MANY):
                return False
            for byte, _ in at.classes():
                left = at.derive(byte)
                if left is not NEVER and left not in seen:
                    seen.add(left)
                    queue.append(left)
            if len(seen) > LOOK:
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

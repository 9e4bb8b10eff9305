"""How large a language is: whether keys can run out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

from structgen.errors import GrammarTooComplex
from structgen.grammars.expr import NEVER, Expr
from structgen.grammars.residual import store

MAX_STATES = 5_000
MANY = 1_000_000
"""From here on a language counts as endless: no text has so many keys."""


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
    if expr.boolean:
        return False
    seen, queue = {expr}, [expr]
    while queue:
        at = queue.pop()
        for byte, _ in at.classes():
            left = at.derive(byte)
            if left is not NEVER and left not in seen:
                seen.add(left)
                queue.append(left)
        if len(seen) > fuel:
            return False
    try:
        return all(_count(each) >= MANY for each in seen)
    except GrammarTooComplex:
        return False
